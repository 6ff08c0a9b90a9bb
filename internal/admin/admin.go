// Package admin asks Restate's admin API about services: it makes one GET and turns the answer into facts. It never
// sleeps, never retries and passes no judgement; that is its caller's business. Nothing of an answer is in its errors.
package admin

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

// maxAnswer is how much of an answer is read: a service's has the JSON schemas of all its handlers.
const maxAnswer = 8 << 20

var (
	// ErrUnknown says that no service of that name is registered.
	ErrUnknown = errors.New("no service of that name is registered")
	// ErrStranger says that an answer is not one of Restate's admin API: it came from something else.
	ErrStranger = errors.New("the answer is not one of Restate's admin API")
)

// StatusError is an answer that is neither 200 nor says that a service is unknown.
type StatusError struct{ Status int }

func (e *StatusError) Error() string { return "answer " + strconv.Itoa(e.Status) }

// Config is what New needs to know.
type Config struct {
	// URL is the base of the admin API, http or https, with a host; a path prefix and userinfo are kept.
	URL *url.URL
	// Header goes with every request.
	Header http.Header
	// HTTP is the client to use, as it is but for redirects, which are never followed. Nil makes one that keeps no
	// connection.
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

// New makes a Client. It does no I/O. The error is about credentials that are given twice.
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

// Service is what the admin API says of a service.
type Service struct {
	Name     string    `json:"name"`
	Type     string    `json:"ty"`
	Public   bool      `json:"public"`
	Handlers []Handler `json:"handlers"`
	// Retention is how long a completed workflow is remembered; ParseDuration reads it. Empty unless it is a workflow.
	Retention string `json:"workflow_completion_retention"` //nolint:tagliatelle // Restate's own name
}

// TypeWorkflow is the type of a workflow, and of the one of its handlers that runs it.
const TypeWorkflow = "Workflow"

// Handler is what the admin API says of one of a service's handlers.
type Handler struct {
	Name   string `json:"name"`
	Type   string `json:"ty"` // empty for the handlers of a plain service
	Public bool   `json:"public"`
	Input  string `json:"input_description"` //nolint:tagliatelle // as above
}

// Handler is the handler of a name.
func (s Service) Handler(name string) (Handler, bool) {
	at := slices.IndexFunc(s.Handlers, func(h Handler) bool { return h.Name == name })
	if at < 0 {
		return Handler{}, false
	}
	return s.Handlers[at], true
}

// Service asks about one service. The error is ErrUnknown, ErrStranger, a *StatusError, or that of the connection.
func (c *Client) Service(ctx context.Context, name string) (Service, error) {
	var service Service
	err := c.get(ctx, &service, "services", name)
	if err == nil && (service.Name != name || service.Type == "") {
		err = ErrStranger
	}
	if err != nil {
		return Service{}, err
	}
	return service, nil
}

// BodyRequired tells whether a workflow's handler refuses a start without a body; known is false where the admin API does
// not say. What Service says of the input leaves out that there may be none.
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
		return c.plain(ctx, err)
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
		return c.plain(ctx, err)
	case len(body) > maxAnswer:
		return fmt.Errorf("%w: it is longer than %d MiB", ErrStranger, maxAnswer>>20)
	case response.StatusCode == http.StatusNotFound:
		return notFound(body)
	case json.Unmarshal(body, answer) != nil:
		return ErrStranger
	default:
		return nil
	}
}

// notFound tells Restate's own 404 about a service from that of a proxy, of another path, or of the ingress: it alone has
// a code of Restate's, though that is null.
func notFound(body []byte) error {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) == nil {
		if _, found := fields["restate_code"]; found {
			return ErrUnknown
		}
	}
	return &StatusError{Status: http.StatusNotFound}
}

// plain drops the method and the URL that http.Client wraps around an error, and names the time that ran out.
func (c *Client) plain(ctx context.Context, err error) error {
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

// escape makes one path segment of any name, one of dots included, which something on the way could resolve.
func escape(segment string) string {
	if strings.Trim(segment, ".") == "" {
		return strings.ReplaceAll(segment, ".", "%2E")
	}
	return url.PathEscape(segment)
}
