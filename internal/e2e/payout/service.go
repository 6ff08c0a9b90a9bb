// Package payout is a workflow service that records what it ran, so that a test can compare that with what Restate
// reports.
package payout

import (
	"testing"

	restate "github.com/restatedev/sdk-go"
)

const (
	// Workflow is the name of a service that was given none.
	Workflow = "BonusPayout"
	// Handler is the name of the workflow's one handler.
	Handler = "run"
)

// Input is what one start carries.
type Input struct {
	BetID  string  `json:"betId"`
	Amount float64 `json:"amount"`
}

// Service serves the payout workflow under one name, and records its runs.
type Service struct {
	*Record
	*Endpoint
}

// NewService serves the payout workflow as name, or as BonusPayout ([Workflow]) when it is empty, until Close. Restate
// knows it once its URL is registered.
func NewService(name string) (*Service, error) {
	if name == "" {
		name = Workflow
	}
	record := newRecord()
	endpoint, err := Serve(restate.NewWorkflow(name).Handler(Handler, restate.NewWorkflowHandler(record.run)))
	if err != nil {
		return nil, err
	}
	return &Service{Record: record, Endpoint: endpoint}, nil
}

// StartService is NewService for a test: the service closes with the test.
func StartService(tb testing.TB, name string) *Service {
	tb.Helper()
	service, err := NewService(name)
	if err != nil {
		tb.Fatal(err)
	}
	closeWith(tb, service.Endpoint)
	return service
}

// run is the workflow: it pays once.
func (r *Record) run(ctx restate.WorkflowContext, input Input) (restate.Void, error) {
	key := restate.Key(ctx)
	r.enter(key, input)
	payment, err := restate.Run(ctx, func(restate.RunContext) (int, error) { return r.pay(), nil })
	if err != nil {
		return restate.Void{}, err
	}
	r.complete(key, payment)
	return restate.Void{}, nil
}
