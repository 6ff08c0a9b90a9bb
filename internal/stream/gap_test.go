package stream_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
)

// Entries removed by XTRIM, XDEL, DEL or a failover are reported once, also after restarts, and the rest is delivered.
func TestC9WhatVanishesUnreadIsReportedOnce(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		vanish func(h *harness) // with m1 to m3 processed, m4 to m9 in memory and held, and m10 to m20 unread
		gaps   []string
		last   string // the position in the end
	}{
		"trimmed past what was read": {
			func(h *harness) { h.source.Trim(0, 4) },
			[]string{"trimmed behind 9-0 before 17-0: 7"},
			"20-0",
		},
		"trimmed, all of it": {
			func(h *harness) { h.source.Trim(0, 0) },
			[]string{"trimmed behind 9-0: 11"},
			"9-0",
		},
		"trimmed up to what was read": {
			func(h *harness) { h.source.Trim(0, 11) },
			[]string{},
			"20-0",
		},
		"deleted in the middle": {
			func(h *harness) {
				h.source.Delete(0, wire.ID{Ms: 12})
				h.source.Delete(0, wire.ID{Ms: 14})
			},
			[]string{"deleted behind 3-0: 2"},
			"20-0",
		},
		"deleted at the end": {
			func(h *harness) { h.source.Delete(0, wire.ID{Ms: 20}) },
			[]string{"deleted behind 3-0: 1"},
			"19-0",
		},
		"deleted, what was read": {
			func(h *harness) {
				for ms := range uint64(10) {
					h.source.Delete(0, wire.ID{Ms: ms})
				}
			},
			[]string{},
			"20-0",
		},
		"trimmed and deleted": {
			func(h *harness) {
				h.source.Trim(0, 8)
				h.source.Delete(0, wire.ID{Ms: 15})
			},
			[]string{"trimmed behind 9-0 before 13-0: 4"},
			"20-0",
		},
		"the stream deleted": {
			func(h *harness) { h.source.Drop(0) },
			[]string{"gone behind 9-0"},
			"9-0",
		},
		"the stream deleted, and created again with higher ids": {
			func(h *harness) {
				h.source.Drop(0)
				for ms := range uint64(3) {
					h.source.AddAt(0, wire.ID{Ms: 100 + ms}, "new")
				}
			},
			[]string{"replaced behind 9-0 before 100-0"},
			"102-0",
		},
		"the stream deleted, and created again with lower ids": {
			func(h *harness) {
				h.source.Drop(0)
				h.add(0, 1, 3)
			},
			[]string{"ahead behind 9-0"},
			"9-0",
		},
		"a failover to a replica that lacks what was read": {
			func(h *harness) { h.source.Drop(0); h.add(0, 1, 8) },
			[]string{"ahead behind 9-0"},
			"9-0",
		},
		"a failover to a replica that lacks what was read, and has new entries": {
			func(h *harness) {
				h.source.Drop(0)
				h.add(0, 1, 8)
				h.source.AddAt(0, wire.ID{Ms: 100}, "new")
			},
			[]string{"replaced behind 9-0"},
			"100-0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, 0)
				h.add(0, 1, 3)
				h.run()
				testkit.Pass(10 * time.Second)
				h.hold(true)
				h.add(0, 4, 20)
				testkit.Pass(10 * time.Second)
				require.Equal(t, "3-0", h.position(0))

				row.vanish(h)
				testkit.Pass(time.Minute)
				h.hold(false)
				testkit.Pass(time.Minute)
				assert.Equal(t, row.gaps, h.reportedGaps())
				assert.Equal(t, row.last, h.position(0))
				status := h.status(0)
				assert.Equal(t, int64(len(row.gaps)), status.Gaps)
				assert.Equal(t, len(row.gaps) > 0, status.LastGap != nil)
				h.restart()
				h.restart()
				assert.Equal(t, row.gaps, h.reportedGaps(), "after restarts too")
				h.stop()
			})
		})
	}
}

