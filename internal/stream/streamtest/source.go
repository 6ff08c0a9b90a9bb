// Package streamtest has a stream.Source in memory, for tests in virtual time.
package streamtest

import (
	"context"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// Source holds streams in memory. As with go-redis, a read that waits is not ended by its context. The zero value
// is ready to use.
type Source struct {
	mu      sync.Mutex
	streams map[int][]wire.Entry
	added   map[int]int64
	failing map[int]error
	reads   map[int]int
	wake    chan struct{}
}

// Add appends an entry with this body, under the id <n>-0 where n counts up from 1, and returns that id.
func (s *Source) Add(partition int, body string) wire.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.added == nil {
		s.added, s.streams = map[int]int64{}, map[int][]wire.Entry{}
	}
	s.added[partition]++
	id := wire.ID{Ms: uint64(s.added[partition])}
	s.streams[partition] = append(s.streams[partition], wire.Entry{ID: id, Body: body, HasBody: true})
	s.wakeAll()
	return id
}

// AddEntry appends an entry under an id of its own, which must be above those before it.
func (s *Source) AddEntry(partition int, entry wire.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.added == nil {
		s.added, s.streams = map[int]int64{}, map[int][]wire.Entry{}
	}
	s.added[partition]++
	s.streams[partition] = append(s.streams[partition], entry)
	s.wakeAll()
}

// AddMalformed appends an entry without a body.
func (s *Source) AddMalformed(partition int) wire.ID {
	id := s.Add(partition, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	last := &s.streams[partition][len(s.streams[partition])-1]
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
func (s *Source) Read(_ context.Context, partition int, after wire.ID, count int, block time.Duration) (stream.Page, error) {
	s.mu.Lock()
	if s.reads == nil {
		s.reads = map[int]int{}
	}
	s.reads[partition]++
	s.mu.Unlock()
	timer := time.NewTimer(block)
	defer timer.Stop()
	for {
		page, wake, err := s.next(partition, after, count)
		if err != nil || page.Read > 0 {
			return page, err
		}
		select {
		case <-timer.C:
			return stream.Page{}, nil
		case <-wake:
		}
	}
}

func (s *Source) next(partition int, after wire.ID, count int) (stream.Page, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failing[partition]; err != nil {
		return stream.Page{}, nil, err
	}
	var page stream.Page
	for _, entry := range s.streams[partition] {
		if entry.ID.Compare(after) > 0 && page.Read < count {
			page.Entries = append(page.Entries, entry)
			page.Last = entry.ID
			page.Read++
		}
	}
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return page, s.wake, nil
}

// Tail implements stream.Source.
func (s *Source) Tail(_ context.Context, partition int) (stream.Tail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failing[partition]; err != nil {
		return stream.Tail{}, err
	}
	entries := s.streams[partition]
	if len(entries) == 0 {
		return stream.Tail{}, nil
	}
	return stream.Tail{
		Exists: true, Length: int64(len(entries)), Added: s.added[partition],
		First: entries[0].ID, Last: entries[len(entries)-1].ID,
	}, nil
}

func (s *Source) wakeAll() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}
