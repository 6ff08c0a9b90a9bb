package conformance

import "encoding/json"

// Suite is the cases and what they build on.
type Suite struct {
	Profiles map[string]Profile // by name
	Cases    []Case             // in the order of their files' names, then as written

	answers map[string]Answer
}

// Profile is what must be registered and set for the cases that name it.
type Profile struct {
	Services []Service `json:"services"`
	// BodyLimit is the largest request body accepted, in bytes. Zero is the server's default.
	BodyLimit int64 `json:"bodyLimit"`
	// ConcurrencyLimit is the number of requests served at once. Zero is the server's default.
	ConcurrencyLimit int `json:"concurrencyLimit"`
}

// Kind is the kind of a service.
type Kind string

// The kinds of services.
const (
	KindWorkflow Kind = "workflow"
	KindService  Kind = "service"
	KindObject   Kind = "object"
)

// Input is the kind of input that a handler takes.
type Input string

// The kinds of input.
const (
	InputJSON  Input = "json"
	InputNone  Input = "none"
	InputBytes Input = "bytes"
)

// Service is one registered service.
type Service struct {
	Name     string    `json:"name"`
	Kind     Kind      `json:"kind"`
	Private  bool      `json:"private"` // not reachable through the ingress
	Handlers []Handler `json:"handlers"`
}

// Handler is one handler of a service.
type Handler struct {
	Name   string `json:"name"`
	Input  Input  `json:"input"`
	Shared bool   `json:"shared"` // of a workflow or object: it runs beside others
}

// Case is a sequence of requests and their answers.
type Case struct {
	Name    string `json:"name"`    // unique
	Profile string `json:"profile"` // the name of one
	Why     string `json:"why"`     // what the case is about, where its name does not tell
	Range          // the versions that it applies to
	// Fake says why the imitation answers otherwise; empty if it answers the same. It begins with "not imitated: ".
	Fake  string `json:"fake"`
	Steps []Step `json:"steps"`

	answers map[string]Answer // the suite's
}

// Step is one request and its answer, or a half of them.
type Step struct {
	On      string   `json:"on"`      // the name of a connection that outlives the step; empty is a new one for the step
	Request *Request `json:"request"` // or Rest
	Hold    bool     `json:"hold"`    // the server is left reading the request's body; there is no answer yet
	Rest    *string  `json:"rest"`    // what completes the request held on On
	Cut     bool     `json:"cut"`     // the writing half of the connection is closed after the request
	Answer  *Answer  `json:"answer"`
}

// Request is sent as it stands, placeholders apart.
type Request struct {
	Method  string   `json:"method"`
	Target  string   `json:"target"`
	Headers []string `json:"headers"` // lines; a host is added, and a content-length if there is a body
	Body    *string  `json:"body"`
}

// Answer is what is expected of a server, as it is written in the files: [Case.Expect] makes it whole.
type Answer struct {
	Is       string             `json:"is"` // the name of the answer that this one builds on
	Status   int                `json:"status"`
	Headers  map[string]*string `json:"headers"` // by name in lower case; nil is absent
	JSON     json.RawMessage    `json:"json"`    // merged into that of Is, as RFC 7396 has it
	Text     *string            `json:"text"`
	Versions []Versioned        `json:"versions"`
}

// Versioned is how an answer differs in a range of versions.
type Versioned struct {
	Range

	Answer Answer `json:"answer"`
}

// file is one of the JSON files.
type file struct {
	About    string             `json:"about"`
	Profiles map[string]Profile `json:"profiles"`
	Answers  map[string]Answer  `json:"answers"`
	Cases    []Case             `json:"cases"`
}
