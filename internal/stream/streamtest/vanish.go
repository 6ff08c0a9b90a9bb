package streamtest

import (
	"slices"

	"github.com/redisevents/restatestart/internal/wire"
)

// Trim keeps only the last entries of a partition, so many of them, as XTRIM MAXLEN does, and returns the ids of the others.
func (s *Source) Trim(partition, keep int) (removed []wire.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream := s.open(partition)
	for len(stream.entries) > keep {
		removed = append(removed, stream.entries[0].ID)
		stream.entries = stream.entries[1:]
	}
	return removed
}

// Delete removes one entry, as XDEL does, and tells whether it was there.
func (s *Source) Delete(partition int, id wire.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream := s.open(partition)
	before := len(stream.entries)
	stream.entries = slices.DeleteFunc(slices.Clone(stream.entries), func(entry wire.Entry) bool { return entry.ID == id })
	return len(stream.entries) < before
}

// Drop removes the whole stream, as DEL does, and returns what it was.
func (s *Source) Drop(partition int) Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := *s.open(partition)
	delete(s.streams, partition)
	return was
}

// Snapshot is the stream as it is now, such as a replica may have it.
func (s *Source) Snapshot(partition int) Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream := *s.open(partition)
	stream.entries = slices.Clone(stream.entries)
	return stream
}

// Restore puts another state of the stream in its place, as a failover to a replica does that lacked entries.
func (s *Source) Restore(partition int, stream Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.open(partition) = stream
	s.wakeAll()
}

// StopCounting makes streams tell no more how many entries were ever added, as a server before Redis 7.
func (s *Source) StopCounting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = true
}

// StartCounting makes the partition's stream tell again, and count from what it holds, as a server does that was upgraded.
func (s *Source) StartCounting(partition int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = false
	stream := s.open(partition)
	stream.added = int64(len(stream.entries))
}

// open is the partition's stream, which begins with that. It is called with mu held.
func (s *Source) open(partition int) *Stream {
	if s.streams == nil {
		s.streams = map[int]*Stream{}
	}
	if s.streams[partition] == nil {
		s.streams[partition] = &Stream{}
	}
	return s.streams[partition]
}

func (s *Source) entries(partition int) []wire.Entry {
	if found := s.streams[partition]; found != nil {
		return found.entries
	}
	return nil
}

func (s *Stream) add(id wire.ID, body string) {
	s.entries = append(s.entries, wire.Entry{ID: id, Body: body, HasBody: true})
	s.added++
	s.last = id
}
