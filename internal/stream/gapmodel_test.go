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
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
)

// model publishes, trims, deletes, holds, stops, kills and starts at random, and knows which entries were processed.
type model struct {
	*harness

	random  *rand.Rand
	healthy bool // only entries up to the stored position are removed
	kills   bool

	running   bool
	published []wire.ID

	mu   sync.Mutex
	done map[wire.ID]bool
}

func newModel(t *testing.T, seed uint64) *model {
	t.Helper()
	m := &model{harness: newHarness(t, 0), random: rand.New(rand.NewPCG(seed, 0)), done: map[wire.ID]bool{}}
	m.config.BatchSize, m.config.ReadAhead = 1+m.random.IntN(20), 1+m.random.IntN(4)
	m.config.Store = jitteryStore{m.store, rand.New(rand.NewPCG(seed, 2))}
	delays := rand.New(rand.NewPCG(seed, 1)) // for the worker's goroutine
	m.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
		if delays.IntN(4) == 0 {
			time.Sleep(time.Duration(delays.Int64N(int64(2 * time.Second))))
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, entry := range entries {
			m.done[entry.ID] = true
		}
		return stream.Verdict{}
	}
	return m
}

// jitteryStore takes its time over writes.
type jitteryStore struct {
	*store

	delays *rand.Rand // for the one goroutine that writes
}

func (s jitteryStore) Save(ctx context.Context, writes []position.Write) ([]*position.Reset, error) {
	resets, err := s.store.Save(ctx, writes)
	time.Sleep(time.Duration(s.delays.Int64N(int64(400 * time.Millisecond))))
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
	testkit.Pass(time.Duration(m.random.Int64N(int64(longest))))
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
	m.stop()
	m.store.fail(nil)
}

// committed is the stored position.
func (m *model) committed() wire.ID {
	stored, err := m.store.Load(m.t.Context(), []int{0})
	require.NoError(m.t, err)
	return stored[0].ID
}

func (m *model) trim() {
	keep := m.random.IntN(120)
	if m.healthy {
		upTo := m.committed()
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
	upTo := m.committed()
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

// settle lets every entry be processed and every gap be reported.
func (m *model) settle() {
	m.hold(false)
	if !m.running {
		m.start()
	}
	testkit.Pass(5 * time.Minute)
	m.halt()
}

// unprocessed is the number of entries that were published and not processed.
func (m *model) unprocessed() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int64(len(m.published) - len(m.done))
}

// With any sequence of trims, deletions, holds and restarts, exactly the lost entries are reported lost.
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
				assert.Equal(t, m.unprocessed(), m.lostEntries(), "seed %d: %v", seed, m.reportedGaps())
				assert.Positive(t, m.unprocessed())
			})
		})
	}
}

// After a kill, a report may be repeated, and may count entries that were processed just before. None is missing.
func TestC9AKillHidesNoLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, seed)
				m.kills = true
				m.start()
				testkit.Pass(2 * time.Second) // a loss before the first commit cannot be detected
				for range 300 {
					m.step(20 * time.Second)
				}
				m.kills = false
				m.settle()
				assert.GreaterOrEqual(t, m.lostEntries(), m.unprocessed(), "seed %d: %v", seed, m.reportedGaps())
			})
		})
	}
}

// A week in which only processed entries are trimmed and deleted, with holds, restarts and kills, has no report.
func TestC9AHealthyWeekHasNoReport(t *testing.T) {
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
				assert.Empty(t, m.reportedGaps(), "seed %d", seed)
				assert.Zero(t, m.unprocessed())
				t.Logf("seed %d: %d messages", seed, len(m.published))
			})
		})
	}
}
