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
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
)

// A gap holds the partition before anything behind it is delivered, across restarts, and is reported once. A reset ends
// the hold, even one to the current position.
func TestC9AGapHoldsUntilAReset(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		vanish    func(h *harness) // with m1 to m3 processed and m4 to m10 unread
		gap       string
		target    string
		delivered []string // after the reset
	}{
		"trimmed, and continued behind the gap": {
			func(h *harness) { h.source.Trim(0, 2) }, "trimmed behind 3-0 before 9-0: 5", "3-0", []string{"0: m9 m10"},
		},
		"trimmed, and reset beyond the gap": {
			func(h *harness) { h.source.Trim(0, 2) }, "trimmed behind 3-0 before 9-0: 5", "9-0", []string{"0: m10"},
		},
		"deleted": {
			func(h *harness) { h.source.Delete(0, wire.ID{Ms: 5}); h.source.Trim(0, 7) }, "deleted behind 3-0: 1", "3-0", []string{"0: m4 m6 m7", "0: m8 m9 m10"},
		},
		"begun again, and read from the beginning": {
			func(h *harness) { h.source.Drop(0); h.add(0, 1, 2) }, "ahead behind 3-0", "0-0", []string{"0: m1 m2"},
		},
		"gone": {
			func(h *harness) { h.source.Drop(0) }, "gone behind 3-0", "0-0", []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, 0)
				h.config.GapHold = true
				h.config.BatchSize = 10
				h.add(0, 1, 3)
				h.run()
				testkit.Pass(10 * time.Second)
				h.stop()
				h.add(0, 4, 10)
				row.vanish(h)
				h.run()
				testkit.Pass(time.Minute)
				for range 3 {
					assert.Equal(t, []string{row.gap}, h.reportedGaps())
					assert.Equal(t, []string{"0: m1 m2 m3"}, h.deliveries())
					status := h.status(0)
					assert.Equal(t, stream.StateBlocked, status.State)
					assert.Equal(t, stream.CauseGap, status.Blocked.Cause)
					assert.Equal(t, row.gap, describe(status.Blocked.Detail.(stream.Gap)))
					h.restart()
				}
				h.config.BatchSize = 3
				h.restart()
				h.store.RequestReset(0, row.target)
				testkit.Pass(time.Minute)
				assert.Equal(t, row.delivered, h.deliveries()[1:])
				assert.NotEqual(t, stream.StateBlocked, h.status(0).State)
				h.restart()
				assert.Equal(t, []string{row.gap}, h.reportedGaps())
				h.stop()
			})
		})
	}
}

// Entries read before the gap are processed, and those behind it are not.
func TestC9AGapHoldsBehindWhatWasRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.GapHold = true
		h.hold(true)
		h.add(0, 1, 20)
		h.run()
		testkit.Pass(10 * time.Second)
		h.source.Trim(0, 4)
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"trimmed behind 6-0 before 17-0: 10"}, h.reportedGaps())
		assert.Equal(t, "starts", h.status(0).Blocked.Cause)
		h.hold(false)
		testkit.Pass(time.Minute)
		assert.Equal(t, "6-0", h.position(0))
		assert.Equal(t, stream.CauseGap, h.status(0).Blocked.Cause)
		h.add(0, 21, 24)
		h.source.Trim(0, 2) // it grows
		testkit.Pass(time.Minute)
		assert.Equal(t, []string{"trimmed behind 6-0 before 17-0: 10", "trimmed behind 6-0 before 23-0: 6"}, h.reportedGaps())
		assert.Equal(t, "trimmed behind 6-0 before 23-0: 16", describe(h.status(0).Blocked.Detail.(stream.Gap)))
		h.restart()
		assert.Equal(t, "6-0", h.position(0))
		assert.Equal(t, "trimmed behind 6-0 before 23-0: 16", describe(h.status(0).Blocked.Detail.(stream.Gap)))
		assert.Len(t, h.reportedGaps(), 2)

		h.config.GapHold = false
		h.restart()
		assert.Equal(t, "24-0", h.position(0))
		assert.Len(t, h.reportedGaps(), 2)
		h.stop()
	})
}

// A gap is found before anything behind it is delivered, no matter what the reader does when the entries vanish.
func TestC9AGapHoldsInTime(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		vanish func(h *harness)
		last   string // delivery
	}{
		"while the reader is behind": {func(h *harness) {
			h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
				time.Sleep(300 * time.Millisecond)
				return stream.Verdict{}
			}
			h.add(0, 2, 40)
			testkit.Pass(700 * time.Millisecond)
			h.source.Trim(0, 10)
		}, "0: m13"},
		"while the reader waits, for less than the time between two checks": {func(h *harness) {
			h.hold(true)
			for n := 2; n <= 3; n++ {
				h.add(0, n, n)
				testkit.Pass(100 * time.Millisecond)
			}
			h.add(0, 4, 9)
			h.source.Trim(0, 1)
			testkit.Pass(1500 * time.Millisecond)
			h.hold(false)
		}, "0: m3"},
		"while one read fails": {func(h *harness) {
			h.config.HoldMin = 10 * time.Millisecond
			h.source.Fail(0, errors.New("EOF"))
			h.add(0, 2, 9)
			h.source.Trim(0, 1)
			testkit.Pass(20 * time.Millisecond)
			h.source.Fail(0, nil)
		}, "0: m1"},
		"while another server is in its place, which lacks entries": {func(h *harness) {
			testkit.Pass(time.Second)
			was := h.source.Snapshot(0)
			h.add(0, 2, 30)
			testkit.Pass(20 * time.Second)
			h.source.Fail(0, errors.New("EOF"))
			h.source.Restore(0, was)
			for ms := range uint64(9) {
				h.source.AddAt(0, wire.ID{Ms: 100 + ms}, "new")
			}
			testkit.Pass(time.Second)
			h.source.Fail(0, nil)
		}, "0: m30"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h := newHarness(t, 0)
				h.config.GapHold = true
				h.config.HoldMin = 10 * time.Millisecond
				h.add(0, 1, 1)
				h.run()
				row.vanish(h)
				testkit.Pass(time.Minute)
				assert.Len(t, h.reportedGaps(), 1)
				delivered := h.delivered()
				assert.Equal(t, row.last, delivered[len(delivered)-1], "%v", h.reportedGaps())
				assert.Equal(t, stream.CauseGap, h.status(0).Blocked.Cause)
				h.stop()
			})
		})
	}
}

