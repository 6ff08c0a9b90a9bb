package parkedtest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/wire"
)

// Memory is a parked.Store in memory, for tests in virtual time.
type Memory struct {
	keys     wire.Keys
	position func(partition int) wire.ID                    // the stored one, zero when there is none
	source   func(partition int, id wire.ID) []parked.Field // the entry in its stream, nil when it is not there

	mu      sync.Mutex
	last    wire.ID
	entries []parked.Entry
	index   map[origin]indexed
	removed map[origin]removal

	// Resets returns how many resets of a partition were applied. Nil means none.
	Resets func(partition int) int
}

// origin is where an entry came from.
type origin struct {
	partition int
	id        wire.ID
}

// indexed is an entry of the parked stream: its id there, and its original.
type indexed struct {
	id    wire.ID
	entry wire.Entry
}

// removal is an entry that was removed, and the number of resets at that time.
type removal struct {
	entry  wire.Entry
	resets int
}

// NewMemory returns an empty store. Position returns the stored position of a partition, zero for none. Source returns
// the fields of an entry in its stream, nil when it is not there; a nil source has no entries.
func NewMemory(keys wire.Keys, position func(partition int) wire.ID, source func(partition int, id wire.ID) []parked.Field) *Memory {
	return &Memory{
		keys: keys, position: position, source: source, index: map[origin]indexed{}, removed: map[origin]removal{},
	}
}

// Park implements parked.Store.
func (m *Memory) Park(_ context.Context, partition int, parkings []parked.Parking) ([]wire.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(partition)
	ids := make([]wire.ID, len(parkings))
	for i, parking := range parkings {
		ids[i] = m.park(partition, parking)
	}
	return ids, nil
}

func (m *Memory) park(partition int, parking parked.Parking) wire.ID {
	entry := parked.Entry{
		Stream: m.keys.Stream(partition), Partition: partition, EntryID: parking.Entry.ID, Failure: parking.Failure,
	}
	if m.source != nil {
		entry.Fields = m.source(partition, entry.EntryID)
	}
	if entry.Complete = entry.Fields != nil; !entry.Complete {
		entry.Fields = parking.Fields()
	}
	from, original := origin{partition, entry.EntryID}, entry.Original()
	if removed, found := m.removed[from]; found && removed == (removal{original, m.resets(partition)}) {
		return wire.ID{}
	}
	if known, found := m.index[from]; found && known.entry == original {
		if at, found := m.find(known.id); found && m.entries[at].Failure.At.Equal(parking.Failure.At) {
			return known.id // parked by an attempt whose reply was lost
		}
		return wire.ID{}
	}
	m.last = nextID(m.last)
	entry.ID = m.last
	m.entries = append(m.entries, entry)
	m.index[from] = indexed{entry.ID, original}
	return entry.ID
}

func (m *Memory) resets(partition int) int {
	if m.Resets == nil {
		return 0
	}
	return m.Resets(partition)
}

// nextID is the id that a stream generates after another.
func nextID(last wire.ID) wire.ID {
	if now := uint64(time.Now().UnixMilli()); now > last.Ms {
		return wire.ID{Ms: now}
	}
	return wire.ID{Ms: last.Ms, Seq: last.Seq + 1}
}

// sweep forgets the removed entries that the stored position has passed.
func (m *Memory) sweep(partition int) {
	stored := m.position(partition)
	for from := range m.removed {
		if from.partition == partition && from.id.Compare(stored) <= 0 {
			delete(m.removed, from)
		}
	}
}

// List implements parked.Store.
func (m *Memory) List(_ context.Context, after wire.ID, limit int) ([]parked.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, found := m.find(after)
	if found {
		first++
	}
	return slices.Clone(m.entries[first:min(first+limit, len(m.entries))]), nil
}

func (m *Memory) find(id wire.ID) (at int, found bool) {
	return slices.BinarySearchFunc(m.entries, id, func(entry parked.Entry, id wire.ID) int { return entry.ID.Compare(id) })
}

// Find implements parked.Store.
func (m *Memory) Find(_ context.Context, id wire.ID) (parked.Entry, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, found := m.find(id)
	if !found {
		return parked.Entry{}, false, nil
	}
	return m.entries[at], true, nil
}

// Remove implements parked.Store.
func (m *Memory) Remove(_ context.Context, id wire.ID) (parked.Entry, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, found := m.find(id)
	if !found {
		return parked.Entry{}, false, nil
	}
	entry := m.entries[at]
	from := origin{entry.Partition, entry.EntryID}
	m.sweep(entry.Partition)
	if known := m.index[from]; known.id == id {
		if entry.EntryID.Compare(m.position(entry.Partition)) > 0 {
			m.removed[from] = removal{known.entry, m.resets(entry.Partition)}
		}
		delete(m.index, from)
	}
	m.entries = slices.Delete(m.entries, at, at+1)
	entry.Fields = nil
	return entry, true, nil
}
