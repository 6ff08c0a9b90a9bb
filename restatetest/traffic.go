package restatetest

import (
	"bytes"
	"net/http"
	"time"
)

// Request is one request that reached the server, with any outcome.
type Request struct {
	Method     string
	RequestURI string // as sent, byte for byte
	Proto      string // "HTTP/1.1" or "HTTP/2.0"
	// Workflow (or the service or object), Key and Handler are empty where the path has none.
	Workflow, Key, Handler string
	Header                 http.Header
	Body                   []byte    // nil if the request was refused before it was read
	At                     time.Time // of arrival
	Status                 int       // of the answer; zero if there was none
	Previously             bool      // a repeat: its workflow and key were started before
}

// traffic is the requests that reached the server.
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

// arrive adds a request and reports whether the concurrency limit admits it. If so, leave ends it.
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

// Requests returns every request that reached the server in the order of arrival, including duplicates, failures and health checks, but
// not those that net/http cannot parse, such as one with a raw space in its path.
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

// Attempts returns the number of requests for a key, in any workflow and with any outcome. For services it counts those with this
// Idempotency-Key.
func (s *Server) Attempts(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traffic.attempts[key]
}

// Duplicates returns the number of PreviouslyAccepted answers.
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

// MaxConcurrent returns the largest number of requests served at once, including hanging ones and not those refused by
// [WithConcurrencyLimit]. A request whose client gave up counts until the server notices.
func (s *Server) MaxConcurrent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traffic.highest
}
