// Package preflight asks Restate's admin API whether workflows can be started: whether they are registered, public and of
// type workflow, whether their handlers exist and accept the input, and whether Restate remembers completed runs long
// enough. A mistake then shows when a service starts, or in a deployment's pipeline, and not with the first message.
//
// A [Checker] makes one check per call and leaves repeating it to its caller. A redisstream.Consumer makes the check when its
// Run begins, given redisstream.Options.Preflight.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/redisevents/restatestart/internal/adminapi"
	"github.com/redisevents/restatestart/internal/text"
)

// maxRetention bounds a retention in a finding's text, in bytes.
const maxRetention = 80

// Checker checks workflows. Make it with [New]. It is safe for concurrent use.
type Checker struct {
	options Options
	client  *adminapi.Client
}

// New returns a Checker. It does no I/O; an error names the field of Options that is wrong.
func New(options Options) (*Checker, error) {
	options, err := options.withDefaults()
	var client *adminapi.Client
	if err == nil {
		client, err = options.client()
	}
	if err != nil {
		return nil, fmt.Errorf("preflight: Options.%w", err)
	}
	return &Checker{options: options, client: client}, nil
}

// Check makes one check of every workflow. It returns nil when it finds nothing wrong, and an [*Error] with the findings when
// it does: those do not go away without a change. Any other error says why the admin API could not be asked (no connection, no
// answer in time, 408, 425, 429 or 5xx, the context's end, a panic of the HTTP client), which time may fix. Check never waits
// between requests, retries or logs. Errors contain no credentials, and of an answer only names, types and retentions.
func (c *Checker) Check(ctx context.Context) (err error) {
	defer func() {
		switch reason := recover().(type) { // of the HTTP client
		case nil:
		case error:
			err = fmt.Errorf("panic: %w", reason)
		default:
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	findings, err := c.check(ctx)
	if err != nil || len(findings) == 0 {
		return err
	}
	return &Error{Findings: findings}
}

// check asks for each service once, whatever the number of its handlers.
func (c *Checker) check(ctx context.Context) ([]Finding, error) {
	var findings []Finding
	services := make(map[string]*adminapi.Service, len(c.options.Workflows)) // nil: could not be read
	for _, workflow := range c.options.Workflows {
		service, asked := services[workflow.Name]
		if !asked {
			answer, err := c.client.Service(ctx, workflow.Name)
			switch finding, isFinding := findingOf(workflow, err); {
			case err == nil:
				service = &answer
			case isFinding:
				findings = append(findings, finding)
			default:
				return nil, askError(workflow, err)
			}
			services[workflow.Name] = service
		}
		if service != nil {
			found, err := c.checkWorkflow(ctx, workflow, service, !asked)
			if err != nil {
				return nil, err
			}
			findings = append(findings, found...)
		}
	}
	return findings, nil
}

func askError(workflow Workflow, err error) error {
	return fmt.Errorf("ask the admin API about %s: %w", text.QuoteName(workflow.Name), text.SafeError(err))
}

// findingOf makes a finding of an error that time does not fix.
func findingOf(workflow Workflow, err error) (Finding, bool) {
	status, isStatus := errors.AsType[*adminapi.StatusError](err)
	switch {
	case errors.Is(err, adminapi.ErrUnknown):
		return newFinding(workflow, "", UnknownWorkflow, err.Error()), true
	case isStatus && !isTransient(status.Status), errors.Is(err, adminapi.ErrNotRestate):
		return newFinding(workflow, "", Refused, "the admin API could not be used: "+err.Error()), true
	default:
		return Finding{}, false
	}
}

func newFinding(workflow Workflow, handler string, code Code, sentence string) Finding {
	return Finding{Workflow: workflow.Name, Handler: handler, Code: code, Text: text.QuoteName(workflow.Name) + ": " + sentence}
}

// isTransient reports whether an answer comes from a server, or a proxy before it, that is not ready.
func isTransient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	default:
		return status >= 500
	}
}

// checkWorkflow compares a workflow with the service of its name. What concerns the workflow as a whole is reported for the
// first of its handlers only.
func (c *Checker) checkWorkflow(ctx context.Context, workflow Workflow, service *adminapi.Service, first bool) ([]Finding, error) {
	var findings []Finding
	add := func(handler string, code Code, format string, args ...any) {
		findings = append(findings, newFinding(workflow, handler, code, fmt.Sprintf(format, args...)))
	}
	if service.Type != adminapi.TypeWorkflow {
		if first {
			add("", NotWorkflow, "it is of type %s, not a workflow", text.QuoteName(service.Type))
		}
		return findings, nil // its handlers say nothing
	}
	if first {
		if !service.Public {
			add("", Private, "it is private, and the ingress refuses to start it")
		}
		if problem := c.checkRetention(service.Retention); problem != "" {
			add("", Retention, "%s", problem)
		}
	}

	handler, found := service.Handler(workflow.Handler)
	name := text.QuoteName(workflow.Handler)
	switch {
	case !found:
		add(workflow.Handler, UnknownHandler, "it has no handler %s%s", name, runHandler(service))
		return findings, nil
	case handler.Type != adminapi.TypeWorkflow:
		add(workflow.Handler, SharedHandler, "handler %s does not run the workflow%s", name, runHandler(service))
		return findings, nil
	case !handler.Public && service.Public:
		add(workflow.Handler, Private, "handler %s is private, and the ingress refuses to start it", name)
	}
	accepts, err := c.acceptsInput(ctx, workflow, handler)
	if err != nil {
		return nil, err
	}
	if !accepts {
		carries := "a body of application/json"
		if workflow.Input == InputNone {
			carries = "no body"
		}
		add(workflow.Handler, Input, "handler %s takes as input: %s; a start carries %s", name, text.QuoteName(handler.Input), carries)
	}
	return findings, nil
}

// runHandler names the handler that runs the workflow.
func runHandler(service *adminapi.Service) string {
	for _, handler := range service.Handlers {
		if handler.Type == adminapi.TypeWorkflow {
			return "; the one that runs the workflow is " + text.QuoteName(handler.Name)
		}
	}
	return ""
}

// checkRetention says why a retention does not cover the redelivery window. Empty means that it does.
func (c *Checker) checkRetention(retention string) string {
	window := c.options.RedeliveryWindow
	if window == 0 {
		return ""
	}
	kept, err := adminapi.ParseDuration(retention)
	switch {
	case err != nil:
		return fmt.Sprintf("its workflow_completion_retention of %q cannot be read; it may be shorter than the redelivery window of %s",
			text.Cut(retention, maxRetention), window)
	case kept < window:
		return fmt.Sprintf("its workflow_completion_retention of %s is shorter than the redelivery window of %s",
			text.Cut(strings.TrimSpace(retention), maxRetention), window)
	default:
		return ""
	}
}

// acceptsInput reports whether the handler accepts what a start carries. Unknown counts as accepted.
func (c *Checker) acceptsInput(ctx context.Context, workflow Workflow, handler adminapi.Handler) (bool, error) {
	switch {
	case workflow.Input == InputJSON:
		return adminapi.AcceptsJSON(handler.Input), nil
	case workflow.Input == InputUnchecked, handler.Input == adminapi.InputNone:
		return true, nil
	}
	required, known, err := c.client.BodyRequired(ctx, workflow.Name, workflow.Handler)
	if err != nil {
		if _, isFinding := findingOf(workflow, err); !isFinding {
			return false, askError(workflow, err)
		}
	}
	return !known || !required, nil
}
