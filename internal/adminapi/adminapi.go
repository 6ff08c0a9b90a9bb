// Package adminapi reads services from Restate's admin API, one GET at a time. It never sleeps or retries. Its errors
// repeat no text of an answer and no credentials.
package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxAnswer bounds an answer. A service's holds the JSON schemas of all its handlers.
const maxAnswer = 8 << 20

var (
	// ErrUnknown says that no service of that name is registered.
	ErrUnknown = errors.New("no service of that name is registered")
	// ErrNotRestate says that something other than Restate's admin API answered.
	ErrNotRestate = errors.New("the answer is not from Restate's admin API")
)

// StatusError is any other answer than 200 and the admin API's own 404.
type StatusError struct{ Status int }

func (e *StatusError) Error() string { return "answer " + strconv.Itoa(e.Status) }

// Config configures a Client.
type Config struct {
	// URL is the base of the admin API, http or https, with a host; a path prefix and userinfo are kept.
	URL *url.URL
	// Header goes with every request.
	Header http.Header
	// HTTP is used as it is, except that redirects are never followed. Nil makes one that keeps no idle connection.
	HTTP *http.Client
	// Timeout bounds one request, from dial to the end of the answer.
	Timeout time.Duration
}

// Client asks one admin API. It is safe for concurrent use.
type Client struct {
	http    *http.Client
	base    url.URL // without userinfo
	header  http.Header
	timeout time.Duration
}

// New makes a Client. It does no I/O. The only error is credentials in both URL and Header.
func New(config Config) (*Client, error) {
	c := &Client{base: *config.URL, header: make(http.Header, len(config.Header)+2), timeout: config.Timeout}
	for name, values := range config.Header {
		c.header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	if user := c.base.User; user != nil {
		if c.header.Get("Authorization") != "" {
			return nil, errors.New("both the URL's userinfo and an Authorization header are given")
		}
		password, _ := user.Password()
		(&http.Request{Header: c.header}).SetBasicAuth(user.Username(), password)
		c.base.User = nil
	}
	c.header.Set("Accept", "application/json")
	if c.header.Get("User-Agent") == "" {
		c.header.Set("User-Agent", "restatestart")
	}
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true}}
	if config.HTTP != nil {
		client = *config.HTTP
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &client
	return c, nil
}

// Service is a registered service, virtual object or workflow.
type Service struct {
	Name     string    `json:"name"`
	Type     string    `json:"ty"`
	Public   bool      `json:"public"`
	Handlers []Handler `json:"handlers"`
	// Retention is how long a completed workflow is kept, in the form that ParseDuration reads. Empty unless it is a workflow.
	Retention string `json:"workflow_completion_retention"` //nolint:tagliatelle // Restate's own name
}

// TypeWorkflow is the type of a workflow, and of its one handler that runs it.
const TypeWorkflow = "Workflow"

// Handler is one handler of a service.
type Handler struct {
	Name   string `json:"name"`
	Type   string `json:"ty"` // empty for the handlers of a plain service
	Public bool   `json:"public"`
	Input  string `json:"input_description"` //nolint:tagliatelle // the same
}

// Handler finds a handler by name.
func (s Service) Handler(name string) (Handler, bool) {
	at := slices.IndexFunc(s.Handlers, func(h Handler) bool { return h.Name == name })
	if at < 0 {
		return Handler{}, false
	}
	return s.Handlers[at], true
}

// Service gets one service. The error is ErrUnknown, ErrNotRestate, a *StatusError, or that of the connection.
func (c *Client) Service(ctx context.Context, name string) (Service, error) {
	var service Service
	err := c.get(ctx, &service, "services", name)
	if err == nil && (service.Name != name || service.Type == "") {
		err = ErrNotRestate
	}
	if err != nil {
		return Service{}, err
	}
	return service, nil
}

// BodyRequired reports whether a workflow's handler refuses a start without a body, from the service's OpenAPI document:
// Handler.Input does not say whether a body is optional. Known is false where the document has no such handler.
func (c *Client) BodyRequired(ctx context.Context, workflow, handler string) (required, known bool, err error) {
	var document struct {
		Paths map[string]struct {
			Post *struct {
				Body *struct {
					Required bool `json:"required"`
				} `json:"requestBody"`
			} `json:"post"`
		} `json:"paths"`
	}
	if err := c.get(ctx, &document, "services", workflow, "openapi"); err != nil {
		return false, false, err
	}
	for path, methods := range document.Paths {
		path = strings.TrimPrefix(path, "/restate/send") // since 1.7
		path = strings.TrimSuffix(path, "/send")
		if path == "/"+workflow+"/{key}/"+handler && methods.Post != nil {
			return methods.Post.Body != nil && methods.Post.Body.Required, true, nil
		}
	}
	return false, false, nil
}

// get makes one request and decodes the answer.
func (c *Client) get(ctx context.Context, answer any, segments ...string) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request := (&http.Request{
		Method: http.MethodGet, URL: c.url(segments), Host: c.base.Host, Header: maps.Clone(c.header),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	response, err := c.http.Do(request)
	if err != nil {
		return c.withoutURL(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	switch response.StatusCode {
	case http.StatusOK, http.StatusNotFound:
	default:
		return &StatusError{Status: response.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.withoutURL(ctx, err)
	case len(body) > maxAnswer:
		return fmt.Errorf("%w: it is longer than %d MiB", ErrNotRestate, maxAnswer>>20)
	case response.StatusCode == http.StatusNotFound:
		return notFound(body)
	case json.Unmarshal(body, answer) != nil:
		return ErrNotRestate
	default:
		return nil
	}
}

// notFound distinguishes the admin API's 404 for an unknown service from that of a proxy, another path or the ingress:
// only it has a restate_code, though a null one.
func notFound(body []byte) error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) == nil {
		if _, found := fields["restate_code"]; found {
			return ErrUnknown
		}
	}
	return &StatusError{Status: http.StatusNotFound}
}

// withoutURL drops the method and URL that http.Client adds to an error, and names the timeout where that was the cause.
func (c *Client) withoutURL(ctx context.Context, err error) error {
	if wrapped, found := errors.AsType[*url.Error](err); found {
		err = wrapped.Err
	}
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s: %w", c.timeout, err)
	}
	return err
}

func (c *Client) url(segments []string) *url.URL {
	target := c.base
	path, raw := []string{strings.TrimRight(target.Path, "/")}, []string{strings.TrimRight(target.EscapedPath(), "/")}
	for _, segment := range segments {
		path, raw = append(path, segment), append(raw, escape(segment))
	}
	target.Path, target.RawPath = strings.Join(path, "/"), strings.Join(raw, "/")
	return &target
}

// escape makes a path segment of any name. Dots are escaped too where a proxy could resolve them.
func escape(segment string) string {
	if strings.Trim(segment, ".") == "" {
		return strings.ReplaceAll(segment, ".", "%2E")
	}
	return url.PathEscape(segment)
}
