package stream_test

import (
	"context"
	"errors"
	"io"
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

func TestResetsAreHonouredWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 6)
		h.run()
		testkit.Pass(5 * time.Second)
		require.Equal(t, "6-0", h.position(0))
		h.store.RequestReset(0, "2-0|2026-09-06T11:22:33.4440000+00:00")
		testkit.Pass(5 * time.Second)
		assert.Equal(t, []string{"0: m1", "0: m2", "0: m3", "0: m4", "0: m5", "0: m6", "0: m3", "0: m4", "0: m5", "0: m6"}, h.delivered())
		assert.Equal(t, "6-0", h.position(0))
		h.store.RequestReset(0, "5-0|forward and back are the same")
		testkit.Pass(5 * time.Second)
		assert.Len(t, h.delivered(), 11)
		h.stop()
	})
}

func TestAResetEndsAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.BatchSize = 1
		h.add(0, 1, 4)
		h.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if bodies(entries) == "m2" {
				return hold(entries)
			}
			return stream.Verdict{}
		}
		h.run()
		testkit.Pass(100 * time.Second)
		require.Equal(t, "1-0", h.position(0))
		h.store.RequestReset(0, "2-0")
		testkit.Pass(3 * time.Second)
		assert.Equal(t, "4-0", h.position(0), "the operator stepped over it")
		assert.Equal(t, stream.StateIdle, h.status(0).State)
		h.stop()
	})
}

// The batch that is being delivered when the reset comes does not move the position, and what was read ahead is not delivered.
func TestAResetIsNotOverwrittenByTheBatchBeingDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 9)
		h.sleepIn(1)
		h.run()
		h.store.RequestReset(0, "7-0")
		testkit.Pass(9 * time.Second)
		assert.Equal(t, "0-0", h.position(0))
		testkit.Pass(5 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m8 m9"}, h.deliveries())
		assert.Equal(t, "9-0", h.position(0))
		h.stop()
	})
}

func TestAResetBackwardsIsNotOverwrittenByTheBatchBeingDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 9)
		h.sleepIn(3)
		h.run()
		testkit.Pass(2 * time.Second)
		require.Equal(t, "6-0", h.position(0))
		h.hold(true)
		h.store.RequestReset(0, "1-0")
		testkit.Pass(30 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m4 m5 m6", "0: m7 m8 m9", "0: m2 m3 m4"}, h.deliveries()[:4])
		assert.Equal(t, "1-0", h.position(0))
		h.stop()
		assert.Equal(t, "1-0", h.position(0))
	})
}

func TestAResetIsNotOverwrittenByAQueuedPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 6)
		h.run()
		testkit.Pass(500 * time.Millisecond)
		require.Equal(t, "6-0", h.status(0).Position.String())
		require.Equal(t, "0-0", h.position(0), "not written yet")
		h.hold(true)
		h.store.RequestReset(0, "2-0")
		testkit.Pass(10 * time.Second)
		assert.Equal(t, "2-0", h.position(0))
		h.stop()
		assert.Equal(t, "2-0", h.position(0))
	})
}

// Acknowledged positions are part of each commit, but not over a reset.
func TestAResetIsNotUndoneByRewritingAPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 3)
		h.run()
		testkit.Pass(5 * time.Second)
		h.hold(true)
		h.store.RequestReset(0, "1-0|")
		testkit.Pass(5 * time.Minute)
		assert.Equal(t, "1-0", h.position(0))
		h.stop()
	})
}

func TestAResetOfAReassignedPartitionIsNotUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0, 1)
		h.add(1, 1, 6)
		h.run()
		testkit.Pass(5 * time.Second)
		require.Equal(t, "6-0", h.position(1))
		require.NoError(t, h.loop.Assign(t.Context(), []int{0}))
		testkit.Pass(5 * time.Second)
		h.hold(true)
		h.source.Fail(1, errors.New("down"))
		h.store.RequestReset(1, "1-0|")
		require.NoError(t, h.loop.Assign(t.Context(), []int{0, 1}))
		testkit.Pass(5 * time.Minute)
		assert.Equal(t, "1-0", h.position(1))
		h.stop()
	})
}

func TestAResetWaitsForTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		failing := &failingReset{store: h.store, failures: 3}
		h.config.Store = failing
		h.add(0, 1, 3)
		h.run()
		testkit.Pass(2 * time.Second)
		h.store.RequestReset(0, "1-0")
		testkit.Pass(20 * time.Second)
		assert.Equal(t, []string{"0: m1", "0: m2", "0: m3", "0: m2", "0: m3"}, h.delivered())
		assert.Equal(t, "3-0", h.position(0))
		h.stop()
	})
}

type failingReset struct {
	*store
	failures int
}

func (f *failingReset) ApplyReset(ctx context.Context, partition int, reset position.Reset) (bool, error) {
	if f.failures > 0 {
		f.failures--
		return false, io.ErrUnexpectedEOF
	}
	return f.store.ApplyReset(ctx, partition, reset)
}

func TestAResetIsHonouredAtStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0, 1)
		h.setPosition(0, wire.ID{Ms: 3})
		h.setPosition(1, wire.ID{Ms: 3})
		h.store.RequestReset(0, "1-0|whenever")
		h.store.RequestReset(7, "1-0|of a partition of another consumer")
		h.add(0, 1, 3)
		h.add(1, 1, 3)
		h.run()
		testkit.Pass(2 * time.Second)
		assert.Equal(t, []string{"0: m2 m3"}, h.deliveries())
		assert.Equal(t, "3-0", h.position(0))
		others, err := h.store.Load(t.Context(), []int{7})
		require.NoError(t, err)
		assert.NotNil(t, others[0].Reset)
		h.stop()
	})
}

// A reset cancelled before it was applied moves nothing, and nothing is redelivered.
func TestACancelledResetMovesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 9)
		h.sleepIn(2)
		h.run()
		h.store.RequestReset(0, "7-0")
		testkit.Pass(5 * time.Second)
		h.store.CancelReset(0)
		testkit.Pass(20 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m4 m5 m6", "0: m7 m8 m9"}, h.deliveries())
		assert.Equal(t, "9-0", h.position(0))
		assert.Equal(t, 1, h.log.Count("position reset cancelled"))
		h.stop()
	})
}

func TestAResetReplacedByAnotherIsNotApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 9)
		h.sleepIn(1)
		h.run()
		h.store.RequestReset(0, "7-0")
		testkit.Pass(5 * time.Second)
		applied, err := h.store.ApplyReset(t.Context(), 0, position.Reset{Target: wire.ID{Ms: 7}, Value: "7-0"})
		require.NoError(t, err)
		require.True(t, applied)
		h.store.RequestReset(0, "1-0")
		testkit.Pass(20 * time.Second)
		assert.Equal(t, "9-0", h.position(0))
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m2 m3 m4", "0: m5 m6 m7", "0: m8 m9"}, h.deliveries(), "the new one counts")
		h.stop()
	})
}

// A reset that was applied, and whose answer was lost, is not overwritten by a queued position.
func TestAResetWhoseAnswerWasLostIsNotUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.Store = &lostAnswer{store: h.store}
		h.add(0, 1, 6)
		h.sleepIn(2)
		h.run()
		testkit.Pass(2 * time.Second)
		h.hold(true)
		h.store.RequestReset(0, "1-0")
		testkit.Pass(30 * time.Second)
		assert.Equal(t, "1-0", h.position(0))
		assert.Equal(t, "0: m2 m3 m4", h.deliveries()[2])
		h.stop()
		assert.Equal(t, "1-0", h.position(0))
	})
}

// lostAnswer applies the first reset, and returns an error.
type lostAnswer struct {
	*store

	lost bool
}

func (l *lostAnswer) ApplyReset(ctx context.Context, partition int, reset position.Reset) (bool, error) {
	applied, err := l.store.ApplyReset(ctx, partition, reset)
	if !l.lost {
		l.lost = true
		return false, io.ErrUnexpectedEOF
	}
	return applied, err
}
