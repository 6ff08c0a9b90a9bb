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

// Source holds streams in memory. As with go-redis, a cancelled context does not end a read that waits. A stream counts
// its entries, and keeps its last id, as in Redis 7. The zero value is ready to use.
type Source struct {
	mu        sync.Mutex
	streams   map[int]*Stream
	failing   map[int]error
	reads     map[int]int
	uncounted bool // Tail does not have Added
	wake      chan struct{}
}

// Stream is one stream at one moment.
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

// AddAt appends an entry with this body under an id above the last one.
func (s *Source) AddAt(partition int, id wire.ID, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open(partition).add(id, body)
	s.wakeAll()
}

// AddEntry appends an entry, whose id must be above the last one.
func (s *Source) AddEntry(partition int, entry wire.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream := s.open(partition)
	stream.entries = append(stream.entries, entry)
	stream.added++
	stream.last = entry.ID
	s.wakeAll()
}

// AddMalformed appends an entry without a body, and returns its id.
func (s *Source) AddMalformed(partition int) wire.ID {
	id := s.Add(partition, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.streams[partition].entries
	last := &entries[len(entries)-1]
	last.Body, last.HasBody = "", false
	return id
}

// Fail makes reads of the partition return an error, until it is called with nil.
func (s *Source) Fail(partition int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing == nil {
		s.failing = map[int]error{}
	}
	s.failing[partition] = err
	s.wakeAll()
}

// Reads is the number of reads of a partition so far, including failed ones.
func (s *Source) Reads(partition int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads[partition]
}

// Read implements stream.Source.
func (s *Source) Read(_ context.Context, partition int, request stream.ReadRequest) (stream.ReadResult, error) {
	s.mu.Lock()
	if s.reads == nil {
		s.reads = map[int]int{}
	}
	s.reads[partition]++
	s.mu.Unlock()
	timer := time.NewTimer(request.Block)
	defer timer.Stop()
	for {
		result, wake, err := s.next(partition, request)
		if err != nil || len(result.Pages) > 0 || request.Block == 0 {
			return result, err
		}
		select {
		case <-timer.C:
			return stream.ReadResult{}, nil
		case <-wake:
		}
	}
}

func (s *Source) next(partition int, request stream.ReadRequest) (stream.ReadResult, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failing[partition]; err != nil {
		return stream.ReadResult{}, nil, err
	}
	entries := s.entries(partition)
	first := sort.Search(len(entries), func(i int) bool { return entries[i].ID.Compare(request.After) > 0 })
	var result stream.ReadResult
	for page := range slices.Chunk(entries[first:min(first+request.Count, len(entries))], request.Batch) {
		for _, entry := range page {
			result.Bytes += len(entry.Body)
		}
		result.Pages = append(result.Pages, stream.Page{Entries: slices.Clone(page), Read: len(page), Last: page[len(page)-1].ID})
	}
	if request.Block == 0 {
		tail := s.tail(partition)
		result.Tail = &tail
	}
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return result, s.wake, nil
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
	if s.uncounted {
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
