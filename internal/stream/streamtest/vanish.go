package streamtest

import (
	"slices"

	"github.com/redisevents/restatestart/internal/wire"
)

// Trim keeps only so many of a partition's last entries, as XTRIM MAXLEN does, and returns the ids of the others.
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

// Delete removes one entry, as XDEL does, and reports whether it was there.
func (s *Source) Delete(partition int, id wire.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream := s.open(partition)
	before := len(stream.entries)
	stream.entries = slices.DeleteFunc(slices.Clone(stream.entries), func(entry wire.Entry) bool { return entry.ID == id })
	return len(stream.entries) < before
}

// Drop removes the whole stream, as DEL does, and returns it.
func (s *Source) Drop(partition int) Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := *s.open(partition)
	delete(s.streams, partition)
	return was
}

// Snapshot is a copy of the stream as it is now, as a replica may have it.
func (s *Source) Snapshot(partition int) Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream := *s.open(partition)
	stream.entries = slices.Clone(stream.entries)
	return stream
}

// Restore replaces the stream by another state, as a failover does to a replica that lacked entries.
func (s *Source) Restore(partition int, stream Stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.open(partition) = stream
	s.wakeAll()
}

// StopCounting makes Tail no longer count the entries ever added, as on a server before Redis 7.
func (s *Source) StopCounting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uncounted = true
}

// StartCounting makes Tail count again, from the entries that the stream holds, as on a server that was upgraded.
func (s *Source) StartCounting(partition int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uncounted = false
	stream := s.open(partition)
	stream.added = int64(len(stream.entries))
}

// open is the partition's stream, created if need be. It is called with mu held.
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
