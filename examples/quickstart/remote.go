package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// remoteIngress is a Restate that cannot be taken down, nor asked what it started. Its client plays both parts: it
// refuses to connect while "down", and keeps what the ingress answered.
type remoteIngress struct {
	url       string
	transport *http.Transport

	mu         sync.Mutex
	down       bool
	started    map[string]bool // keys answered 202
	duplicates int             // answers that a key had been started before
}

func (i *remoteIngress) URL() string          { return i.url }
func (i *remoteIngress) Client() *http.Client { return &http.Client{Transport: i} }
func (i *remoteIngress) Close()               { i.transport.CloseIdleConnections() }
func (i *remoteIngress) Down()                { i.set(true) }
func (i *remoteIngress) Up()                  { i.set(false) }

func (i *remoteIngress) set(down bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.down = down
}

func (i *remoteIngress) StartedKeys(string) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Sorted(maps.Keys(i.started))
}

func (i *remoteIngress) Duplicates() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.duplicates
}

// RoundTrip posts a start, unless the ingress is "down", and notes the answer.
func (i *remoteIngress) RoundTrip(request *http.Request) (*http.Response, error) {
	i.mu.Lock()
	down := i.down
	i.mu.Unlock()
	if down {
		if request.Body != nil {
			_ = request.Body.Close() // as a RoundTripper must
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	response, err := i.transport.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusAccepted {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // it was read to its end, or the error says why not
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	i.note(request.URL.Path, body)
	return response, nil
}

// note counts an answer 202 to a POST of …/{workflow}/{key}/{handler}/send.
func (i *remoteIngress) note(path string, body []byte) {
	var answer struct {
		Status string `json:"status"`
	}
	segments := strings.Split(path, "/")
	if json.Unmarshal(body, &answer) != nil || len(segments) < 4 {
		return // no answer of Restate's
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.started[segments[len(segments)-3]] = true
	if answer.Status == "PreviouslyAccepted" {
		i.duplicates++
	}
}
