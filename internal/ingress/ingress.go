// Package ingress speaks to the Restate ingress: it builds the URL of a send, makes one POST and turns the
// answer into facts. It never sleeps, never retries and passes no judgement; that is its caller's business.
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
	// HTTP is the client to use, as it is but for redirects, which are never followed. Nil makes one.
	HTTP *http.Client
	// DialTimeout bounds the making of a connection by the client that New makes.
	DialTimeout time.Duration
}

// Client posts sends to one ingress. It is safe for concurrent use.
type Client struct {
	http     *http.Client
	base     url.URL // scheme and host only
	prefix   string  // escaped path in front of the workflow, with a slash at its end
	plain    string  // the same, unescaped
	suffix   string
	header   http.Header // of a send with a body
	bare     http.Header // of one without
	password string      // of the URL, to be kept out of texts
	// direct is the transport, when the client does nothing beside it. What a client does for redirects, which are not
	// followed, costs a third of a send.
	direct http.RoundTripper
	// shares tells that the transport is net/http's, which leaves a request's header alone: sends may share one then.
	// Others should, and do not.
	shares  bool
	buffers sync.Pool // of *[]byte, to read answers into
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
	c := &Client{base: url.URL{Scheme: base.Scheme, Host: base.Host}, suffix: "/send"}
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
	client := http.Client{Transport: newTransport(config.DialTimeout)}
	if config.HTTP != nil {
		client = *config.HTTP
	}
	replays := client.Transport == nil
	if _, standard := client.Transport.(*http.Transport); standard {
		// A jar writes its cookies into the header that it is given.
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

// prepare makes the headers that every send has. Replays tells that the transport is told of a request that it may be
// repeated by an empty X-Idempotency-Key.
func (c *Client) prepare(header http.Header, replays bool) {
	if _, set := header["User-Agent"]; !set {
		header["User-Agent"] = []string{"restatestart"}
	}
	if replays {
		// A send may be repeated, since its key makes it idempotent. net/http repeats a POST by itself on a connection that
		// turned out to be dead only when it knows this. An empty list says so, and is never written to the wire.
		header["X-Idempotency-Key"] = []string{}
	}
	c.bare = maps.Clone(header)
	delete(c.bare, "Content-Type")
	if _, set := header["Content-Type"]; !set {
		header["Content-Type"] = []string{"application/json"}
	}
	c.header = header
}

// Server is the host that sends go to, and its port.
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

// Standard tells that sends go through net/http's own transport, with nothing around it.
func (c *Client) Standard() bool { return c.shares && c.direct != nil }

// CloseIdleConnections closes the connections that no send is using.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Send is one workflow start on its way to the ingress.
type Send struct {
	Workflow string
	Key      string
	Handler  string
	Delay    time.Duration // 0 sends none
	Header   http.Header   // goes over the client's own
	Body     []byte        // empty: neither a body nor a Content-Type

	// TraceParent and TraceState go over both headers, as they are, where they are not empty.
	TraceParent string
	TraceState  string
}

// Check tells why a send cannot be made, before anything is sent.
func (s Send) Check() error {
	if err := checkPath(s); err != nil {
		return err
	}
	if s.Delay < 0 {
		return fmt.Errorf("negative delay %s", s.Delay)
	}
	return CheckHeader(s.Header)
}

// Post makes one attempt at a send and reports what came back. An error means that no status came back; a
// start may have been made all the same.
func (c *Client) Post(ctx context.Context, send Send) (Answer, error) {
	response, err := c.do(c.request(ctx, &send))
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	// The status alone decides: an answer that breaks off after it was as good as given.
	return c.read(response, &send), nil
}

// do is http.Client's method of that name, without what there is no use for.
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
	request := template.WithContext(ctx)
	request.URL, request.Host, request.Header = c.url(send), c.base.Host, c.headerOf(send)
	if len(send.Body) == 0 {
		request.Body = http.NoBody
		return request
	}
	body := send.Body
	request.ContentLength = int64(len(body))
	// These types and no others: net/http writes them together with the header.
	request.Body = io.NopCloser(bytes.NewReader(body))
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	return request
}

// template is what all requests have alike.
var template = &http.Request{Method: http.MethodPost, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1} //nolint:gochecknoglobals // a constant

// headerOf is the header of a send. It is shared when the send brings nothing to it.
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

// withoutURL drops what http.Client wraps around an error: the method and the URL, which holds the key and may
// hold credentials.
func withoutURL(err error) error {
	if wrapped, found := errors.AsType[*url.Error](err); found {
		return wrapped.Err
	}
	return err
}
