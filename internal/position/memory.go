package position

import (
	"context"
	"sync"

	"github.com/redisevents/restatestart/internal/wire"
)

// Memory is a Store that lasts as long as the process: for tests in virtual time, and for programs that start
// over each time. The zero value is ready to use.
type Memory struct {
	mu     sync.Mutex
	ids    map[int]wire.ID
	notes  map[int]note
	resets map[int]Reset
	count  map[int]int // of the resets that were applied
}

// note is a text and the position that it is about.
type note struct {
	at   wire.ID
	text string
}

// RequestReset leaves a reset for the partition, as an operator would.
func (m *Memory) RequestReset(partition int, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if reset := parseReset(value); reset != nil {
		if m.resets == nil {
			m.resets = map[int]Reset{}
		}
		m.resets[partition] = *reset
	}
}

// Resets is how many resets of a partition were applied.
func (m *Memory) Resets(partition int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count[partition]
}

// Forget loses a partition's position, as a server does that fails over or comes back from an older state.
func (m *Memory) Forget(partition int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ids, partition)
	delete(m.notes, partition)
}

// WithdrawReset takes the partition's reset back, as an operator would who thought better of it.
func (m *Memory) WithdrawReset(partition int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.resets, partition)
}

// Load implements Store.
func (m *Memory) Load(_ context.Context, partitions []int) ([]Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stored := make([]Stored, len(partitions))
	for i, partition := range partitions {
		stored[i].ID, stored[i].Found = m.ids[partition], m.ids[partition] != wire.ID{}
		if note := m.notes[partition]; note.at == stored[i].ID {
			stored[i].Note = note.text
		}
		stored[i].Reset = m.pending(partition)
	}
	return stored, nil
}

// Save implements Store.
func (m *Memory) Save(_ context.Context, writes []Write) ([]*Reset, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resets := make([]*Reset, len(writes))
	for i, write := range writes {
		if resets[i] = m.pending(write.Partition); resets[i] != nil {
			continue
		}
		if m.ids[write.Partition].Compare(write.ID) < 0 {
			m.set(write.Partition, write.ID)
		}
		if write.Note != "" && m.ids[write.Partition] == write.ID {
			if m.notes == nil {
				m.notes = map[int]note{}
			}
			m.notes[write.Partition] = note{write.ID, write.Note}
		}
	}
	return resets, nil
}

// ApplyReset implements Store.
func (m *Memory) ApplyReset(_ context.Context, partition int, reset Reset) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resets[partition] != reset {
		return false, nil
	}
	m.set(partition, reset.Target)
	if m.count == nil {
		m.count = map[int]int{}
	}
	m.count[partition]++
	delete(m.notes, partition)
	delete(m.resets, partition)
	return true, nil
}

func (m *Memory) set(partition int, id wire.ID) {
	if m.ids == nil {
		m.ids = map[int]wire.ID{}
	}
	m.ids[partition] = id
}

func (m *Memory) pending(partition int) *Reset {
	if reset, found := m.resets[partition]; found {
		return &reset
	}
	return nil
}
