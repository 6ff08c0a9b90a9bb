package restatestart

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redisevents/restatestart/internal/text"
)

// Reason says why a start was not accepted.
type Reason int

// The reasons. The comment behind each says what resolves it.
const (
	ReasonUnknown      Reason = iota // never set by this library
	ReasonPanic                      // Keep, Map, Encode or the HTTP client panicked: fix the code
	ReasonMap                        // Map returned an error: whatever that error asks for
	ReasonInvalid                    // the Start cannot be sent: its workflow, key, handler, header or delay is invalid
	ReasonEncode                     // the input cannot be encoded: fix the code
	ReasonPredecessor                // an earlier message of the same workflow and key was not accepted: see its reason
	ReasonRejected                   // the ingress refused it, and will again: 3xx and 4xx but for those named below
	ReasonNotFound                   // 404: the workflow or its handler is not registered: deploy it, or fix the name
	ReasonUnauthorized               // 401, 403, 407: a proxy in front of the ingress wants other credentials
	ReasonOverloaded                 // 429: time
	ReasonTimeout                    // no answer in time, or 408: time
	ReasonUnreachable                // no connection, or one that broke: time
	ReasonServer                     // 5xx or 425: time
	ReasonShutdown                   // the context was cancelled first: the next Run
	ReasonMalformed                  // the entry cannot be decoded: fix the producer or the decoder; only of parked entries
)

var reasonNames = [...]string{
	"unknown", "panic", "map", "invalid", "encode", "predecessor", "rejected", "not_found", "unauthorized", "overloaded",
	"timeout", "unreachable", "server", "shutdown", "malformed",
}

// String is the reason in one word, fit for a log or a metric.
func (r Reason) String() string {
	if r < 0 || int(r) >= len(reasonNames) {
		return "Reason(" + strconv.Itoa(int(r)) + ")"
	}
	return reasonNames[r]
}

// MarshalText renders the reason as String does.
func (r Reason) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (r *Reason) UnmarshalText(text []byte) error {
	at := slices.Index(reasonNames[:], string(text))
	if at < 0 {
		return fmt.Errorf("restatestart: no reason is called %q", text)
	}
	*r = Reason(at)
	return nil
}

// accepted is the class of an answer that says that Restate has the start. It is no Reason of a failure.
const accepted Reason = -1

// FailedStart is one start that was not accepted.
type FailedStart struct {
	// EntryID is the id of the message in its stream. Stream is the key of that stream.
	EntryID string `json:"entryId"`
	Stream  string `json:"stream"`
	// Workflow and Key are what Map chose. They are empty when it chose nothing.
	Workflow string `json:"workflow,omitempty"`
	Key      string `json:"key,omitempty"`
	// Reason is the class of the failure.
	Reason Reason `json:"reason"`
	// Status is the HTTP status of the last answer, 0 when there was none.
	Status int `json:"status,omitempty"`
	// Attempts is how many POSTs were made.
	Attempts int `json:"attempts"`
	// RetryAfter is how long the last answer asked to wait, 0 when it did not.
	RetryAfter time.Duration `json:"-"`
	// Since is when the first of these attempts failed. Zero when there was none.
	Since time.Time `json:"since,omitzero"`
	// Err is the cause. It has at most 256 bytes of the answer's text, and neither input nor credentials.
	Err error `json:"-"`
}

// failedStart is a FailedStart as JSON has it.
type failedStart struct {
	plainFailedStart

	RetryAfter float64 `json:"retryAfterSeconds,omitempty"`
	Error      string  `json:"error,omitempty"`
}

type plainFailedStart FailedStart // without methods

// MarshalJSON renders Err as its text in one line, and RetryAfter in seconds.
func (f FailedStart) MarshalJSON() ([]byte, error) {
	return json.Marshal(failedStart{plainFailedStart(f), f.RetryAfter.Seconds(), text.ErrorLine(f.Err)})
}

