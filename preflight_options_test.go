package restatestart_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

func TestNewConsumerNamesThePreflightsFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "nowhere.invalid:1"})
	t.Cleanup(func() { _ = client.Close() })
	type workflows = []restatestart.PreflightWorkflow
	for text, change := range map[string]func(*restatestart.Preflight){
		"AdminURL: no URL is given":                                    func(p *restatestart.Preflight) { p.AdminURL = "" },
		"AdminURL: not an http or https URL":                           func(p *restatestart.Preflight) { p.AdminURL = "restate:9070" },
		"AdminURL: the URL of host restate has a query":                func(p *restatestart.Preflight) { p.AdminURL = "http://restate?x" },
		"AdminURL: not a valid URL; what is wrong is not shown":        func(p *restatestart.Preflight) { p.AdminURL = "http://u:p/ss@restate" },
		"Workflows: at least one is required":                          func(p *restatestart.Preflight) { p.Workflows = nil },
		"Workflows: number 1 has no Name":                              func(p *restatestart.Preflight) { p.Workflows = workflows{bonus, {}} },
		"Workflows: number 0 is not valid UTF-8":                       func(p *restatestart.Preflight) { p.Workflows = workflows{{Name: "\xff"}} },
		"Workflows: BonusPayout has an Input of 7, which there is not": func(p *restatestart.Preflight) { p.Workflows = workflows{{Name: "BonusPayout", Input: 7}} },
		"Workflows: BonusPayout with handler run is there twice": func(p *restatestart.Preflight) {
			p.Workflows = workflows{bonus, {Name: "BonusPayout", Handler: "run", Input: 1}}
		},
		"RedeliveryWindow: -1s is negative":                              func(p *restatestart.Preflight) { p.RedeliveryWindow = -time.Second },
		"RedeliveryWindow: 48ns is below a millisecond; is the unit mis": func(p *restatestart.Preflight) { p.RedeliveryWindow = 48 },
		"Timeout: -1s is negative":                                       func(p *restatestart.Preflight) { p.Timeout = -time.Second },
		"Timeout: 5ns is below a millisecond; is the unit missing?":      func(p *restatestart.Preflight) { p.Timeout = 5 },
		"Header: header name \"a b\" is not valid":                       func(p *restatestart.Preflight) { p.Header = http.Header{"a b": {"x"}} },
		"Header: both the URL's userinfo and an Authorization header": func(p *restatestart.Preflight) {
			p.AdminURL, p.Header = "http://u:p@restate", http.Header{"Authorization": {"x"}}
		},
	} {
		preflight := restatestart.Preflight{AdminURL: "http://restate:9070", Workflows: workflows{bonus}}
		change(&preflight)
		_, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], &recorder{},
			restatestart.ConsumerOptions{Consumer: "payout", Preflight: &preflight})
		require.ErrorContains(t, err, "restatestart: ConsumerOptions.Preflight."+text)
	}
	given := restatestart.Preflight{AdminURL: "http://restate:9070", Workflows: workflows{bonus}}
	consumer, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], &recorder{},
		restatestart.ConsumerOptions{Consumer: "payout", Preflight: &given})
	require.NoError(t, err)
	assert.Empty(t, given.Workflows[0].Handler, "what was given is left as it was")
	assert.Equal(t, &restatestart.PreflightStatus{State: restatestart.PreflightPending}, consumer.Status().Preflight)
}
