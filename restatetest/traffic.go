package restatetest

import (
	"bytes"
	"net/http"
	"time"
)

// Request is one request that reached the server, whatever became of it.
type Request struct {
	Method     string
	RequestURI string // as sent, byte for byte
	Proto      string // "HTTP/1.1" or "HTTP/2.0"
	// Workflow, which may be a service or an object, Key and Handler are empty where the path does not tell them.
	Workflow, Key, Handler string
	Header                 http.Header
	Body                   []byte    // nil if it was not read: the request was turned away before
	At                     time.Time // of arrival
	Status                 int       // of the answer; zero if there was none
	Previously             bool      // it was a repeat: its workflow and key had been started before
}

// traffic is what reached the server.
type traffic struct {
	requests []*Request
	attempts map[string]int // by key
	serving  int
	highest  int
}

func (t *traffic) attempt(key string) {
	if t.attempts == nil {
		t.attempts = make(map[string]int)
	}
	t.attempts[key]++
}

// arrive enters a request and reports whether it may be served under the limit of concurrent ones. If so, leave ends it.
func (t *traffic) arrive(request *Request, limit int) bool {
	t.requests = append(t.requests, request)
	if limit > 0 && t.serving >= limit {
		return false
	}
	t.serving++
	t.highest = max(t.highest, t.serving)
	return true
}

func (t *traffic) leave() { t.serving-- }

// Requests returns every request that reached the server, in the order of arrival: duplicates, failures and health checks
// included. What net/http cannot parse, such as a raw space in the path, does not count as having reached it.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests := make([]Request, len(s.traffic.requests))
	for i, request := range s.traffic.requests {
		requests[i] = *request
		requests[i].Body = bytes.Clone(request.Body)
		requests[i].Header = request.Header.Clone()
	}
	return requests
}

// Attempts is the number of requests that named a key, in any workflow and with any outcome. For services it counts those
// with this Idempotency-Key.
func (s *Server) Attempts(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traffic.attempts[key]
}

// Duplicates is the number of PreviouslyAccepted answers given.
func (s *Server) Duplicates() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	duplicates := 0
	for _, request := range s.traffic.requests {
		if request.Previously && request.Status == http.StatusAccepted {
			duplicates++
		}
	}
	return duplicates
}

// MaxConcurrent is the largest number of requests that were being served at once, hanging ones included, those turned away
// by [WithConcurrencyLimit] not. A request whose client gave up counts until the server has noticed.
func (s *Server) MaxConcurrent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traffic.highest
}
