package restatestart

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/redisevents/restatestart/internal/admin"
)

// PreflightFinding is one thing that is not as a start needs it.
type PreflightFinding struct {
	Workflow string `json:"workflow"`
	// Handler is empty where the workflow as a whole is meant.
	Handler string        `json:"handler,omitempty"`
	Code    PreflightCode `json:"code"`
	// Text is the finding in a sentence, the workflow's name included.
	Text string `json:"text"`
}

// PreflightCode is the class of a finding, fit for a log or an alert.
type PreflightCode string

// The codes. The comment behind each tells what comes of the starts.
const (
	PreflightUnknownWorkflow PreflightCode = "workflow_unknown" // 404, and held, until it is registered
	PreflightNotWorkflow     PreflightCode = "not_a_workflow"   // a service is started anew each time, an object too: no key holds that back
	PreflightPrivate         PreflightCode = "private"          // 400, and held
	PreflightUnknownHandler  PreflightCode = "handler_unknown"  // 404, and held
	PreflightSharedHandler   PreflightCode = "handler_shared"   // accepted, and run anew each time: it is not the one that runs the workflow
	PreflightInput           PreflightCode = "input"            // 400, and held
	PreflightRetention       PreflightCode = "retention"        // a message that comes again after it runs its workflow again
	PreflightRefused         PreflightCode = "refused"          // nothing is known: the admin API wants other credentials, or it is none
)

// check asks about each workflow. An error says that the admin API could not be asked, and that time may mend that.
func (p *preflight) check(ctx context.Context) (findings []PreflightFinding, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			findings, err = nil, newPanicError(reason) // of an HTTP client
		}
	}()
	services := make(map[string]*admin.Service, len(p.options.Workflows)) // nil where there is nothing to hold against
	for _, workflow := range p.options.Workflows {
		service, asked := services[workflow.Name]
		if !asked {
			answer, err := p.client.Service(ctx, workflow.Name)
			if err == nil {
				service = &answer
			} else {
				finding, err := refusal(workflow, err)
				if err != nil {
					return nil, err
				}
				findings = append(findings, finding)
			}
			services[workflow.Name] = service
		}
		if service != nil {
			found, err := p.judge(ctx, workflow, service, !asked)
			if err != nil {
				return nil, err
			}
			findings = append(findings, found...)
		}
	}
	return findings, nil
}

// refusal makes a finding of what no waiting mends, and an error of the rest.
func refusal(workflow PreflightWorkflow, err error) (PreflightFinding, error) {
	name := printable(workflow.Name)
	answer, isAnswer := errors.AsType[*admin.StatusError](err)
	switch {
	case errors.Is(err, admin.ErrUnknown):
		return PreflightFinding{Workflow: workflow.Name, Code: PreflightUnknownWorkflow, Text: fmt.Sprintf("%s: %s", name, err)}, nil
	case isAnswer && !passing(answer.Status), errors.Is(err, admin.ErrStranger):
		return PreflightFinding{
			Workflow: workflow.Name, Code: PreflightRefused, Text: fmt.Sprintf("%s: the admin API was not of help: %s", name, err),
		}, nil
	default:
		return PreflightFinding{}, fmt.Errorf("ask the admin API about %s: %w", name, solid(err))
	}
}

// passing tells which answers come from a server, or a proxy before it, that is not ready.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= 500
	}
}

// judge holds a workflow against what the admin API says. What concerns the workflow as a whole is said once, the first
// time.
func (p *preflight) judge(ctx context.Context, workflow PreflightWorkflow, service *admin.Service, first bool) ([]PreflightFinding, error) {
	var findings []PreflightFinding
	name := printable(workflow.Name)
	add := func(handler string, code PreflightCode, format string, args ...any) {
		findings = append(findings, PreflightFinding{Workflow: workflow.Name, Handler: handler, Code: code, Text: name + ": " + fmt.Sprintf(format, args...)})
	}
	if service.Type != admin.TypeWorkflow {
		if first {
			add("", PreflightNotWorkflow, "it is of type %s, and not a workflow", printable(service.Type))
		}
		return findings, nil // nothing else matters before that is mended
	}
	if first {
		if !service.Public {
			add("", PreflightPrivate, "it is private, and the ingress refuses to start it")
		}
		if text := p.shortRetention(service.Retention); text != "" {
			add("", PreflightRetention, "%s", text)
		}
	}

	handler, found := service.Handler(workflow.Handler)
	called := printable(workflow.Handler)
	switch {
	case !found:
		add(workflow.Handler, PreflightUnknownHandler, "it has no handler %s%s", called, alternative(service))
		return findings, nil
	case handler.Type != admin.TypeWorkflow:
		add(workflow.Handler, PreflightSharedHandler, "handler %s is not the one that runs the workflow%s", called, alternative(service))
		return findings, nil
	case !handler.Public && service.Public:
		add(workflow.Handler, PreflightPrivate, "handler %s is private, and the ingress refuses to start it", called)
	}
	fits, err := p.fits(ctx, workflow, handler)
	if err != nil {
		return nil, err
	}
	if !fits {
		carries := "a body of application/json"
		if workflow.Input == InputNone {
			carries = "no body"
		}
		add(workflow.Handler, PreflightInput, "handler %s takes as input: %s; a start carries %s", called, printable(handler.Input), carries)
	}
	return findings, nil
}

// alternative names the handler that would do.
func alternative(service *admin.Service) string {
	for _, handler := range service.Handlers {
		if handler.Type == admin.TypeWorkflow {
			return "; that is " + printable(handler.Name)
		}
	}
	return ""
}

// shortRetention says why a retention does not cover the redelivery window, nothing when it does.
func (p *preflight) shortRetention(retention string) string {
	window := p.options.RedeliveryWindow
	if window == 0 {
		return ""
	}
	kept, err := admin.ParseDuration(retention)
	switch {
	case err != nil:
		return fmt.Sprintf("whether its workflow_completion_retention covers the redelivery window of %s is not known, since it is given as %q",
			window, printable(retention))
	case kept < window:
		return fmt.Sprintf("it is forgotten %s after its completion, by its workflow_completion_retention, and the redelivery window is %s",
			strings.TrimSpace(retention), window)
	default:
		return ""
	}
}

// fits tells whether a start's input is one that the handler takes. What cannot be told does.
func (p *preflight) fits(ctx context.Context, workflow PreflightWorkflow, handler admin.Handler) (bool, error) {
	switch workflow.Input {
	case InputJSON:
		return admin.TakesJSON(handler.Input), nil
	case InputNone:
		if handler.Input == admin.InputNone {
			return true, nil
		}
		// The description says what a body must be, and not whether there must be one.
		required, known, err := p.client.BodyRequired(ctx, workflow.Name, workflow.Handler)
		if err != nil {
			if _, err = refusal(workflow, err); err != nil {
				return false, err
			}
		}
		return !known || !required, nil
	default:
		return true, nil
	}
}
