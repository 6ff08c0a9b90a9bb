package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// tally is an HTTP transport that counts what the ingress answered. It is safe for concurrent use.
type tally struct {
	transport *http.Transport
	delay     time.Duration // before each request

	mu     sync.Mutex
	counts counts
}

// counts are answers by kind.
type counts struct {
	Accepted int // started by this one
	Repeated int // started before: PreviouslyAccepted
	Refused  int // any status but 2xx
	Broken   int // no answer
}

func (c counts) String() string {
	return fmt.Sprintf("%d accepted, %d previously accepted, %d refused, %d unanswered", c.Accepted, c.Repeated, c.Refused, c.Broken)
}

func newTally() *tally {
	// As many idle connections as are in use at once, as Options.HTTPClient asks for.
	return &tally{transport: &http.Transport{MaxIdleConnsPerHost: 64}}
}

func (a *tally) client() *http.Client { return &http.Client{Transport: a} }

// RoundTrip implements http.RoundTripper.
func (a *tally) RoundTrip(request *http.Request) (*http.Response, error) {
	if a.delay > 0 {
		rest(request.Context(), a.delay)
	}
	response, err := a.transport.RoundTrip(request)
	if err != nil {
		a.count(func(c *counts) { c.Broken++ })
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		a.count(func(c *counts) { c.Refused++ })
		return response, nil
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		a.count(func(c *counts) { c.Broken++ })
		_ = response.Body.Close()
		return nil, err
	}
	// Only its end is read from now on; the connection was given back with it.
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(text))
	var told answer
	if json.Unmarshal(text, &told) == nil && told.Status == "PreviouslyAccepted" {
		a.count(func(c *counts) { c.Repeated++ })
	} else {
		a.count(func(c *counts) { c.Accepted++ })
	}
	return response, nil
}

// CloseIdleConnections is what http.Client looks for.
func (a *tally) CloseIdleConnections() { a.transport.CloseIdleConnections() }

func (a *tally) count(one func(*counts)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	one(&a.counts)
}

func (a *tally) now() counts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// awaitAccepted waits until n starts were accepted for the first time.
func (a *tally) awaitAccepted(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return a.now().Accepted >= n }, patience, time.Millisecond, "%d starts", n)
}
