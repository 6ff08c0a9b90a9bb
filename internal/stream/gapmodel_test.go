package stream_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// model publishes, trims, deletes, holds, stops, kills and starts at random, and knows what became of each entry.
type model struct {
	*gapRig

	random  *rand.Rand
	healthy bool // nothing is removed that is not done, by the position that is stored
	kills   bool

	running   bool
	published []wire.ID

	mu   sync.Mutex
	done map[wire.ID]bool
}

func newModel(t *testing.T, seed uint64) *model {
	t.Helper()
	m := &model{gapRig: newGapRig(t), random: rand.New(rand.NewPCG(seed, 0)), done: map[wire.ID]bool{}}
	m.config.BatchSize, m.config.ReadAhead = 1+m.random.IntN(20), 1+m.random.IntN(4)
	m.config.Store = hesitant{m.store, rand.New(rand.NewPCG(seed, 2))}
	inner := m.deliver
	paces := rand.New(rand.NewPCG(seed, 1)) // of another goroutine
	m.deliver = func(ctx context.Context, partition int, entries []wire.Entry) stream.Verdict {
		if paces.IntN(4) == 0 {
			time.Sleep(time.Duration(paces.Int64N(int64(2 * time.Second))))
		}
		verdict := inner(ctx, partition, entries)
		if verdict.Action == stream.Advance {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, entry := range entries {
				m.done[entry.ID] = true
			}
		}
		return verdict
	}
	return m
}

// hesitant is a store that takes its time over writes, more or less.
type hesitant struct {
	*store

	paces *rand.Rand // of the one goroutine that writes
}

func (h hesitant) Save(ctx context.Context, writes []position.Write) ([]*position.Reset, error) {
	resets, err := h.store.Save(ctx, writes)
	time.Sleep(time.Duration(h.paces.Int64N(int64(400 * time.Millisecond))))
	return resets, err
}

// step does one thing and lets some time pass.
func (m *model) step(longest time.Duration) {
	switch m.random.IntN(10) {
	case 0, 1, 2, 3:
		for range 1 + m.random.IntN(40) {
			m.published = append(m.published, m.source.Add(0, strconv.Itoa(len(m.published))))
		}
	case 4, 5:
		m.trim()
	case 6:
		m.delete()
	case 7, 8:
		m.hold(m.random.IntN(2) == 0)
	case 9:
		if m.running {
			m.halt()
		} else {
			m.start()
		}
	}
	pass(time.Duration(m.random.Int64N(int64(longest))))
}

func (m *model) start() {
	m.run()
	m.running = true
}

func (m *model) halt() {
	m.running = false
	kill := m.kills && m.random.IntN(2) == 0
	if kill {
		m.store.fail(errors.New("killed")) // its last positions are lost
	}
	m.end()
	m.store.fail(nil)
}

// doneUpTo is up to where everything is done for good.
func (m *model) doneUpTo() wire.ID {
	stored, err := m.store.Load(m.t.Context(), []int{0})
	require.NoError(m.t, err)
	return stored[0].ID
}

func (m *model) trim() {
	keep := m.random.IntN(120)
	if m.healthy {
		upTo := m.doneUpTo()
		for _, id := range m.published {
			if id.Compare(upTo) > 0 {
				keep++
			}
		}
	}
	m.source.Trim(0, keep)
}

func (m *model) delete() {
	if len(m.published) == 0 {
		return
	}
	upTo := m.doneUpTo()
	for range m.random.IntN(5) {
		id := m.published[m.random.IntN(len(m.published))]
		if m.random.IntN(2) == 0 {
			id = m.published[max(0, len(m.published)-1-m.random.IntN(30))] // of the newest
		}
		if !m.healthy || id.Compare(upTo) <= 0 {
			m.source.Delete(0, id)
		}
	}
}

// settle lets everything that is left be done, and be told.
func (m *model) settle() {
	m.hold(false)
	if !m.running {
		m.start()
	}
	pass(5 * time.Minute)
	m.halt()
}

// lostEntries are those that were published and never done, with nothing left to do.
func (m *model) lostEntries() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.published) - len(m.done))
}

func (m *model) reported() int64 {
	m.gapRig.mu.Lock()
	defer m.gapRig.mu.Unlock()
	return m.lost
}

// Whatever is trimmed and deleted, held and restarted: what is reported as lost is what was lost, to the entry.
func TestC9WhatIsReportedLostIsWhatWasLost(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, seed)
				m.start()
				for range 300 {
					m.step(20 * time.Second)
				}
				m.settle()
				assert.Equal(t, m.lostEntries(), m.reported(), "seed %d: %v", seed, m.gaps())
				assert.Positive(t, m.lostEntries())
			})
		})
	}
}

// A kill can make a report come twice, and an entry count as unread that was done a moment before. It makes none go missing.
func TestC9AKillHidesNoLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, seed)
				m.kills = true
				m.start()
				pass(2 * time.Second) // what was lost before anything was ever stored cannot be known
				for range 300 {
					m.step(20 * time.Second)
				}
				m.kills = false
				m.settle()
				assert.GreaterOrEqual(t, m.reported(), m.lostEntries(), "seed %d: %v", seed, m.gaps())
			})
		})
	}
}

// A week in which only what is done is trimmed and deleted, with holds, restarts and kills, has no alarm.
func TestC9AHealthyWeekHasNoAlarm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, seed)
				m.healthy, m.kills = true, true
				m.config.GapHold, m.config.PersistInterval = seed == 0, 20*time.Second
				began := time.Now()
				m.start()
				for time.Since(began) < 7*24*time.Hour {
					m.step(10 * time.Minute)
				}
				m.settle()
				assert.Empty(t, m.gaps(), "seed %d", seed)
				assert.Zero(t, m.lostEntries())
				t.Logf("seed %d: %d messages", seed, len(m.published))
			})
		})
	}
}
