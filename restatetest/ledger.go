package restatetest

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Started is one accepted start: what the first request for its workflow and key brought. Sends to services, virtual objects
// and shared handlers are entered as well.
type Started struct {
	Workflow       string // or the service's or object's name
	Key            string // empty for a service
	Handler        string
	IdempotencyKey string // the header's; empty without one, and always for a workflow's run
	InvocationID   string
	Body           []byte
	Header         http.Header   // of the request, as received
	Delay          time.Duration // of ?delay=; zero without one
	At             time.Time     // of acceptance

	executionTime time.Time // zero without a delay
	identity      *identity // nil if no other send can be a repeat of it
	once          bool      // a workflow's run
	key           string    // by which the tests know it: a service's is its idempotency key
}

// identity is what makes a send the same send. Handler and idempotency key are no part of a workflow run's.
type identity struct{ name, key, handler, idempotencyKey string }

type ledger struct {
	retention time.Duration
	starts    map[identity]*Started // the latest ones, forgotten or not
	order     []*Started
}

// accept enters a start, unless it repeats one that is remembered, which it returns then.
func (l *ledger) accept(start *Started) (first *Started, previously bool) {
	if start.identity == nil {
		start.InvocationID = randomID(start.Key)
		l.order = append(l.order, start)
		return start, false
	}
	first = l.starts[*start.identity]
	if first != nil && !l.forgets(first, start.At) {
		return first, true
	}
	if l.starts == nil {
		l.starts = make(map[identity]*Started)
	}
	start.InvocationID = start.identity.invocationID(start.once)
	l.starts[*start.identity] = start
	l.order = append(l.order, start)
	return start, false
}

func (l *ledger) forgets(start *Started, now time.Time) bool {
	completed := start.At
	if start.executionTime.After(completed) {
		completed = start.executionTime
	}
	return l.retention >= 0 && now.Sub(completed) >= l.retention
}

// Purge forgets the run of a workflow's key, as the admin API's purge does: the next send of it starts it again, with the
// same invocation id, and [Server.Starts] has a second entry. For a service or an object it forgets the runs with this key that had an
// Idempotency-Key. It does nothing if there is none.
func (s *Server) Purge(workflow, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, start := range s.ledger.starts {
		if start.Workflow == workflow && start.key == key {
			delete(s.ledger.starts, id)
		}
	}
}

// accepted is the body of a 202, its members in the real server's order.
type accepted struct {
	InvocationID  string `json:"invocationId"`
	ExecutionTime string `json:"executionTime,omitempty"`
	Status        string `json:"status"`
}

func (s *Started) answer(w http.ResponseWriter, previously bool) {
	body := accepted{InvocationID: s.InvocationID, Status: "Accepted"}
	if previously {
		body.Status = "PreviouslyAccepted"
	}
	if scheduled := !s.executionTime.IsZero(); scheduled && (!previously || time.Now().Before(s.executionTime)) {
		body.ExecutionTime = s.executionTime.Format("2006-01-02T15:04:05.000000000Z")
		if s.executionTime.Nanosecond() == 0 {
			body.ExecutionTime = s.executionTime.Format(time.RFC3339) // the real server leaves out a fraction of nothing
		}
	}
	w.Header().Set("X-Restate-Id", s.InvocationID)
	writeJSON(w, http.StatusAccepted, body)
}

// invocationID has the shape of the real server's, ^inv_1[0-9A-Za-z]{33}$, and depends on the identity alone as theirs
// does. The last 22 characters of a workflow run's are what the real server computes, too. The 11 before them are its XXH3 of the key,
// which the standard library lacks: here they are cut from a SHA-256 of the key.
func (id *identity) invocationID(once bool) string {
	name := sha256.Sum256([]byte("wf," + id.name + "," + id.key))
	if !once {
		name = sha256.Sum256([]byte(strings.Join([]string{"ik", id.name, id.key, id.handler, id.idempotencyKey}, "\x00")))
	}
	slices.Reverse(name[:16])
	return "inv_1" + partition(cmp.Or(id.key, id.idempotencyKey)) + base62(name[:16], 22)
}

// randomID is of a send that no other repeats. That of an object's key begins as all of the key do.
func randomID(key string) string {
	var number [16]byte
	_, _ = rand.Read(number[:]) // which never fails
	return "inv_1" + partition(cmp.Or(key, string(number[:]))) + base62(number[:], 22)
}

func partition(key string) string {
	sum := sha256.Sum256([]byte(key))
	return base62(sum[:8], 11)
}

func base62(number []byte, width int) string {
	digits := new(big.Int).SetBytes(number).Text(62)
	return strings.Repeat("0", width-len(digits)) + digits
}

// Starts returns the accepted starts in the order of their acceptance: one per workflow and key, and one more each time the key
// started again after it was forgotten ([WithRetention], [Server.Purge]).
func (s *Server) Starts() []Started {
	s.mu.Lock()
	defer s.mu.Unlock()
	starts := make([]Started, len(s.ledger.order))
	for i, start := range s.ledger.order {
		starts[i] = *start
		starts[i].Body = bytes.Clone(start.Body)
		starts[i].Header = start.Header.Clone()
	}
	return starts
}

// StartedKeys returns the keys of a workflow that were started, forgotten ones included, sorted and each once. Sends to shared
// handlers start nothing.
func (s *Server) StartedKeys(workflow string) []string {
	keys := s.keysInOrder(workflow)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// keysInOrder are the keys of a workflow as they were started, again those that started again.
func (s *Server) keysInOrder(workflow string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := []string{}
	for _, start := range s.ledger.order {
		if s.counts(start, workflow) {
			keys = append(keys, start.key)
		}
	}
	return keys
}

// counts reports whether the start is one of the workflow, not of a shared handler, or of the service or object of this name. It is
// called with s.mu held.
func (s *Server) counts(start *Started, workflow string) bool {
	return start.Workflow == workflow && (start.once || s.services.kindOf(workflow) != kindWorkflow)
}