// The same happens while nothing runs, and is reported by the next run before anything is delivered.
func TestC9WhatVanishesWhileNothingRunsIsReported(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		vanish    func(h *harness)
		gaps      []string
		delivered int
	}{
		"trimmed":            {func(h *harness) { h.source.Trim(0, 2) }, []string{"trimmed behind 3-0 before 9-0: 5"}, 2},
		"all trimmed":        {func(h *harness) { h.source.Trim(0, 0) }, []string{"trimmed behind 3-0: 7"}, 0},
		"deleted":            {func(h *harness) { h.source.Delete(0, wire.ID{Ms: 5}) }, []string{"deleted behind 3-0: 1"}, 6},
		"gone":               {func(h *harness) { h.source.Drop(0) }, []string{"gone behind 3-0"}, 0},
		"nothing":            {func(*harness) {}, []string{}, 7},
		"trimmed in time":    {func(h *harness) { h.source.Trim(0, 7) }, []string{}, 7},
		"replaced":           {func(h *harness) { h.source.Drop(0); h.source.AddAt(0, wire.ID{Ms: 50}, "new") }, []string{"replaced behind 3-0 before 50-0"}, 1},
		"the position ahead": {func(h *harness) { h.source.Drop(0); h.add(0, 1, 2) }, []string{"ahead behind 3-0"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, 0)
				h.add(0, 1, 3)
				h.run()
				testkit.Pass(10 * time.Second)
				h.stop()
				h.add(0, 4, 10)
				row.vanish(h)
				before := len(h.delivered())
				h.run()
				if len(row.gaps) > 0 && row.gaps[0][:3] == "tri" {
					assert.Equal(t, row.gaps, h.reportedGaps(), "at once")
				}
				testkit.Pass(10 * time.Second)
				assert.Equal(t, row.gaps, h.reportedGaps())
				assert.Len(t, h.delivered(), before+row.delivered)
				h.restart()
				assert.Equal(t, row.gaps, h.reportedGaps(), "after a restart too")
				h.stop()
			})
		})
	}
}

// A stream that is gone is one gap of unknown size, and entries added below the position are another, of known size.
func TestC9AStreamThatBeginsAgainBelowThePosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 10)
		h.run()
		testkit.Pass(10 * time.Second)
		h.source.Drop(0)
		testkit.Pass(10 * time.Second)
		require.Equal(t, []string{"gone behind 10-0"}, h.reportedGaps())
		h.add(0, 1, 3)
		testkit.Pass(10 * time.Second)
		require.Equal(t, []string{"gone behind 10-0", "ahead behind 10-0: 3"}, h.reportedGaps())
		h.restart()
		h.add(0, 4, 8)
		testkit.Pass(10 * time.Second)
		h.add(0, 9, 10)
		testkit.Pass(40 * time.Second)
		assert.Len(t, h.reportedGaps(), 4, "%v: it grew, which is reported every 30 s", h.reportedGaps())
		assert.Equal(t, int64(10), h.lostEntries())
		h.add(0, 11, 12)
		testkit.Pass(40 * time.Second)
		assert.Equal(t, int64(10), h.lostEntries(), "from here on it reads again")
		assert.Equal(t, "12-0", h.position(0))
		assert.Len(t, h.reportedGaps(), 4)
		h.stop()
	})
}

// Entries below the position and behind it may be added at once.
func TestC9AStreamThatBeginsAgainOnBothSidesOfThePosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 10)
		h.run()
		testkit.Pass(10 * time.Second)
		h.source.Drop(0)
		testkit.Pass(10 * time.Second)
		h.add(0, 1, 12)
		testkit.Pass(40 * time.Second)
		assert.Equal(t, []string{"gone behind 10-0", "ahead behind 10-0: 10"}, h.reportedGaps())

		h.source.Restore(0, h.source.Snapshot(9)) // an empty stream
		h.add(0, 1, 3)
		testkit.Pass(10 * time.Second)
		h.add(0, 4, 14)
		testkit.Pass(40 * time.Second)
		assert.Equal(t, []string{"gone behind 10-0", "ahead behind 10-0: 10", "ahead behind 12-0", "ahead behind 12-0: 9"}, h.reportedGaps())
		assert.Equal(t, "14-0", h.position(0))
		h.restart()
		assert.Len(t, h.reportedGaps(), 4)
		h.stop()
	})
}

// A deletion is reported at once when nothing is left to read.
func TestC9ADeletionIsReportedWhileHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.hold(true)
		h.add(0, 1, 9)
		h.run()
		for ms := range uint64(3) {
			h.source.Delete(0, wire.ID{Ms: 7 + ms})
		}
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"deleted behind 0-0: 3"}, h.reportedGaps())
		h.stop()
	})
}

// A gap that grows while the partition is held is reported as it grows, each entry once.
func TestC9AGrowingGapIsReportedEvery30Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.hold(true)
		h.run()
		n := 0
		for range 600 {
			n += 2
			h.add(0, n-1, n)
			h.source.Trim(0, 50)
			testkit.Pass(time.Second)
		}
		assert.InDelta(t, 20, len(h.reportedGaps()), 2)
		h.hold(false)
		testkit.Pass(time.Minute)
		h.restart()
		assert.Equal(t, int64(n-len(slices.Compact(slices.Sorted(slices.Values(h.delivered()))))), h.lostEntries())
		h.stop()
	})
}

