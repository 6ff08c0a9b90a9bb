package payout

import (
	"bytes"
	"maps"
	"sync"
)

// Attempt is one entry of the handler. One start has several when its service or its server was interrupted. A start
// whose body cannot be decoded fails before the handler, and has none.
type Attempt struct {
	InvocationID string
	Key          string
	Body         []byte            // as it came in the request that started the workflow
	Input        Input             // Body decoded
	Header       map[string]string // of the request that started the workflow, names in lower case
}

// Record is what happened to one workflow, by key. It outlives restarts of Restate, but not of this process. It is safe
// for concurrent use, and every method returns a copy.
type Record struct {
	mu       sync.Mutex
	attempts map[string][]Attempt
	payments map[string]int
	runs     map[string]map[int]struct{} // the payment each completed run saw
	last     int                         // number of the last payment
}

func newRecord() *Record {
	return &Record{
		attempts: make(map[string][]Attempt),
		payments: make(map[string]int),
		runs:     make(map[string]map[int]struct{}),
	}
}

// Executions returns how many completed runs each key had. A run that was interrupted and replayed counts once; a key
// that was purged or outlived its retention and ran again counts twice. Keys that never completed are left out.
func (r *Record) Executions() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := make(map[string]int, len(r.runs))
	for key, runs := range r.runs {
		counts[key] = len(runs)
	}
	return counts
}

// Payments returns how often the side effect was really carried out for each key. It can be above Executions: a crash
// between the payment and its journal entry makes Restate pay again, which a real service has to guard by key.
func (r *Record) Payments() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.payments)
}

// Attempts returns every entry of the handler for each key, oldest first.
func (r *Record) Attempts() map[string][]Attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	copied := make(map[string][]Attempt, len(r.attempts))
	for key, attempts := range r.attempts {
		for _, attempt := range attempts {
			attempt.Body = bytes.Clone(attempt.Body)
			attempt.Header = maps.Clone(attempt.Header)
			copied[key] = append(copied[key], attempt)
		}
	}
	return copied
}

// Inputs returns the input of each key's first attempt.
func (r *Record) Inputs() map[string]Input {
	r.mu.Lock()
	defer r.mu.Unlock()
	inputs := make(map[string]Input, len(r.attempts))
	for key, attempts := range r.attempts {
		inputs[key] = attempts[0].Input
	}
	return inputs
}

func (r *Record) enter(attempt Attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts[attempt.Key] = append(r.attempts[attempt.Key], attempt)
}

// pay carries out the side effect and returns its number, which no other payment has.
func (r *Record) pay(key string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.payments[key]++
	r.last++
	return r.last
}

// complete notes a run by the payment in its journal. A replay reads the same payment and is not counted again; a new
// run of the same key has the same invocation id but a payment of its own.
func (r *Record) complete(key string, payment int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs[key] == nil {
		r.runs[key] = make(map[int]struct{})
	}
	r.runs[key][payment] = struct{}{}
}
