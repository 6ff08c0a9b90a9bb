package conformance

import "encoding/json"

// Suite is the cases, with their profiles and named answers.
type Suite struct {
	Profiles map[string]Profile // by name
	Cases    []Case             // in the order of the file names, then as written

	answers map[string]Answer
}

// Profile is the services and settings of the server for the cases that name it.
type Profile struct {
	Services []Service `json:"services"`
	// BodyLimit is the largest request body accepted, in bytes. Zero is the server's default.
	BodyLimit int64 `json:"bodyLimit"`
	// ConcurrencyLimit bounds the requests served at once. Zero is the server's default.
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

// Input is the kind of input that a handler accepts.
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
	Why     string `json:"why"`     // the purpose, where the name is not enough
	Range          // of versions that it applies to
	// Fake says why the fake answers differently, after "not imitated: ". Empty if it does not.
	Fake  string `json:"fake"`
	Steps []Step `json:"steps"`

	answers map[string]Answer // the suite's
}

// Step is one request and its answer, or a part of them.
type Step struct {
	On      string   `json:"on"`      // the name of a connection that stays open; empty is one for the step only
	Request *Request `json:"request"` // nil if there is a Rest
	Hold    bool     `json:"hold"`    // leaves the server reading the body; the step has no answer
	Rest    *string  `json:"rest"`    // completes the request held on On
	Cut     bool     `json:"cut"`     // closes the writing half of the connection after the request
	Answer  *Answer  `json:"answer"`
}

// Request is sent as written, except for placeholders.
type Request struct {
	Method  string   `json:"method"`
	Target  string   `json:"target"`
	Headers []string `json:"headers"` // lines; a host is added, and a content-length for a body
	Body    *string  `json:"body"`
}

// Answer is an expected answer as written in the files. [Case.Expect] completes it.
type Answer struct {
	Is       string             `json:"is"` // the name of the answer it builds on
	Status   int                `json:"status"`
	Headers  map[string]*string `json:"headers"` // by name in lower case; nil is absent
	JSON     json.RawMessage    `json:"json"`    // a merge patch (RFC 7396) of that of Is
	Text     *string            `json:"text"`
	Versions []Versioned        `json:"versions"`
}

// Versioned is the changes of an answer in a range of versions.
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
