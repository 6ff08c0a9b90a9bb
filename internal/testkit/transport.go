package testkit

import (
	"io"
	"net/http"
	"strings"
)

// RoundTripper is an HTTP transport made of a function. The ingress package treats it as one that is not net/http's own.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Accept answers every request at once as Restate accepts a start. It is for measuring what the client's side costs.
func Accept(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	return &http.Response{
		StatusCode: http.StatusAccepted, ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"invocationId":"inv_1aSJzH0vIdMD6CQvVnwwCmV56ugtwjHkuj","status":"Accepted"}`)),
	}, nil
}