// The log limit does not apply to a gap that holds.
func TestC9ANewGapHoldsAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.GapHold = true
		h.add(0, 1, 3)
		h.run()
		testkit.Pass(10 * time.Second)
		h.stop()
		h.add(0, 4, 8)
		h.source.Trim(0, 2)
		h.run()
		testkit.Pass(time.Second)
		require.Equal(t, []string{"trimmed behind 3-0 before 7-0: 3"}, h.reportedGaps())
		h.store.RequestReset(0, "3-0")
		testkit.Pass(3 * time.Second)
		require.Equal(t, "8-0", h.position(0))

		h.source.Fail(0, errors.New("EOF"))
		h.add(0, 9, 20)
		h.source.Trim(0, 2)
		testkit.Pass(time.Second)
		h.source.Fail(0, nil)
		testkit.Pass(3 * time.Second)
		assert.Equal(t, []string{"trimmed behind 3-0 before 7-0: 3", "trimmed behind 8-0 before 19-0: 10"}, h.reportedGaps())
		assert.Equal(t, stream.CauseGap, h.status(0).Blocked.Cause)
		assert.Equal(t, "8-0", h.position(0))
		h.stop()
	})
}

// That includes a stream that is gone.
func TestC9AGapHoldsNoMoreUnderTheOtherPolicy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.GapHold = true
		h.add(0, 1, 3)
		h.run()
		testkit.Pass(10 * time.Second)
		h.source.Drop(0)
		testkit.Pass(10 * time.Second)
		require.Equal(t, stream.CauseGap, h.status(0).Blocked.Cause)
		h.config.GapHold = false
		h.restart()
		h.add(0, 1, 5)
		testkit.Pass(time.Minute)
		assert.Equal(t, []string{"gone behind 3-0", "ahead behind 3-0: 3"}, h.reportedGaps())
		assert.Equal(t, "5-0", h.position(0))
		h.stop()
	})
}

// A held partition delays no other, and ends with the run.
func TestC9AGapHoldsItsPartitionAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.Partitions = []int{0, 1}
		h.config.GapHold = true
		h.add(0, 1, 1)
		h.run()
		testkit.Pass(10 * time.Second)
		h.source.Drop(0)
		testkit.Pass(10 * time.Second)
		h.add(1, 1, 1)
		testkit.Pass(time.Second)
		assert.Equal(t, []string{"0: m1", "1: m1"}, h.deliveries())
		assert.Equal(t, stream.StateBlocked, h.status(0).State)
		took := h.stop()
		assert.LessOrEqual(t, took, time.Second, "the read of the other")
	})
}

// It must not just silence a partition.
func TestC9AGapReportThatEndsItsGoroutineEndsTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.OnGap = func(context.Context, int, stream.Gap) { runtime.Goexit() }
		h.add(0, 1, 1)
		h.run()
		testkit.Pass(10 * time.Second)
		h.source.Drop(0)
		testkit.Pass(10 * time.Second)
		require.ErrorIs(t, <-h.result, stream.ErrGoexit)
	})
}

func TestC9AnOutageEndsWithAGapCheck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.GapHold = true
		h.add(0, 1, 2)
		h.run()
		testkit.Pass(10 * time.Second)
		h.source.Fail(0, errors.New("CLUSTERDOWN"))
		h.add(0, 3, 9)
		h.source.Trim(0, 1)
		testkit.Pass(10 * time.Second)
		h.source.Fail(0, nil)
		testkit.Pass(time.Minute)
		assert.Equal(t, []string{"trimmed behind 2-0 before 9-0: 6"}, h.reportedGaps())
		assert.Equal(t, "2-0", h.position(0))
		h.stop()
	})
}

// Otherwise it would never be ready after a restart.
func TestC9APartitionThatIsHeldAtAGapHasStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.GapHold = true
		h.add(0, 1, 3)
		h.run()
		testkit.Pass(10 * time.Second)
		h.stop()
		h.add(0, 4, 10)
		h.source.Trim(0, 2)
		h.run()
		testkit.Pass(time.Minute)
		assert.True(t, h.status(0).Read, "first run")
		h.restart()
		testkit.Pass(time.Hour)
		assert.True(t, h.status(0).Read, "after a restart: /readyz stays 503 otherwise")
		h.stop()
	})
}
