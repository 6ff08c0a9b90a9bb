// Package adminapitest is Restate's admin API in memory, for tests. It replays recorded answers of real servers.
package adminapitest

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

//go:embed answers-*.json
var recorded embed.FS

// Versions are the recorded versions of restate-server, the newest last.
func Versions() []string { return []string{"1.6.2", "1.7.4", "1.7.12"} }

// Answer is one recorded answer: a service without its deployment ids and with its handlers sorted, or of an OpenAPI
// document only the request bodies of its POSTs.
type Answer struct {
	Status int             `json:"status"`
	Body   json.RawMessage `json:"body,omitempty"`
}

// Recorded returns the answers of one version, by path.
func Recorded(version string) (map[string]Answer, error) {
	text, err := recorded.ReadFile("answers-" + version + ".json")
	if err != nil {
		return nil, fmt.Errorf("no answers of restate-server %s are recorded: %w", version, err)
	}
	var answers map[string]Answer
	if err := json.Unmarshal(text, &answers); err != nil {
		return nil, fmt.Errorf("read the answers of restate-server %s: %w", version, err)
	}
	return answers, nil
}

// API is an admin API in memory. It is an http.RoundTripper, and safe for concurrent use.
type API struct {
	mu       sync.Mutex
	answers  map[string]Answer
	err      error
	hangs    bool
	requests []*http.Request
}

// New returns an API that answers as a restate-server of this version with the recorded services does. It panics where
// that version was not recorded.
func New(version string) *API {
	answers, err := Recorded(version)
	if err != nil {
		panic(err)
	}
	return &API{answers: answers}
}

// Set changes the answer at a path.
func (a *API) Set(path string, status int, body string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[path] = Answer{Status: status, Body: json.RawMessage(body)}
}

// Replace replaces text in the answer at a path, as a PATCH of the service would. It panics where the text is missing.
func (a *API) Replace(path, old, replacement string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	answer := a.answers[path]
	if !strings.Contains(string(answer.Body), old) {
		panic("no " + old + " in the answer at " + path)
	}
	answer.Body = json.RawMessage(strings.ReplaceAll(string(answer.Body), old, replacement))
	a.answers[path] = answer
}

// Fail makes every request fail with this error, until it is nil.
func (a *API) Fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

// Hang makes every request wait for the end of its context.
func (a *API) Hang() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hangs = true
}

// Requests returns the requests so far.
func (a *API) Requests() []*http.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// Client is an HTTP client that reaches this API under any URL.
func (a *API) Client() *http.Client { return &http.Client{Transport: a} }

// RoundTrip implements http.RoundTripper.
func (a *API) RoundTrip(request *http.Request) (*http.Response, error) {
	a.mu.Lock()
	a.requests = append(a.requests, request)
	answer, known := a.answers[request.URL.EscapedPath()]
	err, hangs := a.err, a.hangs
	a.mu.Unlock()
	switch {
	case hangs:
		<-request.Context().Done()
		return nil, request.Context().Err()
	case err != nil:
		return nil, err
	case !known && strings.HasPrefix(request.URL.Path, "/services/"):
		name := strings.TrimPrefix(request.URL.Path, "/services/")
		answer = Answer{Status: http.StatusNotFound, Body: json.RawMessage(`{"message":"The requested service '` + name + `' does not exist","restate_code":null}`)}
	case !known:
		answer.Status = http.StatusNotFound
	}
	return &http.Response{
		StatusCode: answer.Status, Header: http.Header{"Content-Type": {"application/json"}}, Request: request,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: io.NopCloser(strings.NewReader(string(answer.Body))),
	}, nil
}

// ErrRefused is the error of a connection to a port without a listener.
var ErrRefused = errors.New("dial tcp 127.0.0.1:9070: connect: connection refused")
