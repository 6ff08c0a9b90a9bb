package restatestart

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/redisevents/restatestart/internal/admin"
	"github.com/redisevents/restatestart/internal/ingress"
)

// DefaultPreflightTimeout is the default of Preflight.Timeout.
const DefaultPreflightTimeout = 5 * time.Second

// Preflight is what a Consumer asks Restate's admin API when its Run begins: whether the workflows that its messages
// start are registered, public and of type workflow, take such an input, and are remembered long enough. A mistake
// shows at the start then, and not with the first message.
//
// What was found is in the log and in Status. Without Strict it changes nothing else: the check runs beside the
// reading, and delays no message. While the admin API does not answer, and while there is something to find, it is
// repeated after HoldMin, doubling to HoldMax; once everything is right it ends.
type Preflight struct {
	// AdminURL is the base URL of Restate's admin API, such as http://restate:9070. A path prefix is kept; a query or
	// a fragment is an error. Userinfo is sent as basic authentication. Required.
	AdminURL string

	// Workflows are what the messages start. At least one is required: what Map chooses is not known before they come.
	Workflows []PreflightWorkflow

	// RedeliveryWindow is the longest time after which a message may come again: the longest outage you sit out, and how
	// far back you would ever reset a position. A workflow that Restate forgets sooner after its completion would run
	// again then. Defaults to none: retention is not looked at.
	RedeliveryWindow time.Duration

	// Strict makes Run check before it reads anything, and return a *PreflightError when something is found. While the
	// admin API does not answer, Run waits for it.
	Strict bool

	// Timeout bounds one request to the admin API. There is one for each workflow, and one more for each that takes no
	// input by InputNone. Defaults to 5 s.
	Timeout time.Duration

	// Header goes with every request, an Authorization for one.
	Header http.Header

	// HTTPClient is used as it is, except that redirects are never followed. Defaults to a client that keeps no connection
	// and uses the proxy that the environment names.
	HTTPClient *http.Client
}

// PreflightWorkflow is one workflow that messages start.
type PreflightWorkflow struct {
	// Name is that of the workflow, to the letter. Required.
	Name string
	// Handler is the handler that is started. Defaults to that of the Consumer's handler, where it is a Starter, else
	// to "run".
	Handler string
	// Input is what a start carries. Defaults to InputJSON.
	Input InputKind
}

// InputKind is what a start carries, as far as Restate looks at it.
type InputKind int

const (
	// InputJSON is a body of application/json.
	InputJSON InputKind = iota
	// InputNone is neither a body nor a Content-Type, as a nil Start.Input makes it.
	InputNone
	// InputUnchecked is anything else, and is not looked at.
	InputUnchecked
)

// withDefaults fills in the zero fields and refuses what is contradictory. The result shares nothing with the original.
func (p Preflight) withDefaults(handler string) (Preflight, error) {
	if err := timeOrDefault("Timeout", &p.Timeout, DefaultPreflightTimeout); err != nil {
		return p, err
	}
	if err := timeOrDefault("RedeliveryWindow", &p.RedeliveryWindow, 0); err != nil {
		return p, err
	}
	if err := ingress.CheckHeader(p.Header); err != nil {
		return p, fmt.Errorf("Header: %w", err)
	}
	if len(p.Workflows) == 0 {
		return p, errors.New("Workflows: at least one is required")
	}
	p.Workflows = slices.Clone(p.Workflows)
	seen := make(map[PreflightWorkflow]bool, len(p.Workflows))
	for i := range p.Workflows {
		workflow := &p.Workflows[i]
		if workflow.Handler == "" {
			workflow.Handler = handler
		}
		named := PreflightWorkflow{Name: workflow.Name, Handler: workflow.Handler}
		switch {
		case workflow.Name == "":
			return p, fmt.Errorf("Workflows: number %d has no Name", i)
		case !utf8.ValidString(workflow.Name) || !utf8.ValidString(workflow.Handler):
			return p, fmt.Errorf("Workflows: number %d is not valid UTF-8", i)
		case workflow.Input < InputJSON || workflow.Input > InputUnchecked:
			return p, fmt.Errorf("Workflows: %s has an Input of %d, which there is not", printable(workflow.Name), workflow.Input)
		case seen[named]:
			return p, fmt.Errorf("Workflows: %s with handler %s is there twice", printable(workflow.Name), printable(workflow.Handler))
		}
		seen[named] = true
	}
	return p, nil
}

// client checks the address and the credentials, and makes the client.
func (p Preflight) client() (*admin.Client, error) {
	var base *url.URL
	base, err := ingress.ParseURL(p.AdminURL)
	if err != nil {
		return nil, fmt.Errorf("AdminURL: %w", err)
	}
	client, err := admin.New(admin.Config{URL: base, Header: p.Header, HTTP: p.HTTPClient, Timeout: p.Timeout})
	if err != nil {
		return nil, fmt.Errorf("Header: %w", err)
	}
	return client, nil
}
