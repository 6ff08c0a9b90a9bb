// Package check compares what a consumer did with what its stream holds. It records every request of a start, every answer,
// every position that was sampled and every entry, and reports violations of:
//
//   - each kept entry was accepted, before the position passed it;
//   - each key ran, once, with the input of its first entry;
//   - the starts of a key were made in the order of its entries;
//   - a position never moved back;
//   - nothing was started that no entry asked for.
package check

import (
	"slices"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Ref names an entry.
type Ref struct {
	Partition int
	ID        wire.ID
}

// Entry is an entry of a stream.
type Entry struct {
	Ref

	Message string // its publisher's name for it; one that was added again occurs more than once
	Key     string // what it starts; empty when it is not kept
}

// Options are what the check allows for.
type Options struct {
	// Failover allows Redis itself to lose entries and positions, as a failover does with what was not replicated: positions
	// may move back, and starts may be of entries that the streams no longer hold.
	Failover bool
}

// Record is what happened. It is safe for concurrent use.
type Record struct {
	options Options

	mu        sync.Mutex
	requested map[Ref]time.Time // first request
	accepted  map[Ref]time.Time // first answer that accepted it
	keys      map[Ref]string    // as requested
	repeats   int
	positions map[int][]sample // those above all earlier ones
	last      map[int]wire.ID
	resets    map[int][]wire.ID // requested, and not seen yet
	back      []Violation
	seen      int
	streams   map[int][]Entry
}

// sample is a position that was read.
type sample struct {
	id wire.ID
	at time.Time // when it was written, or read when that is unknown
}

// New returns an empty record.
func New(options Options) *Record {
	return &Record{
		options:   options,
		requested: map[Ref]time.Time{}, accepted: map[Ref]time.Time{}, keys: map[Ref]string{},
		positions: map[int][]sample{}, last: map[int]wire.ID{}, resets: map[int][]wire.ID{},
		streams: map[int][]Entry{},
	}
}

// Requested records a request to start an entry under a key. Call it before the request is forwarded.
func (r *Record) Requested(ref Ref, key string, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, found := r.requested[ref]; !found {
		r.requested[ref] = at.Round(0)
		r.keys[ref] = key
	}
}

// Accepted records that the start of an entry was accepted, now or previously. Call it before the answer is forwarded.
func (r *Record) Accepted(ref Ref, previously bool, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if previously {
		r.repeats++
	}
	if _, found := r.accepted[ref]; !found {
		r.accepted[ref] = at.Round(0)
	}
}

// Reset records a request to move a position back to a target: it may do so once.
func (r *Record) Reset(partition int, target wire.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resets[partition] = append(r.resets[partition], target)
}

// resetLocked reports whether a position that moved back to id was requested to.
func (r *Record) resetLocked(partition int, id wire.ID) bool {
	asked := r.resets[partition]
	at := slices.IndexFunc(asked, func(target wire.ID) bool { return id.Compare(target) >= 0 })
	if at < 0 {
		return false
	}
	r.resets[partition] = slices.Delete(asked, at, at+1)
	return true
}

// Position records a stored position, when it was written, zero when that is unknown, and when it was read.
func (r *Record) Position(partition int, id wire.ID, written, read time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen++
	last := r.last[partition]
	if id == last {
		return
	}
	r.last[partition] = id
	samples := r.positions[partition]
	switch {
	case id.Compare(last) > 0:
	case r.options.Failover:
		// What was read above it was lost, and passed nothing.
		samples = slices.DeleteFunc(samples, func(s sample) bool { return s.id.Compare(id) > 0 })
		r.positions[partition] = samples
	case r.resetLocked(partition, id):
		// What it passed before stays passed.
	default:
		r.back = append(r.back, Violation{
			Kind: Backward, Partition: partition, Entry: id, At: read, Detail: "it was " + last.String() + " before",
		})
	}
	if n := len(samples); n > 0 && id.Compare(samples[n-1].id) <= 0 {
		return
	}
	at := read.Round(0)
	if !written.IsZero() && written.Before(at) {
		at = written.Round(0)
	}
	r.positions[partition] = append(samples, sample{id, at})
}

// Stream records all entries of a partition.
func (r *Record) Stream(partition int, entries ...Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams[partition] = entries
}

// Numbers are the counts of a report.
type Numbers struct {
	Entries   int // in the streams
	Kept      int // of them
	Keys      int // that they start
	Accepted  int // entries
	Repeats   int // answers that said PreviouslyAccepted
	Positions int // samples of a position
}

// Numbers returns the counts.
func (r *Record) Numbers() Numbers {
	r.mu.Lock()
	defer r.mu.Unlock()
	numbers := Numbers{Accepted: len(r.accepted), Repeats: r.repeats, Positions: r.seen}
	keys := map[string]bool{}
	for _, entries := range r.streams {
		numbers.Entries += len(entries)
		for _, entry := range entries {
			if entry.Key != "" {
				numbers.Kept++
				keys[entry.Key] = true
			}
		}
	}
	numbers.Keys = len(keys)
	return numbers
}
