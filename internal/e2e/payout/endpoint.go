package payout

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/server"
)

// Endpoint serves Restate services on a loopback port. Its methods are safe for concurrent use.
type Endpoint struct {
	url    string
	server *http.Server
	served chan struct{} // closed once the server stopped

	mu       sync.Mutex
	closing  bool // no request is accepted any more, so that requests can be waited for
	requests sync.WaitGroup
}

// Serve serves the definitions on a free loopback port, by HTTP/2 without TLS, until Close.
func Serve(definitions ...restate.ServiceDefinition) (*Endpoint, error) {
	services := server.NewRestate().WithLogger(slog.DiscardHandler, true)
	for _, definition := range definitions {
		services.Bind(definition)
	}
	handler, err := services.Handler()
	if err != nil {
		return nil, fmt.Errorf("serve workflows: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve workflows: %w", err)
	}
	e := &Endpoint{url: "http://" + listener.Addr().String(), served: make(chan struct{})}
	e.server = &http.Server{Handler: e.counted(handler), Protocols: new(http.Protocols), ReadHeaderTimeout: 5 * time.Second}
	e.server.Protocols.SetUnencryptedHTTP2(true)
	go func() {
		defer close(e.served)
		_ = e.server.Serve(listener) // it returns an error once Close closes the listener
	}()
	return e, nil
}

// StartServe is Serve for a test: the endpoint closes with the test. It returns the URL.
func StartServe(tb testing.TB, definitions ...restate.ServiceDefinition) string {
	tb.Helper()
	endpoint, err := Serve(definitions...)
	if err != nil {
		tb.Fatal(err)
	}
	closeWith(tb, endpoint)
	return endpoint.URL()
}

func closeWith(tb testing.TB, endpoint *Endpoint) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := endpoint.Close(); err != nil {
			tb.Error(err)
		}
	})
}

// counted lets Close wait for the requests that it cut off.
func (e *Endpoint) counted(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.mu.Lock()
		if e.closing {
			e.mu.Unlock()
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		e.requests.Add(1)
		e.mu.Unlock()
		defer e.requests.Done()
		handler.ServeHTTP(w, r)
	})
}

// URL returns the URL to register with Restate.
func (e *Endpoint) URL() string { return e.url }

// Close closes every connection and waits for the handlers. Restate retries what was running. Closing again does nothing.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	err := e.server.Close()
	<-e.served
	e.requests.Wait()
	if err != nil {
		return fmt.Errorf("close the endpoint at %s: %w", e.url, err)
	}
	return nil
}
