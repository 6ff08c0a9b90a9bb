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

// Started is one accepted start, as the first request for its workflow and key made it. Sends to services, virtual objects and shared
// handlers are recorded as well.
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
	identity      *identity // nil if no other send can repeat it
	once          bool      // a workflow's run
	key           string    // that tests use: the idempotency key for a service
}

// identity is what a send and its repeats have in common. That of a workflow's run has no handler and no idempotency key.
type identity struct{ name, key, handler, idempotencyKey string }

type invocations struct {
	retention time.Duration
	latest    map[identity]*Started // forgotten or not
	all       []*Started            // in the order of acceptance
}

// accept adds a start, or returns the remembered one that it repeats.
func (l *invocations) accept(start *Started) (first *Started, previously bool) {
	if start.identity == nil {
		start.InvocationID = randomID(start.Key)
		l.all = append(l.all, start)
		return start, false
	}
	first = l.latest[*start.identity]
	if first != nil && !l.forgets(first, start.At) {
		return first, true
	}
	if l.latest == nil {
		l.latest = make(map[identity]*Started)
	}
	start.InvocationID = start.identity.invocationID(start.once)
	l.latest[*start.identity] = start
	l.all = append(l.all, start)
	return start, false
}

func (l *invocations) forgets(start *Started, now time.Time) bool {
	completed := start.At
	if start.executionTime.After(completed) {
		completed = start.executionTime
	}
	return l.retention >= 0 && now.Sub(completed) >= l.retention
}

// Purge forgets the run of a workflow's key, as a purge through the admin API does: the next send starts it again, with the same
// invocation id, and [Server.Starts] has a second entry. For a service or an object it forgets the runs with this key that had an
// Idempotency-Key. It does nothing if there is none.
func (s *Server) Purge(workflow, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, start := range s.invocations.latest {
		if start.Workflow == workflow && start.key == key {
			delete(s.invocations.latest, id)
		}
	}
}

// accepted is the body of a 202, with its members in the real server's order.
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
			body.ExecutionTime = s.executionTime.Format(time.RFC3339) // the real server omits a fraction of zero
		}
	}
	w.Header().Set("X-Restate-Id", s.InvocationID)
	writeJSON(w, http.StatusAccepted, body)
}

// invocationID has the form of the real server's, ^inv_1[0-9A-Za-z]{33}$, and like it depends on the identity alone. The last 22
// characters of a workflow run's are those of the real server. The 11 before them are an XXH3 of the key there, which the standard
// library lacks, and a part of its SHA-256 here.
func (id *identity) invocationID(once bool) string {
	name := sha256.Sum256([]byte("wf," + id.name + "," + id.key))
	if !once {
		name = sha256.Sum256([]byte(strings.Join([]string{"ik", id.name, id.key, id.handler, id.idempotencyKey}, "\x00")))
	}
	slices.Reverse(name[:16])
	return "inv_1" + partition(cmp.Or(id.key, id.idempotencyKey)) + base62(name[:16], 22)
}

// randomID is the id of a send that none can repeat. For an object it begins like every id of its key.
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

// Starts returns the accepted starts in the order of acceptance: one per workflow and key, and one more each time the key
// started again after it was forgotten ([WithRetention], [Server.Purge]).
func (s *Server) Starts() []Started {
	s.mu.Lock()
	defer s.mu.Unlock()
	starts := make([]Started, len(s.invocations.all))
	for i, start := range s.invocations.all {
		starts[i] = *start
		starts[i].Body = bytes.Clone(start.Body)
		starts[i].Header = start.Header.Clone()
	}
	return starts
}

// StartedKeys returns the started keys of a workflow, forgotten ones included, sorted and without duplicates. Sends to shared handlers
// start nothing.
func (s *Server) StartedKeys(workflow string) []string {
	keys := s.keysInOrder(workflow)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// keysInOrder are the keys of a workflow in the order of their starts. A key that started again appears again.
func (s *Server) keysInOrder(workflow string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := []string{}
	for _, start := range s.invocations.all {
		if s.isStartOf(start, workflow) {
			keys = append(keys, start.key)
		}
	}
	return keys
}

// isStartOf reports whether the start is of the service or object of this name, or of the workflow but not of a shared handler. It is
// called with s.mu held.
func (s *Server) isStartOf(start *Started, workflow string) bool {
	return start.Workflow == workflow && (start.once || s.services.kindOf(workflow) != kindWorkflow)
}
