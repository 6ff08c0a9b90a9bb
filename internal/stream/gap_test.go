package stream_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/wire"
)

// gapRig is a rig that keeps what it was told of holes, and whose hand-overs can be held.
type gapRig struct {
	*rig

	replica streamtest.Stream // of the first entries alone

	mu    sync.Mutex
	told  []string
	lost  int64
	holds bool
}

func newGapRig(t *testing.T) *gapRig {
	t.Helper()
	g := &gapRig{rig: newRig(t, 0)}
	g.config.Gap = func(_ context.Context, partition int, gap stream.Gap) {
		g.mu.Lock()
		defer g.mu.Unlock()
		assert.Zero(t, partition)
		g.told = append(g.told, told(gap))
		g.lost += gap.Lost
	}
	g.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.holds {
			return stream.Verdict{Action: stream.Hold, Remaining: entries, Cause: "starts", Err: errors.New("down")}
		}
		return stream.Verdict{}
	}
	return g
}

// told is a hole in few words.
func told(gap stream.Gap) string {
	text := fmt.Sprintf("%s behind %s", gap.Kind, gap.Position)
	if !gap.First.IsZero() {
		text += " before " + gap.First.String()
	}
	if gap.LostKnown {
		text += fmt.Sprintf(": %d", gap.Lost)
	}
	return text
}

func (g *gapRig) hold(holds bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds = holds
}

func (g *gapRig) gaps() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string{}, g.told...)
}

// restart stops and runs on, long enough for anything to be noticed that is.
func (g *gapRig) restart() {
	_, err := g.stop()
	require.NoError(g.t, err)
	g.run()
	pass(time.Minute)
}

func (g *gapRig) end() {
	_, err := g.stop()
	require.NoError(g.t, err)
}

// What XTRIM, XDEL, DEL and a failover remove is reported once, whatever follows, and the rest is delivered.
func TestC9WhatVanishesUnreadIsReportedOnce(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		vanish func(g *gapRig) // with m1 to m3 done, m4 to m9 in memory and the hand-over held, and m10 to m20 unread
		gaps   []string
		last   string // the position in the end
	}{
		"trimmed past what was read": {
			func(g *gapRig) { g.source.Trim(0, 4) },
			[]string{"trimmed behind 9-0 before 17-0: 7"},
			"20-0",
		},
		"trimmed, all of it": {
			func(g *gapRig) { g.source.Trim(0, 0) },
			[]string{"trimmed behind 9-0: 11"},
			"9-0",
		},
		"trimmed up to what was read": {
			func(g *gapRig) { g.source.Trim(0, 11) },
			[]string{},
			"20-0",
		},
		"deleted in the middle": {
			func(g *gapRig) {
				g.source.Delete(0, wire.ID{Ms: 12})
				g.source.Delete(0, wire.ID{Ms: 14})
			},
			[]string{"deleted behind 3-0: 2"},
			"20-0",
		},
		"deleted at the end": {
			func(g *gapRig) { g.source.Delete(0, wire.ID{Ms: 20}) },
			[]string{"deleted behind 3-0: 1"},
			"19-0",
		},
		"deleted, what was read": {
			func(g *gapRig) {
				for ms := range uint64(10) {
					g.source.Delete(0, wire.ID{Ms: ms})
				}
			},
			[]string{},
			"20-0",
		},
		"trimmed and deleted": {
			func(g *gapRig) {
				g.source.Trim(0, 8)
				g.source.Delete(0, wire.ID{Ms: 15})
			},
			[]string{"trimmed behind 9-0 before 13-0: 4"},
			"20-0",
		},
		"the stream deleted": {
			func(g *gapRig) { g.source.Drop(0) },
			[]string{"gone behind 9-0"},
			"9-0",
		},
		"the stream deleted, and created again with higher ids": {
			func(g *gapRig) {
				g.source.Drop(0)
				for ms := range uint64(3) {
					g.source.AddAt(0, wire.ID{Ms: 100 + ms}, "new")
				}
			},
			[]string{"replaced behind 9-0 before 100-0"},
			"102-0",
		},
		"the stream deleted, and created again with lower ids": {
			func(g *gapRig) {
				g.source.Drop(0)
				g.add(0, 1, 3)
			},
			[]string{"ahead behind 9-0"},
			"9-0",
		},
		"a failover to a replica that lacks what was read": {
			func(g *gapRig) { g.source.Restore(0, g.replica) },
			[]string{"ahead behind 9-0"},
			"9-0",
		},
		"a failover to a replica that lacks what was read, and has new entries": {
			func(g *gapRig) {
				g.source.Restore(0, g.replica)
				g.source.AddAt(0, wire.ID{Ms: 100}, "new")
			},
			[]string{"replaced behind 9-0"},
			"100-0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGapRig(t)
				g.add(0, 1, 3)
				g.run()
				pass(10 * time.Second)
				g.hold(true)
				g.add(0, 4, 8)
				g.replica = g.source.Snapshot(0)
				g.add(0, 9, 20)
				pass(10 * time.Second)
				require.Equal(t, "3-0", g.position(0))

				row.vanish(g)
				pass(time.Minute)
				g.hold(false)
				pass(time.Minute)
				assert.Equal(t, row.gaps, g.gaps())
				assert.Equal(t, row.last, g.position(0))
				status := g.status(0)
				assert.Equal(t, int64(len(row.gaps)), status.Gaps)
				assert.Equal(t, len(row.gaps) > 0, status.LastGap != nil)
				g.restart()
				g.restart()
				assert.Equal(t, row.gaps, g.gaps(), "after restarts too")
				g.end()
			})
		})
	}
}

