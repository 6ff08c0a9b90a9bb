package preflight_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/preflight"
)

func TestNewNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	type workflows = []preflight.Workflow
	for text, change := range map[string]func(*preflight.Options){
		"AdminURL: no URL is given":                        func(o *preflight.Options) { o.AdminURL = "" },
		"AdminURL: not an http or https URL":               func(o *preflight.Options) { o.AdminURL = "restate:9070" },
		"AdminURL: the URL of host restate has a query":    func(o *preflight.Options) { o.AdminURL = "http://restate?x" },
		"AdminURL: not a valid URL; details are not shown": func(o *preflight.Options) { o.AdminURL = "http://u:p/ss@restate" },
		"Workflows: at least one is required":              func(o *preflight.Options) { o.Workflows = nil },
		"Workflows[1]: no Name":                            func(o *preflight.Options) { o.Workflows = workflows{bonus, {}} },
		"Workflows[0]: not valid UTF-8":                    func(o *preflight.Options) { o.Workflows = workflows{{Name: "\xff"}} },
		"Workflows[1]: not valid UTF-8": func(o *preflight.Options) {
			o.Workflows, o.Handler = workflows{{Name: "A", Handler: "run"}, bonus}, "\xff"
		},
		"Workflows[0]: BonusPayout has an unknown Input, 7": func(o *preflight.Options) { o.Workflows = workflows{{Name: "BonusPayout", Input: 7}} },
		"Workflows[1]: BonusPayout with handler run is a duplicate": func(o *preflight.Options) {
			o.Workflows = workflows{bonus, {Name: "BonusPayout", Handler: "run", Input: 1}}
		},
		"RedeliveryWindow: -1s is negative":                               func(o *preflight.Options) { o.RedeliveryWindow = -time.Second },
		"RedeliveryWindow: 48ns is below a millisecond; is the unit miss": func(o *preflight.Options) { o.RedeliveryWindow = 48 },
		"Timeout: -1s is negative":                                        func(o *preflight.Options) { o.Timeout = -time.Second },
		"Timeout: 5ns is below a millisecond; is the unit missing?":       func(o *preflight.Options) { o.Timeout = 5 },
		"Header: header name \"a b\" is not valid":                        func(o *preflight.Options) { o.Header = http.Header{"a b": {"x"}} },
		"Header: both the URL's userinfo and an Authorization header": func(o *preflight.Options) {
			o.AdminURL, o.Header = "http://u:p@restate", http.Header{"Authorization": {"x"}}
		},
	} {
		options := preflight.Options{AdminURL: "http://restate:9070", Workflows: workflows{bonus}}
		change(&options)
		_, err := preflight.New(options)
		require.ErrorContains(t, err, "preflight: Options."+text)
	}
	given := preflight.Options{AdminURL: "http://restate:9070", Workflows: workflows{bonus}}
	_, err := preflight.New(given)
	require.NoError(t, err)
	assert.Empty(t, given.Workflows[0].Handler, "the caller's slice is unchanged")
}
