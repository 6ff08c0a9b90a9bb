// Package ingress speaks to the Restate ingress: it builds the URL of a send, makes one POST and turns the
// answer into facts. It never sleeps, never retries and passes no judgement; that is its caller's business.
package ingress

import (
	"bytes"
	"context"
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
	prefix   string  // escaped path in front of the workflow, without a slash at its end
	plain    string  // the same, unescaped
	suffix   string
	header   http.Header
	password string // of the URL, to be kept out of texts
	// replays tells that the transport is net/http's, which is told of a request that it may be repeated by an empty
	// X-Idempotency-Key. Others might send it, or stumble over it.
	replays bool
}

// New checks the configuration and makes a Client. It does no I/O.
func New(config Config) (*Client, error) {
	base, err := parseURL(config.URL)
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
	c := &Client{base: url.URL{Scheme: base.Scheme, Host: base.Host}, suffix: "/send", header: header}
	if base.User != nil {
		c.password, _ = base.User.Password()
	}
	c.prefix = strings.TrimRight(base.EscapedPath(), "/")
	if c.plain, err = url.PathUnescape(c.prefix); err != nil {
		return nil, errors.New("the URL's path is not validly escaped")
	}
	if config.RestatePath {
		c.prefix, c.plain, c.suffix = c.prefix+"/restate/send", c.plain+"/restate/send", ""
	}
	client := http.Client{Transport: newTransport(config.DialTimeout)}
	if config.HTTP != nil {
		client = *config.HTTP
	}
	switch client.Transport.(type) {
	case nil, *http.Transport:
		c.replays = true
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &client
	return c, nil
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
	response, err := c.http.Do(c.request(ctx, send))
	if err != nil {
		return Answer{}, withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	// The status alone decides: an answer that breaks off after it was as good as given.
	return c.read(response, send), nil
}

func (c *Client) request(ctx context.Context, send Send) *http.Request {
	header := make(http.Header, len(c.header)+len(send.Header)+3)
	maps.Copy(header, c.header)
	for name, values := range send.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	if send.TraceParent != "" {
		header["Traceparent"] = []string{send.TraceParent}
	}
	if send.TraceState != "" {
		header["Tracestate"] = []string{send.TraceState}
	}
	if _, set := header["User-Agent"]; !set {
		header["User-Agent"] = []string{"restatestart"}
	}
	if c.replays {
		// A send may be repeated, since its key makes it idempotent. net/http repeats a POST by itself on a connection that
		// turned out to be dead only when it knows this. An empty list says so, and is never written to the wire.
		header["X-Idempotency-Key"] = []string{}
	}

	request := (&http.Request{
		Method: http.MethodPost, URL: c.url(send), Host: c.base.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if len(send.Body) == 0 {
		delete(header, "Content-Type")
		request.Body = http.NoBody
		return request
	}
	if _, set := header["Content-Type"]; !set {
		header["Content-Type"] = []string{"application/json"}
	}
	request.ContentLength = int64(len(send.Body))
	request.Body = io.NopCloser(bytes.NewReader(send.Body))
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(send.Body)), nil }
	return request
}

// withoutURL drops what http.Client wraps around an error: the method and the URL, which holds the key and may
// hold credentials.
func withoutURL(err error) error {
	if wrapped, found := errors.AsType[*url.Error](err); found {
		return wrapped.Err
	}
	return err
}
