package stream_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// A hole holds the partition before anything behind it is handed over, over restarts, and is reported once. A reset ends
// that, to the position that it holds as well.
func TestC9AHoleHoldsUntilAReset(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		vanish func(g *gapRig) // with m1 to m3 done and m4 to m10 unread
		gap    string
		target string
		handed []string // after the reset
	}{
		"trimmed, on behind the hole": {
			func(g *gapRig) { g.source.Trim(0, 2) }, "trimmed behind 3-0 before 9-0: 5", "3-0", []string{"0: m9 m10"},
		},
		"trimmed, and stepped over more": {
			func(g *gapRig) { g.source.Trim(0, 2) }, "trimmed behind 3-0 before 9-0: 5", "9-0", []string{"0: m10"},
		},
		"deleted": {
			func(g *gapRig) { g.source.Delete(0, wire.ID{Ms: 5}); g.source.Trim(0, 7) }, "deleted behind 3-0: 1", "3-0", []string{"0: m4 m6 m7", "0: m8 m9 m10"},
		},
		"begun again, and read from the beginning": {
			func(g *gapRig) { g.source.Drop(0); g.add(0, 1, 2) }, "ahead behind 3-0", "0-0", []string{"0: m1 m2"},
		},
		"gone": {
			func(g *gapRig) { g.source.Drop(0) }, "gone behind 3-0", "0-0", []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGapRig(t)
				g.config.GapHold = true
				g.config.BatchSize = 10
				g.add(0, 1, 3)
				g.run()
				pass(10 * time.Second)
				g.end()
				g.add(0, 4, 10)
				row.vanish(g)
				g.run()
				pass(time.Minute)
				for range 3 {
					assert.Equal(t, []string{row.gap}, g.gaps())
					assert.Equal(t, []string{"0: m1 m2 m3"}, g.deliveries())
					status := g.status(0)
					assert.Equal(t, stream.Holding, status.State)
					assert.Equal(t, stream.CauseGap, status.Blocked.Cause)
					assert.Equal(t, row.gap, told(status.Blocked.Detail.(stream.Gap)))
					g.restart()
				}
				g.config.BatchSize = 3
				g.restart()
				g.store.RequestReset(0, row.target)
				pass(time.Minute)
				assert.Equal(t, row.handed, g.deliveries()[1:])
				assert.NotEqual(t, stream.Holding, g.status(0).State)
				g.restart()
				assert.Equal(t, []string{row.gap}, g.gaps())
				g.end()
			})
		})
	}
}

// What was read before the hole is done first, and what stands behind it is not.
func TestC9AHoleHoldsBehindWhatWasRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.config.GapHold = true
		g.hold(true)
		g.add(0, 1, 20)
		g.run()
		pass(10 * time.Second)
		g.source.Trim(0, 4)
		pass(10 * time.Second)
		assert.Equal(t, []string{"trimmed behind 6-0 before 17-0: 10"}, g.gaps())
		assert.Equal(t, "starts", g.status(0).Blocked.Cause)
		g.hold(false)
		pass(time.Minute)
		assert.Equal(t, "6-0", g.position(0))
		assert.Equal(t, stream.CauseGap, g.status(0).Blocked.Cause)
		g.add(0, 21, 24)
		g.source.Trim(0, 2) // it grows
		pass(time.Minute)
		assert.Equal(t, []string{"trimmed behind 6-0 before 17-0: 10", "trimmed behind 6-0 before 23-0: 6"}, g.gaps())
		assert.Equal(t, "trimmed behind 6-0 before 23-0: 16", told(g.status(0).Blocked.Detail.(stream.Gap)))
		g.restart()
		assert.Equal(t, "6-0", g.position(0))
		assert.Equal(t, "trimmed behind 6-0 before 23-0: 16", told(g.status(0).Blocked.Detail.(stream.Gap)))
		assert.Len(t, g.gaps(), 2)

		g.config.GapHold = false // somebody thought better of it
		g.restart()
		assert.Equal(t, "24-0", g.position(0))
		assert.Len(t, g.gaps(), 2)
		g.end()
	})
}