// The same happens while nothing runs, and is reported when it runs again, before anything is handed over.
func TestC9WhatVanishesWhileNothingRunsIsReported(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		vanish func(g *gapRig)
		gaps   []string
		handed int
	}{
		"trimmed":            {func(g *gapRig) { g.source.Trim(0, 2) }, []string{"trimmed behind 3-0 before 9-0: 5"}, 2},
		"all trimmed":        {func(g *gapRig) { g.source.Trim(0, 0) }, []string{"trimmed behind 3-0: 7"}, 0},
		"deleted":            {func(g *gapRig) { g.source.Delete(0, wire.ID{Ms: 5}) }, []string{"deleted behind 3-0: 1"}, 6},
		"gone":               {func(g *gapRig) { g.source.Drop(0) }, []string{"gone behind 3-0"}, 0},
		"nothing":            {func(*gapRig) {}, []string{}, 7},
		"trimmed in time":    {func(g *gapRig) { g.source.Trim(0, 7) }, []string{}, 7},
		"replaced":           {func(g *gapRig) { g.source.Drop(0); g.source.AddAt(0, wire.ID{Ms: 50}, "new") }, []string{"replaced behind 3-0 before 50-0"}, 1},
		"the position ahead": {func(g *gapRig) { g.source.Drop(0); g.add(0, 1, 2) }, []string{"ahead behind 3-0"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGapRig(t)
				g.add(0, 1, 3)
				g.run()
				pass(10 * time.Second)
				g.end()
				g.add(0, 4, 10)
				row.vanish(g)
				before := len(splitDeliveries(g.deliveries()))
				g.run()
				if len(row.gaps) > 0 && row.gaps[0][:3] == "tri" {
					assert.Equal(t, row.gaps, g.gaps(), "at once")
				}
				pass(10 * time.Second)
				assert.Equal(t, row.gaps, g.gaps())
				assert.Len(t, splitDeliveries(g.deliveries()), before+row.handed)
				g.restart()
				assert.Equal(t, row.gaps, g.gaps(), "after a restart too")
				g.end()
			})
		})
	}
}

// A stream that is gone is one hole, and what then comes out of the reader's reach another, of which the size is known.
func TestC9AStreamThatBeginsAgainBelowThePosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.add(0, 1, 10)
		g.run()
		pass(10 * time.Second)
		g.source.Drop(0)
		pass(10 * time.Second)
		require.Equal(t, []string{"gone behind 10-0"}, g.gaps())
		g.add(0, 1, 3)
		pass(10 * time.Second)
		require.Equal(t, []string{"gone behind 10-0", "ahead behind 10-0: 3"}, g.gaps())
		g.restart()
		g.add(0, 4, 8)
		pass(10 * time.Second)
		g.add(0, 9, 10)
		pass(40 * time.Second)
		assert.Len(t, g.gaps(), 4, "%v: it grew, which is told seldom", g.gaps())
		assert.Equal(t, int64(10), g.lost)
		g.add(0, 11, 12)
		pass(40 * time.Second)
		assert.Equal(t, int64(10), g.lost, "from here on it reads again")
		assert.Equal(t, "12-0", g.position(0))
		assert.Len(t, g.gaps(), 4)
		g.end()
	})
}