// What was read ahead and not processed when the process ended is read again. Entries that are gone by then are lost.
func TestC9WhatWasReadAheadAndIsGoneAfterARestartIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 3)
		h.run()
		testkit.Pass(10 * time.Second)
		h.hold(true)
		h.add(0, 4, 20)
		testkit.Pass(10 * time.Second)
		h.source.Trim(0, 4)
		testkit.Pass(10 * time.Second)
		require.Equal(t, []string{"trimmed behind 9-0 before 17-0: 7"}, h.reportedGaps())
		h.stop()
		h.hold(false)
		h.run()
		testkit.Pass(time.Minute)
		assert.Equal(t, []string{"trimmed behind 9-0 before 17-0: 7", "trimmed behind 3-0 before 17-0: 6"}, h.reportedGaps())
		assert.Equal(t, "20-0", h.position(0))
		h.stop()
	})
}

// While the store cannot be written, a gap is reported again by the next run rather than never.
func TestC9AReportThatIsNotStoredIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 3)
		h.run()
		testkit.Pass(10 * time.Second)
		h.stop()
		h.add(0, 4, 10)
		h.source.Trim(0, 2)
		h.hold(true)
		h.run()
		h.store.fail(errors.New("READONLY"))
		testkit.Pass(10 * time.Second)
		h.stop()
		h.store.fail(nil)
		h.run()
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"trimmed behind 3-0 before 9-0: 5", "trimmed behind 3-0 before 9-0: 5"}, h.reportedGaps())
		h.restart()
		assert.Len(t, h.reportedGaps(), 2)
		h.stop()
	})
}

// m1 is held; what is behind it is in memory, and trimmed meanwhile. A reset past m1 drops what is in memory.
func TestC9WhatWasReadAheadAndIsGoneAtAResetIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.BatchSize, h.config.ReadAhead = 1, 4
		h.deliver = func(_ context.Context, _ int, e []wire.Entry) stream.Verdict {
			if bodies(e) == "m1" {
				return hold(e)
			}
			return stream.Verdict{}
		}
		h.add(0, 1, 4)
		h.run()
		testkit.Pass(10 * time.Second)
		h.add(0, 5, 6)
		h.source.Trim(0, 2) // m1 to m4 are gone from the stream, and in memory
		testkit.Pass(time.Minute)
		assert.Empty(t, h.reportedGaps(), "all of them are in memory")
		h.store.RequestReset(0, "1-0|")
		testkit.Pass(time.Minute)
		require.Len(t, h.reportedGaps(), 1)
		assert.Equal(t, "trimmed behind 1-0 before 5-0: 3", h.reportedGaps()[0])
		h.stop()
	})
}

func TestC9WhatVanishesWhileAPartitionIsStoppedIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.BatchSize, h.config.ReadAhead = 1, 2
		h.deliver = func(_ context.Context, _ int, e []wire.Entry) stream.Verdict {
			if bodies(e) == "m1" {
				return stream.Verdict{Policy: stream.ErrorStop, Remaining: e, Cause: "handler", Err: errors.New("never")}
			}
			return stream.Verdict{}
		}
		h.add(0, 1, 20)
		h.run()
		testkit.Pass(10 * time.Second)
		h.source.Trim(0, 2)
		testkit.Pass(time.Hour)
		assert.NotEmpty(t, h.reportedGaps(), "while stopped")
		h.store.RequestReset(0, "1-0|")
		testkit.Pass(time.Minute)
		assert.NotEmpty(t, h.reportedGaps(), "m2 to m18 vanished unread: position "+h.position(0))
		h.stop()
	})
}

// Its metadata is committed too, although a commit of the earlier metadata was under way.
func TestC9AReportDuringAWriteIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.Store = slowStore{h.store, 100 * time.Millisecond, false}
		h.config.PersistInterval = 5*time.Second - 50*time.Millisecond // so that a commit is under way when the tail is sampled
		h.hold(true)
		h.add(0, 1, 20)
		h.run()
		h.source.Trim(0, 3)
		testkit.Pass(6 * time.Second)
		require.Equal(t, []string{"trimmed behind 6-0 before 18-0: 11"}, h.reportedGaps())
		h.restart()
		assert.Equal(t, []string{"trimmed behind 6-0 before 18-0: 11", "trimmed behind 0-0 before 18-0: 6"}, h.reportedGaps())
		h.stop()
	})
}
