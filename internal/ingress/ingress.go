// Package ingress is the HTTP client of the Restate ingress: it builds the URL of a send, makes one POST and reads the answer.
// It never sleeps, retries or classifies; its caller does.
package ingress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config is what New needs to know.
type Config struct {
	// URL is the base of the ingress: http or https, with a host, perhaps with a path prefix and userinfo.
	URL string
	// RestatePath sends to /restate/send/{workflow}/{key}/{handler} in place of /{workflow}/{key}/{handler}/send.
	RestatePath bool
	// Header goes with every send.
	Header http.Header
	// HTTP is the client to use, except that redirects are never followed. It is not modified. Nil makes one.
	HTTP *http.Client
	// Timeout bounds one attempt, from dial to the end of the answer.
	Timeout time.Duration
}

// Client posts sends to one ingress. It is safe for concurrent use.
type Client struct {
	http     *http.Client
	base     url.URL // scheme and host only
	prefix   string  // escaped path in front of the workflow, with a slash at its end
	plain    string  // the same, unescaped
	suffix   string
	header   http.Header // of a send with a body
	bare     http.Header // of a send without one
	password string      // of the URL, to be redacted
	// direct is the transport, when the client adds nothing to it but redirects, which are not followed and would cost a
	// third of a send.
	direct http.RoundTripper
	// shares reports that sends may share a header: the transport is net/http's, which does not modify one. No transport
	// should, but some do.
	shares  bool
	timeout time.Duration // of one attempt
	buffers sync.Pool     // of *[]byte, to read answers into
}

// New checks the configuration and makes a Client. It does no I/O.
func New(config Config) (*Client, error) {
	base, err := ParseURL(config.URL)
	if err != nil {
		return nil, err
	}
	if err := CheckHeader(config.Header); err != nil {
		return nil, err
	}
	header := make(http.Header, len(config.Header)+1)
	for name, values := range config.Header {
		header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	if base.User != nil {
		if header.Get("Authorization") != "" {
			return nil, errors.New("both the URL's userinfo and an Authorization header are given")
		}
		password, _ := base.User.Password()
		(&http.Request{Header: header}).SetBasicAuth(base.User.Username(), password)
	}
	c := &Client{base: url.URL{Scheme: base.Scheme, Host: base.Host}, suffix: "/send", timeout: config.Timeout}
	if base.User != nil {
		c.password, _ = base.User.Password()
	}
	c.prefix = strings.TrimRight(base.EscapedPath(), "/") + "/"
	if c.plain, err = url.PathUnescape(c.prefix); err != nil {
		return nil, errors.New("the URL's path is not validly escaped")
	}
	if config.RestatePath {
		c.prefix, c.plain, c.suffix = c.prefix+"restate/send/", c.plain+"restate/send/", ""
	}
	client := http.Client{Transport: newTransport(config.Timeout)}
	if config.HTTP != nil {
		client = *config.HTTP
	}
	replays := client.Transport == nil
	if _, standard := client.Transport.(*http.Transport); standard {
		// With a jar, the client adds cookies to the request's header.
		replays, c.shares = true, client.Jar == nil
	}
	if client.Jar == nil && client.Timeout == 0 {
		c.direct = client.Transport
	}
	c.prepare(header, replays)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &client
	return c, nil
}

// prepare makes the headers that every send has. With replays, the transport takes an empty X-Idempotency-Key for permission
// to repeat a request.
func (c *Client) prepare(header http.Header, replays bool) {
	if _, set := header["User-Agent"]; !set {
		header["User-Agent"] = []string{"restatestart"}
	}
	if replays {
		// The workflow key makes a send idempotent, so net/http may repeat it when a kept-alive connection turns out to be
		// dead, which it does for a POST only with this header. A header without values is not sent.
		header["X-Idempotency-Key"] = []string{}
	}
	c.bare = maps.Clone(header)
	delete(c.bare, "Content-Type")
	if _, set := header["Content-Type"]; !set {
		header["Content-Type"] = []string{"application/json"}
	}
	c.header = header
}

// Server is the host and port that sends go to.
func (c *Client) Server() (host string, port int) {
	port = 80
	if c.base.Scheme == "https" {
		port = 443
	}
	if given, err := strconv.Atoi(c.base.Port()); err == nil {
		port = given
	}
	return c.base.Hostname(), port
}

// CloseIdleConnections closes the connections that are not in use.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Send is one workflow start to post.
type Send struct {
	Workflow string
	Key      string
	Handler  string
	Delay    time.Duration // 0 sends none
	Header   http.Header   // takes precedence over Config.Header
	Body     []byte        // empty: neither a body nor a Content-Type
	OmitID   bool          // leave Answer.InvocationID empty, which saves an allocation

	// TraceParent and TraceState take precedence over both headers, where they are not empty.
	TraceParent string
	TraceState  string
}

// Check returns why a send cannot be made, nil when it can.
func (s Send) Check() error {
	if err := checkPath(s); err != nil {
		return err
	}
	if s.Delay < 0 {
		return fmt.Errorf("negative delay %s", s.Delay)
	}
	return CheckHeader(s.Header)
}

// do is http.Client.Do without redirects, and, where the client has neither jar nor timeout, the transport alone.
func (c *Client) do(request *http.Request) (*http.Response, error) {
	if c.direct == nil {
		response, err := c.http.Do(request)
		if err != nil {
			return nil, withoutURL(err)
		}
		return response, nil
	}
	response, err := c.direct.RoundTrip(request)
	switch {
	case err != nil:
		if mismatch, found := errors.AsType[tls.RecordHeaderError](err); found && string(mismatch.RecordHeader[:]) == "HTTP/" {
			return nil, http.ErrSchemeMismatch
		}
		return nil, err
	case response == nil:
		return nil, fmt.Errorf("a transport of type %T answered with neither a response nor an error", c.direct)
	case response.Body == nil:
		response.Body = http.NoBody
	}
	return response, nil
}

func (c *Client) request(ctx context.Context, send *Send) *http.Request {
	parts := &struct { // one allocation
		url  url.URL
		body bytes.Reader
	}{url: c.url(send)}
	request := template.WithContext(ctx)
	request.URL, request.Host, request.Header = &parts.url, c.base.Host, c.headerOf(send)
	if len(send.Body) == 0 {
		request.Body = http.NoBody
		return request
	}
	body := send.Body
	request.ContentLength = int64(len(body))
	parts.body.Reset(body)
	// net/http writes a body of exactly these types in one packet with the header.
	request.Body = io.NopCloser(&parts.body)
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return request
}

// template has what all requests share.
var template = &http.Request{Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1} //nolint:gochecknoglobals // a constant

// headerOf is the header of a send, a shared one when the send adds nothing to it.
func (c *Client) headerOf(send *Send) http.Header {
	base := c.header
	if len(send.Body) == 0 {
		base = c.bare
	}
	if c.shares && len(send.Header) == 0 && send.TraceParent == "" {
		return base
	}
	header := make(http.Header, len(base)+len(send.Header)+2)
	maps.Copy(header, base)
	for name, values := range send.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	if len(send.Body) == 0 {
		delete(header, "Content-Type")
	}
	if send.TraceParent != "" {
		header["Traceparent"] = []string{send.TraceParent}
		if send.TraceState != "" {
			header["Tracestate"] = []string{send.TraceState}
		}
	}
	return header
}

// withoutURL unwraps an error of http.Client, which has the URL with the key and perhaps credentials.
func withoutURL(err error) error {
	if wrapped, found := errors.AsType[*url.Error](err); found {
		return wrapped.Err
	}
	return err
}