// What stands below the position and what stands behind it may come at once.
func TestC9AStreamThatBeginsAgainOnBothSidesOfThePosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.add(0, 1, 10)
		g.run()
		pass(10 * time.Second)
		g.source.Drop(0)
		pass(10 * time.Second)
		g.add(0, 1, 12)
		pass(40 * time.Second)
		assert.Equal(t, []string{"gone behind 10-0", "ahead behind 10-0: 10"}, g.gaps())

		g.source.Restore(0, g.source.Snapshot(9)) // begun, and empty
		g.add(0, 1, 3)
		pass(10 * time.Second)
		g.add(0, 4, 14)
		pass(40 * time.Second)
		assert.Equal(t, []string{"gone behind 10-0", "ahead behind 10-0: 10", "ahead behind 12-0", "ahead behind 12-0: 9"}, g.gaps())
		assert.Equal(t, "14-0", g.position(0))
		g.restart()
		assert.Len(t, g.gaps(), 4)
		g.end()
	})
}

// What is deleted while the partition is held is told at once, when nothing is left to read.
func TestC9ADeletionIsToldWhileHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.hold(true)
		g.add(0, 1, 9)
		g.run()
		for ms := range uint64(3) {
			g.source.Delete(0, wire.ID{Ms: 7 + ms})
		}
		pass(10 * time.Second)
		assert.Equal(t, []string{"deleted behind 0-0: 3"}, g.gaps())
		g.end()
	})
}

// A server that counts, does not, and counts otherwise, as one that is exchanged does, is no hole.
// A hole that grows while the partition is held is told as it grows, seldom, each entry once.
func TestC9AHoleThatGrowsIsToldSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.hold(true)
		g.run()
		n := 0
		for range 600 {
			n += 2
			g.add(0, n-1, n)
			g.source.Trim(0, 50)
			pass(time.Second)
		}
		assert.InDelta(t, 20, len(g.gaps()), 2)
		g.hold(false)
		pass(time.Minute)
		g.restart()
		assert.Equal(t, int64(n-len(g.delivered())), g.lost)
		g.end()
	})
}

// delivered are the bodies that were handed over, each once.
func (g *gapRig) delivered() map[string]bool {
	bodies := map[string]bool{}
	for _, delivery := range splitDeliveries(g.deliveries()) {
		bodies[delivery] = true
	}
	return bodies
}

// What was read ahead and not done when the process ended is read again. What of it is gone by then is lost.
func TestC9WhatWasReadAheadAndIsGoneAfterARestartIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.add(0, 1, 3)
		g.run()
		pass(10 * time.Second)
		g.hold(true)
		g.add(0, 4, 20)
		pass(10 * time.Second)
		g.source.Trim(0, 4)
		pass(10 * time.Second)
		require.Equal(t, []string{"trimmed behind 9-0 before 17-0: 7"}, g.gaps())
		g.end()
		g.hold(false)
		g.run()
		pass(time.Minute)
		assert.Equal(t, []string{"trimmed behind 9-0 before 17-0: 7", "trimmed behind 3-0 before 17-0: 6"}, g.gaps())
		assert.Equal(t, "20-0", g.position(0))
		g.end()
	})
}

// Without a count beside the position, as another writer leaves it, nothing is reported: it may all have been read.
// A position that another program has moved on is not held against what was counted before.
// A server that does not count shows when a stream is gone or ends below the position, and nothing else.
// When the store cannot be written, what was reported is reported again by the next run rather than never.
func TestC9AReportThatIsNotStoredIsMadeAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.add(0, 1, 3)
		g.run()
		pass(10 * time.Second)
		g.end()
		g.add(0, 4, 10)
		g.source.Trim(0, 2)
		g.hold(true)
		g.run()
		g.store.fail(errors.New("READONLY"))
		pass(10 * time.Second)
		g.end()
		g.store.fail(nil)
		g.run()
		pass(10 * time.Second)
		assert.Equal(t, []string{"trimmed behind 3-0 before 9-0: 5", "trimmed behind 3-0 before 9-0: 5"}, g.gaps())
		g.restart()
		assert.Len(t, g.gaps(), 2)
		g.end()
	})
}
