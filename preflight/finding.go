package preflight

import "strings"

// Finding is one thing that keeps a workflow's starts from working as they should.
type Finding struct {
	Workflow string `json:"workflow"`
	// Handler is empty where the finding concerns the workflow as a whole.
	Handler string `json:"handler,omitempty"`
	Code    Code   `json:"code"`
	// Text is the finding in a sentence that begins with the workflow's name. It contains no credentials.
	Text string `json:"text"`
}

// Code is the class of a finding, fit for a log or an alert.
type Code string

// The codes, each with what happens to the starts.
const (
	UnknownWorkflow Code = "workflow_unknown" // 404, held until it is registered
	NotWorkflow     Code = "not_a_workflow"   // a service or virtual object: runs again with each start, as no key deduplicates it
	Private         Code = "private"          // 400, held until it is public
	UnknownHandler  Code = "handler_unknown"  // 404, held until it is registered
	SharedHandler   Code = "handler_shared"   // accepted, but runs again with each start: it is not the handler that runs the workflow
	Input           Code = "input"            // 400, held until the handler accepts it
	Retention       Code = "retention"        // a message delivered again after the retention runs its workflow again
	Refused         Code = "refused"          // unknown: the admin API requires other credentials, or the URL is not the admin API's
)

// Error is what a check found.
type Error struct {
	// Findings has at least one.
	Findings []Finding
}

// Error is one line with the text of every finding.
func (e *Error) Error() string {
	texts := make([]string, len(e.Findings))
	for i, finding := range e.Findings {
		texts[i] = finding.Text
	}
	return "preflight: " + strings.Join(texts, "; ")
}
