// Package streamtest has a stream.Source in memory, for tests in virtual time.
package streamtest

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// Source holds streams in memory. As with go-redis, a read that waits is not ended by its context. The zero value
// is ready to use. A stream counts its entries, and knows its last id, as those of Redis 7 do.
type Source struct {
	mu      sync.Mutex
	streams map[int]*Stream
	failing map[int]error
	reads   map[int]int
	silent  bool // about counts
	wake    chan struct{}
}

// Stream is one stream as it was at a moment.
type Stream struct {
	entries []wire.Entry
	added   int64
	last    wire.ID
}

// Add appends an entry with this body, under the id <n>-0 where n counts up from 1, and returns that id.
func (s *Source) Add(partition int, body string) wire.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream := s.open(partition)
	stream.add(wire.ID{Ms: stream.last.Ms + 1}, body)
	s.wakeAll()
	return stream.last
}

// AddAt appends an entry under an id, which is above the last one.
func (s *Source) AddAt(partition int, id wire.ID, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open(partition).add(id, body)
	s.wakeAll()
}

// AddEntry appends an entry under an id of its own, which must be above those before it.
func (s *Source) AddEntry(partition int, entry wire.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream := s.open(partition)
	stream.entries = append(stream.entries, entry)
	stream.added++
	stream.last = entry.ID
	s.wakeAll()
}

// AddMalformed appends an entry without a body.
func (s *Source) AddMalformed(partition int) wire.ID {
	id := s.Add(partition, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.streams[partition].entries
	last := &entries[len(entries)-1]
	last.Body, last.HasBody = "", false
	return id
}

// Fail makes reads of the partition return an error, until it is nil.
func (s *Source) Fail(partition int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing == nil {
		s.failing = map[int]error{}
	}
	s.failing[partition] = err
	s.wakeAll()
}

// Reads counts the reads of a partition so far, failed ones included.
func (s *Source) Reads(partition int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads[partition]
}

// Read implements stream.Source.
func (s *Source) Read(_ context.Context, partition int, ask stream.Ask) (stream.Answer, error) {
	s.mu.Lock()
	if s.reads == nil {
		s.reads = map[int]int{}
	}
	s.reads[partition]++
	s.mu.Unlock()
	timer := time.NewTimer(ask.Block)
	defer timer.Stop()
	for {
		answer, wake, err := s.next(partition, ask)
		if err != nil || len(answer.Pages) > 0 || ask.Block == 0 {
			return answer, err
		}
		select {
		case <-timer.C:
			return stream.Answer{}, nil
		case <-wake:
		}
	}
}

func (s *Source) next(partition int, ask stream.Ask) (stream.Answer, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failing[partition]; err != nil {
		return stream.Answer{}, nil, err
	}
	entries := s.entries(partition)
	first := sort.Search(len(entries), func(i int) bool { return entries[i].ID.Compare(ask.After) > 0 })
	var answer stream.Answer
	for page := range slices.Chunk(entries[first:min(first+ask.Count, len(entries))], ask.Batch) {
		for _, entry := range page {
			answer.Bytes += len(entry.Body)
		}
		answer.Pages = append(answer.Pages, stream.Page{Entries: slices.Clone(page), Read: len(page), Last: page[len(page)-1].ID})
	}
	if ask.Block == 0 {
		tail := s.tail(partition)
		answer.Tail = &tail
	}
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return answer, s.wake, nil
}

// Tail implements stream.Source.
func (s *Source) Tail(_ context.Context, partition int) (stream.Tail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failing[partition]; err != nil {
		return stream.Tail{}, err
	}
	return s.tail(partition), nil
}

func (s *Source) tail(partition int) stream.Tail {
	found := s.streams[partition]
	if found == nil {
		return stream.Tail{}
	}
	tail := stream.Tail{Exists: true, Length: int64(len(found.entries)), Added: found.added, Last: found.last}
	if s.silent {
		tail.Added = -1
	}
	if tail.Length > 0 {
		tail.First, tail.End = found.entries[0].ID, found.entries[tail.Length-1].ID
	}
	return tail
}

func (s *Source) wakeAll() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}