// UnmarshalJSON reads what MarshalJSON wrote. Of Err it restores the text.
func (f *FailedStart) UnmarshalJSON(text []byte) error {
	var read failedStart
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*f = FailedStart(read.plainFailedStart)
	f.RetryAfter = time.Duration(min(read.RetryAfter*float64(time.Second), math.MaxInt64-1023)) // the greatest that a float64 can hold
	if read.Error != "" {
		f.Err = errors.New(read.Error)
	}
	return nil
}

// String is the failure in one line, such as
//
//	start BonusPayout/c-17 (entry 1726000000000-7): not_found after 1 attempt: 404: service 'BonusPayout' not found
func (f FailedStart) String() string {
	var line strings.Builder
	line.WriteString("start ")
	if f.Workflow != "" || f.Key != "" {
		fmt.Fprintf(&line, "%s/%s ", text.QuoteName(f.Workflow), text.QuoteName(f.Key))
	}
	fmt.Fprintf(&line, "(entry %s): %s", f.EntryID, f.Reason)
	switch {
	case f.Attempts == 1:
		line.WriteString(" after 1 attempt")
	case f.Attempts > 1:
		fmt.Fprintf(&line, " after %d attempts", f.Attempts)
	}
	if f.Err != nil {
		line.WriteString(": " + text.ErrorLine(f.Err))
	}
	return line.String()
}

// BlockedError says that starts of a batch were not accepted: the batch must not be acknowledged, but handled again. It is
// the only error that Starter.Handle returns. Use errors.As to find it.
type BlockedError struct {
	// Failed are the starts that were not accepted, in stream order. There is at least one.
	Failed []FailedStart
	// Accepted is how many starts of the batch were accepted. Handling them again does no harm, and is not needed.
	Accepted int
	// ShuttingDown says that the context was cancelled, or its deadline passed, before every start was accepted. It is no
	// failure: the batch is handled again when the service restarts.
	ShuttingDown bool

	// Messages is how many messages the batch had that Handle was given. 0 in an error that a handler built itself.
	Messages int
}

// maxNamed is how many starts the text of a BlockedError names.
const maxNamed = 5

// Error is one line that names at most five starts.
func (e *BlockedError) Error() string {
	var line strings.Builder
	if e.ShuttingDown {
		line.WriteString("shutting down: ")
	}
	fmt.Fprintf(&line, "%d of %d starts not accepted", len(e.Failed), len(e.Failed)+e.Accepted)
	for i, failed := range e.Failed {
		if i == maxNamed {
			fmt.Fprintf(&line, "; and %d more", len(e.Failed)-maxNamed)
			break
		}
		line.WriteString("; " + failed.String())
	}
	return line.String()
}

// Unwrap returns the cause of each failed start.
func (e *BlockedError) Unwrap() []error {
	causes := make([]error, 0, len(e.Failed))
	for _, failed := range e.Failed {
		if failed.Err != nil {
			causes = append(causes, failed.Err)
		}
	}
	return causes
}

// RetryAfter is the longest wait that an answer asked for, 0 when none did.
func (e *BlockedError) RetryAfter() time.Duration {
	var longest time.Duration
	for _, failed := range e.Failed {
		longest = max(longest, failed.RetryAfter)
	}
	return longest
}

// StatusError is an answer other than 2xx. Use errors.As to find it in a BlockedError.
type StatusError struct {
	// Status is the HTTP status.
	Status int
	// Text is the message of the answer, in one line of at most 256 bytes, without what it repeats of the request.
	Text string
}

// Error is the status and the text.
func (e *StatusError) Error() string {
	if e.Text == "" {
		return strconv.Itoa(e.Status)
	}
	return strconv.Itoa(e.Status) + ": " + e.Text
}

// PanicError is a panic of Keep, Map, Encode, a decoder, a handler or an HTTP client.
type PanicError struct {
	// Value is what the code panicked with.
	Value any
	// Stack is the stack trace, in the format of debug.Stack.
	Stack []byte
}

func newPanicError(value any) *PanicError { return &PanicError{Value: value, Stack: debug.Stack()} }

// Error is the value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
