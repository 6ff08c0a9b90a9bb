package stream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestC11StatusShowsWhatAPartitionIsDoing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.BatchSize = 2
		h.add(0, 1, 5)
		outcome := make(chan stream.Verdict)
		h.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			verdict := <-outcome
			verdict.Remaining = entries
			return verdict
		}
		statuses, _, _ := stream.NewLoop(h.config).Status()
		assert.Equal(t, stream.StateStarting, statuses[0].State)

		h.run()
		assert.Equal(t, stream.StateRunning, h.status(0).State)
		assert.Equal(t, int64(5), h.status(0).Lag)
		assert.True(t, h.status(0).LagKnown)
		assert.Equal(t, time.UnixMilli(1), h.status(0).Oldest)

		outcome <- stream.Verdict{Policy: stream.ErrorHold, Cause: "starts", Err: errors.New("down"), Detail: "detail"}
		synctest.Wait()
		blocked := h.status(0).Blocked
		require.NotNil(t, blocked)
		assert.Equal(t, stream.Blocked{
			Since: time.Now(), Attempts: 1, Next: time.Now().Add(time.Second), Cause: "starts", Err: blocked.Err, Detail: "detail",
		}, *blocked)
		testkit.Pass(time.Second)
		outcome <- stream.Verdict{Policy: stream.ErrorHold, Cause: "starts", Err: errors.New("down")}
		synctest.Wait()
		assert.Equal(t, 2, h.status(0).Blocked.Attempts)
		assert.Equal(t, time.Now().Add(-time.Second), h.status(0).Blocked.Since)

		testkit.Pass(2 * time.Second)
		outcome <- stream.Verdict{}
		synctest.Wait()
		assert.Equal(t, stream.StateRunning, h.status(0).State)
		assert.Equal(t, "2-0", h.status(0).Position.String())
		assert.Equal(t, int64(3), h.status(0).Lag)
		assert.Equal(t, 1, h.log.Count("msg=blocked"))
		assert.Equal(t, 1, h.log.Count("msg=recovered partition=0 attempts=2 elapsed=3s"), h.log.String())

		outcome <- stream.Verdict{}
		outcome <- stream.Verdict{}
		synctest.Wait()
		status := h.status(0)
		assert.Equal(t, stream.StateIdle, status.State)
		assert.Equal(t, int64(0), status.Lag)
		assert.True(t, status.Oldest.IsZero())
		h.stop()
		assert.Equal(t, stream.StateStopped, h.status(0).State)
	})
}

func TestABlockIsLoggedAtOnceAndThenEvery30Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 1)
		h.hold(true)
		h.run()
		testkit.Pass(29 * time.Second)
		assert.Equal(t, 1, h.log.Count("msg=blocked"))
		testkit.Pass(10*time.Minute - 29*time.Second)
		assert.InDelta(t, 20, h.log.Count("msg=blocked"), 1)
		h.stop()
		assert.Equal(t, 1, h.log.Count("stopped while blocked"))
	})
}

// The lag of a position in the middle of a stream is unknown, rather than wrong, until the position was once at an end.
func TestLagIsExactOrUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 10)
		h.setPosition(0, wire.ID{Ms: 4})
		h.hold(true)
		h.run()
		testkit.Pass(20 * time.Second)
		assert.False(t, h.status(0).LagKnown)
		h.hold(false)
		testkit.Pass(30 * time.Second)
		assert.True(t, h.status(0).LagKnown)
		assert.Equal(t, int64(0), h.status(0).Lag)
		h.hold(true)
		h.add(0, 11, 17)
		testkit.Pass(30 * time.Second)
		assert.True(t, h.status(0).LagKnown)
		assert.Equal(t, int64(7), h.status(0).Lag)
		h.stop()
	})
}

// A position behind which the last entries were deleted is at the end.
func TestLagIsKnownBehindWhatWasDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 10)
		h.source.Delete(0, wire.ID{Ms: 10})
		h.setPosition(0, wire.ID{Ms: 4})
		h.run()
		testkit.Pass(10 * time.Second)
		assert.True(t, h.status(0).LagKnown)
		assert.Zero(t, h.status(0).Lag)
		h.stop()
	})
}
