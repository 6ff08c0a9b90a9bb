package preflight

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/redisevents/restatestart/internal/adminapi"
	"github.com/redisevents/restatestart/internal/defaults"
	"github.com/redisevents/restatestart/internal/ingress"
	"github.com/redisevents/restatestart/internal/text"
)

// Defaults of Options.
const (
	DefaultHandler = "run"
	DefaultTimeout = 5 * time.Second
)

// Options say which workflows to check, and where. AdminURL and Workflows are required; the zero value of every other field
// is its default, and a negative or contradictory one is an error from New.
type Options struct {
	// AdminURL is the base URL of Restate's admin API, such as http://restate:9070. A path prefix is kept; a query or
	// a fragment is an error. Userinfo is sent as basic authentication. Required.
	AdminURL string

	// Workflows are those that will be started, with the handler and the input of their starts. At least one is required,
	// and none may appear twice.
	Workflows []Workflow

	// Handler is the handler of the workflows that name none. Restate compares names to the letter. Defaults to "run"; a
	// redisstream.Consumer whose handler is a Starter sets it to that Starter's Handler.
	Handler string

	// RedeliveryWindow is the longest time after which a message may be delivered again: the longest outage you plan for, and
	// how far back you would ever reset a position. Once Restate has forgotten a completed workflow, a message delivered again
	// runs it again, so a shorter retention is a finding. At least a millisecond; zero, the default, leaves retention unchecked.
	RedeliveryWindow time.Duration

	// Timeout bounds one request to the admin API, from dial to the end of the answer. A check makes one request for each
	// workflow, and one more for each with InputNone whose handler accepts a body. Defaults to 5 s.
	Timeout time.Duration

	// Header is sent with every request; an Authorization, for example. One in both Header and AdminURL is an error.
	Header http.Header

	// HTTPClient is used as it is, except that redirects are never followed. Defaults to a client that keeps no idle
	// connection and uses the proxy that the environment names.
	HTTPClient *http.Client
}

// Workflow is one workflow to check.
type Workflow struct {
	// Name is the workflow's name, to the letter. Required.
	Name string
	// Handler is the handler that is started. Defaults to Options.Handler.
	Handler string
	// Input is what a start of it carries. Defaults to InputJSON.
	Input InputKind
}

// InputKind is what a start carries, as far as Restate validates it.
type InputKind int

const (
	// InputJSON is a body of application/json.
	InputJSON InputKind = iota
	// InputNone is neither a body nor a Content-Type: a Start whose Input is nil.
	InputNone
	// InputUnchecked is anything else. The handler's input is not checked.
	InputUnchecked
)

// withDefaults fills in the zero fields and rejects invalid ones. The result shares no workflow with the original.
func (o Options) withDefaults() (Options, error) {
	if err := errors.Join(
		defaults.SetDuration("Timeout", &o.Timeout, DefaultTimeout),
		defaults.SetDuration("RedeliveryWindow", &o.RedeliveryWindow, 0),
	); err != nil {
		return o, err
	}
	if err := ingress.CheckHeader(o.Header); err != nil {
		return o, fmt.Errorf("Header: %w", err)
	}
	if o.Handler == "" {
		o.Handler = DefaultHandler
	}
	if len(o.Workflows) == 0 {
		return o, errors.New("Workflows: at least one is required")
	}
	o.Workflows = slices.Clone(o.Workflows)
	type target struct{ name, handler string }
	seen := make(map[target]bool, len(o.Workflows))
	for i := range o.Workflows {
		workflow := &o.Workflows[i]
		if workflow.Handler == "" {
			workflow.Handler = o.Handler
		}
		key := target{workflow.Name, workflow.Handler}
		switch {
		case workflow.Name == "":
			return o, fmt.Errorf("Workflows[%d]: no Name", i)
		case !utf8.ValidString(workflow.Name) || !utf8.ValidString(workflow.Handler):
			return o, fmt.Errorf("Workflows[%d]: not valid UTF-8", i)
		case workflow.Input < InputJSON || workflow.Input > InputUnchecked:
			return o, fmt.Errorf("Workflows[%d]: %s has an unknown Input, %d", i, text.QuoteName(workflow.Name), workflow.Input)
		case seen[key]:
			return o, fmt.Errorf("Workflows[%d]: %s with handler %s is a duplicate", i, text.QuoteName(workflow.Name), text.QuoteName(workflow.Handler))
		}
		seen[key] = true
	}
	return o, nil
}

// client makes the client of the admin API.
func (o Options) client() (*adminapi.Client, error) {
	base, err := ingress.ParseURL(o.AdminURL)
	if err != nil {
		return nil, fmt.Errorf("AdminURL: %w", err)
	}
	client, err := adminapi.New(adminapi.Config{URL: base, Header: o.Header, HTTP: o.HTTPClient, Timeout: o.Timeout})
	if err != nil {
		return nil, fmt.Errorf("Header: %w", err)
	}
	return client, nil
}
