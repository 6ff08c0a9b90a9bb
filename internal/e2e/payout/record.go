package payout

import (
	"maps"
	"sync"
)

// Record is what happened to one workflow, by key. It outlives restarts of Restate, but not this process. It is safe for
// concurrent use, and every method returns a copy.
type Record struct {
	mu       sync.Mutex
	inputs   map[string]Input            // of the first attempt
	runs     map[string]map[int]struct{} // the payments that completed runs saw
	payments int                         // also the number of the last one
}

func newRecord() *Record {
	return &Record{inputs: make(map[string]Input), runs: make(map[string]map[int]struct{})}
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

// Inputs returns the input of each key's first attempt.
func (r *Record) Inputs() map[string]Input {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.inputs)
}

func (r *Record) enter(key string, input Input) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, found := r.inputs[key]; !found {
		r.inputs[key] = input
	}
}

// pay carries out the side effect and returns its number, which no other payment has.
func (r *Record) pay() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.payments++
	return r.payments
}

// complete records a run by the payment in its journal. A replay reads the same payment and does not count again; a new
// run of the same key has the same invocation id but a payment of its own.
func (r *Record) complete(key string, payment int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs[key] == nil {
		r.runs[key] = make(map[int]struct{})
	}
	r.runs[key][payment] = struct{}{}
}
