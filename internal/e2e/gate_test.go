package e2e_test

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// gate is a proxy before an ingress that can be shut: then starts wait in it, either on their way to Restate or, once
// Restate has accepted them, on the way back.
type gate struct {
	*tally

	url string

	mu      sync.Mutex
	holds   func(key string) bool
	answers bool          // what waits is answers
	waiting int           // starts that wait
	opened  chan struct{} // closed while the gate is open
}

// newGate returns an open one.
func newGate(t *testing.T, restate *servers.Restate) *gate {
	t.Helper()
	ingress, err := url.Parse(restate.Ingress())
	require.NoError(t, err)
	g := &gate{tally: newTally(), opened: make(chan struct{})}
	close(g.opened)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(ingress) },
		Transport: g,
		ErrorLog:  log.New(io.Discard, "", 0), // of clients that were killed
	})
	g.url = proxy.URL
	t.Cleanup(func() {
		g.open()
		proxy.Close()
		g.CloseIdleConnections()
	})
	return g
}

// shutBefore makes the starts of certain keys wait before Restate gets them.
func (g *gate) shutBefore(holds func(key string) bool) { g.shut(holds, false) }

// shutBehind makes the answers to the starts of certain keys wait.
func (g *gate) shutBehind(holds func(key string) bool) { g.shut(holds, true) }

func (g *gate) shut(holds func(key string) bool, answers bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds, g.answers, g.opened = holds, answers, make(chan struct{})
}

// open lets everything pass, what waits included.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.opened:
	default:
		close(g.opened)
	}
}

// awaitWaiting waits until exactly n starts wait.
func (g *gate) awaitWaiting(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.waiting == n
	}, patience, interval, "%d starts wait", n)
}

// RoundTrip implements http.RoundTripper.
func (g *gate) RoundTrip(request *http.Request) (*http.Response, error) {
	// The server notices that a client is gone once its request was read to the end.
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	request.Body = io.NopCloser(bytes.NewReader(body))
	key := strings.Split(request.URL.Path, "/")[2]
	g.mu.Lock()
	held, answers := g.holds != nil && g.holds(key), g.answers
	g.mu.Unlock()
	if held && !answers {
		if err := g.wait(request); err != nil {
			return nil, err
		}
	}
	response, err := g.tally.RoundTrip(request)
	if err == nil && held && answers {
		if err := g.wait(request); err != nil {
			_ = response.Body.Close()
			return nil, err
		}
	}
	return response, err
}

func (g *gate) wait(request *http.Request) error {
	g.mu.Lock()
	opened := g.opened
	g.waiting++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.waiting--
	}()
	select {
	case <-opened:
		return nil
	case <-request.Context().Done():
		return request.Context().Err()
	}
}
