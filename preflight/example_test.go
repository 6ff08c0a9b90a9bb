package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redisevents/restatestart/internal/adminapi/adminapitest"
	"github.com/redisevents/restatestart/preflight"
)

// A check finds a misspelt handler, and a retention that is shorter than an outage may last.
func ExampleChecker_Check() {
	restate := adminapitest.New("1.7.12") // stands in for Restate's admin API, with a workflow BonusPayout whose handler is run
	checker, err := preflight.New(preflight.Options{
		AdminURL:         "http://restate:9070",
		Workflows:        []preflight.Workflow{{Name: "BonusPayout", Handler: "Run"}},
		RedeliveryWindow: 72 * time.Hour,
		HTTPClient:       restate.Client(),
	})
	if err != nil {
		panic(err)
	}
	err = checker.Check(context.Background())
	if failed, ok := errors.AsType[*preflight.Error](err); ok {
		for _, finding := range failed.Findings {
			fmt.Println(finding.Code, "-", finding.Text)
		}
	} else if err != nil {
		fmt.Println("try again later:", err)
	}
	// Output:
	// retention - BonusPayout: its workflow_completion_retention of 1d is shorter than the redelivery window of 72h0m0s
	// handler_unknown - BonusPayout: it has no handler Run; the one that runs the workflow is run
}
