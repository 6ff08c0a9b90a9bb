package positiontest

import (
	"context"
	"sync"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

// Memory is a position.Store in memory, for tests in virtual time. The zero value is ready to use.
type Memory struct {
	mu         sync.Mutex
	partitions map[int]*partition
}

type partition struct {
	id       wire.ID
	at       wire.ID // the position that metadata belongs to
	metadata string
	reset    *position.Reset
	applied  int // resets
}

// lock returns a partition, and a function that unlocks the store.
func (m *Memory) lock(number int) (p *partition, unlock func()) {
	m.mu.Lock()
	return m.of(number), m.mu.Unlock
}

func (m *Memory) of(number int) *partition {
	if m.partitions == nil {
		m.partitions = map[int]*partition{}
	}
	if m.partitions[number] == nil {
		m.partitions[number] = &partition{}
	}
	return m.partitions[number]
}

// RequestReset stores a reset for the partition, as an operator would. A value that is not a reset is ignored.
func (m *Memory) RequestReset(partition int, value string) {
	p, unlock := m.lock(partition)
	defer unlock()
	if target, err := wire.ParseReset(value); err == nil {
		p.reset = &position.Reset{Target: target, Value: value}
	}
}

// CancelReset removes the partition's pending reset, as an operator would.
func (m *Memory) CancelReset(partition int) {
	p, unlock := m.lock(partition)
	defer unlock()
	p.reset = nil
}

// Resets returns how many resets of a partition were applied.
func (m *Memory) Resets(partition int) int {
	p, unlock := m.lock(partition)
	defer unlock()
	return p.applied
}

// Forget loses a partition's position, as a server does that fails over or is restored from an older state.
func (m *Memory) Forget(partition int) {
	p, unlock := m.lock(partition)
	defer unlock()
	p.id, p.at, p.metadata = wire.ID{}, wire.ID{}, ""
}

// Load implements position.Store.
func (m *Memory) Load(_ context.Context, partitions []int) ([]position.Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stored := make([]position.Stored, len(partitions))
	for i, number := range partitions {
		p := m.of(number)
		stored[i] = position.Stored{ID: p.id, Found: !p.id.IsZero(), Reset: p.reset}
		if p.at == p.id {
			stored[i].Metadata = p.metadata
		}
	}
	return stored, nil
}

// Save implements position.Store.
func (m *Memory) Save(_ context.Context, writes []position.Write) ([]*position.Reset, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	resets := make([]*position.Reset, len(writes))
	for i, write := range writes {
		p := m.of(write.Partition)
		if resets[i] = p.reset; p.reset != nil {
			continue
		}
		if p.id.Compare(write.ID) < 0 {
			p.id = write.ID
		}
		if write.Metadata != "" && p.id == write.ID {
			p.at, p.metadata = write.ID, write.Metadata
		}
	}
	return resets, nil
}

// ApplyReset implements position.Store.
func (m *Memory) ApplyReset(_ context.Context, partition int, reset position.Reset) (bool, error) {
	p, unlock := m.lock(partition)
	defer unlock()
	if p.reset == nil || *p.reset != reset {
		return false, nil
	}
	p.id, p.at, p.metadata, p.reset = reset.Target, wire.ID{}, "", nil
	p.applied++
	return true, nil
}