// A hole is found before what stands behind it is handed over, whatever the reader was doing when it came.
func TestC9AHoleHoldsInTime(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		vanish func(g *gapRig)
		last   string // of what was handed over
	}{
		"while the reader is behind": {func(g *gapRig) {
			g.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
				time.Sleep(300 * time.Millisecond)
				return stream.Verdict{}
			}
			g.add(0, 2, 40)
			pass(700 * time.Millisecond)
			g.source.Trim(0, 10)
		}, "0: m13"},
		"while the reader waits, for less than the time between two looks": {func(g *gapRig) {
			g.hold(true)
			for n := 2; n <= 3; n++ {
				g.add(0, n, n)
				pass(100 * time.Millisecond)
			}
			g.add(0, 4, 9)
			g.source.Trim(0, 1)
			pass(1500 * time.Millisecond)
			g.hold(false)
		}, "0: m3"},
		"while one read fails": {func(g *gapRig) {
			g.config.HoldMin = 10 * time.Millisecond
			g.source.Fail(0, errors.New("EOF"))
			g.add(0, 2, 9)
			g.source.Trim(0, 1)
			pass(20 * time.Millisecond)
			g.source.Fail(0, nil)
		}, "0: m1"},
		"while another server is in its place, which lacks entries": {func(g *gapRig) {
			pass(time.Second)
			was := g.source.Snapshot(0)
			g.add(0, 2, 30)
			pass(20 * time.Second)
			g.source.Fail(0, errors.New("EOF"))
			g.source.Restore(0, was)
			for ms := range uint64(9) {
				g.source.AddAt(0, wire.ID{Ms: 100 + ms}, "new")
			}
			pass(time.Second)
			g.source.Fail(0, nil)
		}, "0: m30"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGapRig(t)
				g.config.GapHold = true
				g.config.HoldMin = 10 * time.Millisecond
				g.add(0, 1, 1)
				g.run()
				row.vanish(g)
				pass(time.Minute)
				assert.Len(t, g.gaps(), 1)
				handed := splitDeliveries(g.deliveries())
				assert.Equal(t, row.last, handed[len(handed)-1], "%v", g.gaps())
				assert.Equal(t, stream.CauseGap, g.status(0).Blocked.Cause)
				g.end()
			})
		})
	}
}

// A hole shortly after another is no less a hole.
func TestC9ANewHoleHoldsAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.config.GapHold = true
		g.add(0, 1, 3)
		g.run()
		pass(10 * time.Second)
		g.end()
		g.add(0, 4, 8)
		g.source.Trim(0, 2)
		g.run()
		pass(time.Second)
		require.Equal(t, []string{"trimmed behind 3-0 before 7-0: 3"}, g.gaps())
		g.store.RequestReset(0, "3-0")
		pass(3 * time.Second)
		require.Equal(t, "8-0", g.position(0))

		g.source.Fail(0, errors.New("EOF"))
		g.add(0, 9, 20)
		g.source.Trim(0, 2)
		pass(time.Second)
		g.source.Fail(0, nil)
		pass(3 * time.Second)
		assert.Equal(t, []string{"trimmed behind 3-0 before 7-0: 3", "trimmed behind 8-0 before 19-0: 10"}, g.gaps())
		assert.Equal(t, stream.CauseGap, g.status(0).Blocked.Cause)
		assert.Equal(t, "8-0", g.position(0))
		g.end()
	})
}

// What holds, holds no more under the other policy, a stream that is gone included.
func TestC9WhatIsGoneHoldsNoMoreUnderTheOtherPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.config.GapHold = true
		g.add(0, 1, 3)
		g.run()
		pass(10 * time.Second)
		g.source.Drop(0)
		pass(10 * time.Second)
		require.Equal(t, stream.CauseGap, g.status(0).Blocked.Cause)
		g.config.GapHold = false
		g.restart()
		g.add(0, 1, 5)
		pass(time.Minute)
		assert.Equal(t, []string{"gone behind 3-0", "ahead behind 3-0: 3"}, g.gaps())
		assert.Equal(t, "5-0", g.position(0))
		g.end()
	})
}

// A held partition delays no other, and ends with the run.
func TestC9AHoleHoldsItsPartitionAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.config.Partitions = []int{0, 1}
		g.config.GapHold = true
		g.add(0, 1, 1)
		g.run()
		pass(10 * time.Second)
		g.source.Drop(0)
		pass(10 * time.Second)
		g.add(1, 1, 1)
		pass(time.Second)
		assert.Equal(t, []string{"0: m1", "1: m1"}, g.deliveries())
		assert.Equal(t, stream.Holding, g.status(0).State)
		took, err := g.stop()
		require.NoError(t, err)
		assert.LessOrEqual(t, took, time.Second, "the read of the other")
	})
}

// Code that is told of a hole and ends its goroutine ends the run, and not just the reading of a partition.
func TestC9AnEndedReaderIsNoSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.config.Gap = func(context.Context, int, stream.Gap) { runtime.Goexit() }
		g.add(0, 1, 1)
		g.run()
		pass(10 * time.Second)
		g.source.Drop(0)
		pass(10 * time.Second)
		require.ErrorIs(t, <-g.result, stream.ErrGoexit)
	})
}

// After an outage the first read looks whether anything was trimmed meanwhile.
func TestC9AnOutageEndsWithALook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.config.GapHold = true
		g.add(0, 1, 2)
		g.run()
		pass(10 * time.Second)
		g.source.Fail(0, errors.New("CLUSTERDOWN"))
		g.add(0, 3, 9)
		g.source.Trim(0, 1)
		pass(10 * time.Second)
		g.source.Fail(0, nil)
		pass(time.Minute)
		assert.Equal(t, []string{"trimmed behind 2-0 before 9-0: 6"}, g.gaps())
		assert.Equal(t, "2-0", g.position(0))
		g.end()
	})
}
