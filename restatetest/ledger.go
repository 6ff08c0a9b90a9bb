package restatetest

import (
	"bytes"
	"crypto/sha256"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Started is one accepted start: what the first request for its workflow and key brought.
type Started struct {
	Workflow, Key, Handler string
	InvocationID           string
	Body                   []byte
	Header                 http.Header   // of the request, as received
	Delay                  time.Duration // of ?delay=; zero without one

	executionTime time.Time // zero without a delay
}

// identity is what makes a start the same start. The handler is no part of it.
type identity struct{ workflow, key string }

type ledger struct {
	starts map[identity]*Started
	order  []*Started
}

// accept enters a start, unless there is one of its workflow and key, which it returns then.
func (l *ledger) accept(start *Started) (first *Started, previously bool) {
	id := identity{start.Workflow, start.Key}
	if first, previously = l.starts[id]; previously {
		return first, true
	}
	if l.starts == nil {
		l.starts = make(map[identity]*Started)
	}
	start.InvocationID = invocationID(start.Workflow, start.Key)
	l.starts[id] = start
	l.order = append(l.order, start)
	return start, false
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
	}
	w.Header().Set("X-Restate-Id", s.InvocationID)
	writeJSON(w, http.StatusAccepted, body)
}

// invocationID has the shape of the real server's, ^inv_1[0-9A-Za-z]{33}$, and depends on workflow and key alone as theirs
// does. The last 22 characters are what the real server computes, too. The 11 before them are its XXH3 of the key, which the
// standard library lacks: here they are cut from a SHA-256 of the key.
func invocationID(workflow, key string) string {
	partition := sha256.Sum256([]byte(key))
	name := sha256.Sum256([]byte("wf," + workflow + "," + key))
	slices.Reverse(name[:16])
	return "inv_1" + base62(partition[:8], 11) + base62(name[:16], 22)
}

func base62(number []byte, width int) string {
	digits := new(big.Int).SetBytes(number).Text(62)
	return strings.Repeat("0", width-len(digits)) + digits
}

// Starts returns the accepted starts, one per workflow and key, in the order of their acceptance.
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

// StartedKeys returns the keys of a workflow that were started, sorted.
func (s *Server) StartedKeys(workflow string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := []string{}
	for id := range s.ledger.starts {
		if id.workflow == workflow {
			keys = append(keys, id.key)
		}
	}
	slices.Sort(keys)
	return keys
}
