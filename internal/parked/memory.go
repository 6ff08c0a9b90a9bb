package parked

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Memory is a Store that lasts as long as the process, for tests in virtual time.
type Memory struct {
	keys     wire.Keys
	position func(partition int) wire.ID                     // as it is stored, zero when it is not
	source   func(partition int, id wire.ID) (found []Field) // the entry in its stream, nil when it is not there

	mu      sync.Mutex
	last    wire.ID
	entries []Entry
	index   map[original]standing
	gone    map[original]departure

	// Resets tells how many resets of a partition were applied. It may be nil: none.
	Resets func(partition int) int
}

// departure is what left the parked stream, and how many resets there were by then.
type departure struct {
	entry  wire.Entry
	resets int
}

// original is where an entry came from.
type original struct {
	partition int
	id        wire.ID
}

// standing is the place of an entry in the parked stream, and what it is.
type standing struct {
	id    wire.ID
	entry wire.Entry
}

// NewMemory returns an empty store. Position tells what is stored, zero for nothing. Source gives the fields of an entry in
// its stream, none when it is not there; where it is nil, no entry is.
func NewMemory(keys wire.Keys, position func(partition int) wire.ID, source func(partition int, id wire.ID) []Field) *Memory {
	return &Memory{
		keys: keys, position: position, source: source, index: map[original]standing{}, gone: map[original]departure{},
	}
}

// Park implements Store.
func (m *Memory) Park(_ context.Context, partition int, parkings []Parking) ([]wire.ID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(partition)
	ids := make([]wire.ID, len(parkings))
	for i, parking := range parkings {
		ids[i] = m.park(partition, parking)
	}
	return ids, nil
}

func (m *Memory) park(partition int, parking Parking) wire.ID {
	entry := Entry{
		Stream: m.keys.Stream(partition), Partition: partition, EntryID: parking.Entry.ID, Failure: parking.Failure,
	}
	if m.source != nil {
		entry.Fields = m.source(partition, entry.EntryID)
	}
	if entry.Whole = entry.Fields != nil; !entry.Whole {
		entry.Fields = known(parking.Entry)
	}
	from, what := original{partition, entry.EntryID}, entry.Original()
	if left, found := m.gone[from]; found && left == (departure{what, m.resets(partition)}) {
		return wire.ID{}
	}
	if stands, found := m.index[from]; found && stands.entry == what {
		if at, found := m.find(stands.id); found && m.entries[at].Failure.At.Equal(parking.Failure.At) {
			return stands.id // by a try of this parking whose answer was lost
		}
		return wire.ID{}
	}
	m.last = after(m.last)
	entry.ID = m.last
	m.entries = append(m.entries, entry)
	m.index[from] = standing{entry.ID, what}
	return entry.ID
}

func (m *Memory) resets(partition int) int {
	if m.Resets == nil {
		return 0
	}
	return m.Resets(partition)
}

// after is the id that a stream gives out behind another.
func after(last wire.ID) wire.ID {
	if now := uint64(time.Now().UnixMilli()); now > last.Ms {
		return wire.ID{Ms: now}
	}
	return wire.ID{Ms: last.Ms, Seq: last.Seq + 1}
}

// sweep forgets what left the parked stream once the stored position has passed it.
func (m *Memory) sweep(partition int) {
	stored := m.position(partition)
	for from := range m.gone {
		if from.partition == partition && from.id.Compare(stored) <= 0 {
			delete(m.gone, from)
		}
	}
}

// List implements Store.
func (m *Memory) List(_ context.Context, after wire.ID, limit int) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first, _ := m.find(after)
	if first < len(m.entries) && m.entries[first].ID == after {
		first++
	}
	return slices.Clone(m.entries[first:min(first+limit, len(m.entries))]), nil
}

func (m *Memory) find(id wire.ID) (at int, found bool) {
	return slices.BinarySearchFunc(m.entries, id, func(entry Entry, id wire.ID) int { return entry.ID.Compare(id) })
}

// Find implements Store.
func (m *Memory) Find(_ context.Context, id wire.ID) (Entry, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, found := m.find(id)
	if !found {
		return Entry{}, false, nil
	}
	return m.entries[at], true, nil
}

// Remove implements Store.
func (m *Memory) Remove(_ context.Context, id wire.ID) (Entry, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, found := m.find(id)
	if !found {
		return Entry{}, false, nil
	}
	entry := m.entries[at]
	from := original{entry.Partition, entry.EntryID}
	m.sweep(entry.Partition)
	if stands := m.index[from]; stands.id == id {
		if entry.EntryID.Compare(m.position(entry.Partition)) > 0 {
			m.gone[from] = departure{stands.entry, m.resets(entry.Partition)}
		}
		delete(m.index, from)
	}
	m.entries = slices.Delete(m.entries, at, at+1)
	entry.Fields = nil
	return entry, true, nil
}
