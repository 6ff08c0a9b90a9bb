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

// remoteIngress is a real Restate, which this program can neither take down nor ask what it started. Its client does both: it
// refuses to connect while "down", and records the ingress's answers.
type remoteIngress struct {
	url       string
	transport *http.Transport

	mu         sync.Mutex
	down       bool
	started    map[string]bool // keys whose start was answered 202
	duplicates int             // answers for a key that had been started before
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

// RoundTrip posts a start, unless the ingress is "down", and records the answer.
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
	_ = response.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	i.record(request.URL.Path, body)
	return response, nil
}

// record counts an answer 202 to a POST of …/{workflow}/{key}/{handler}/send.
func (i *remoteIngress) record(path string, body []byte) {
	var answer struct {
		Status string `json:"status"`
	}
	segments := strings.Split(path, "/")
	if json.Unmarshal(body, &answer) != nil || len(segments) < 4 {
		return // not an answer of Restate
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.started[segments[len(segments)-3]] = true
	if answer.Status == "PreviouslyAccepted" {
		i.duplicates++
	}
}
