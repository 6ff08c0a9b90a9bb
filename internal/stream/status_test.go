package stream_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// A misspelt type passes over everything, which the log says, once.
func TestThatNothingIsOfATypeThatIsWantedIsSaidOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.BatchSize = 1
		r.config.Source = filtering{r.source}
		r.source.Add(0, "odd")
		r.run()
		pass(2 * time.Second)
		assert.Equal(t, 1, r.log.count("no message is of a type that is wanted"))
		r.source.Add(0, "even")
		r.source.Add(0, "odd")
		pass(2 * time.Second)
		assert.Equal(t, 1, r.log.count("no message is of a type that is wanted"))
		_, _ = r.stop()
	})
}

func TestC11StatusTellsWhatAPartitionIsDoing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.BatchSize = 2
		r.add(0, 1, 5)
		outcome := make(chan stream.Verdict)
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			verdict := <-outcome
			verdict.Remaining = entries
			return verdict
		}
		group := stream.NewGroup(r.config)
		statuses, _, _ := group.Status()
		assert.Equal(t, stream.Starting, statuses[0].State)

		r.run()
		assert.Equal(t, stream.Running, r.status(0).State)
		assert.Equal(t, int64(5), r.status(0).Lag)
		assert.True(t, r.status(0).LagKnown)
		assert.Equal(t, time.UnixMilli(1), r.status(0).Oldest)

		outcome <- stream.Verdict{Action: stream.Hold, Cause: "starts", Err: errors.New("down"), Detail: "detail"}
		synctest.Wait()
		blocked := r.status(0).Blocked
		require.NotNil(t, blocked)
		assert.Equal(t, stream.Blocked{
			Since: time.Now(), Attempts: 1, Next: time.Now().Add(time.Second), Cause: "starts", Err: blocked.Err, Detail: "detail",
		}, *blocked)
		pass(time.Second)
		outcome <- stream.Verdict{Action: stream.Hold, Cause: "starts", Err: errors.New("down")}
		synctest.Wait()
		assert.Equal(t, 2, r.status(0).Blocked.Attempts)
		assert.Equal(t, time.Now().Add(-time.Second), r.status(0).Blocked.Since)

		pass(2 * time.Second)
		outcome <- stream.Verdict{}
		synctest.Wait()
		assert.Equal(t, stream.Running, r.status(0).State)
		assert.Equal(t, "2-0", r.status(0).Position.String())
		assert.Equal(t, int64(3), r.status(0).Lag)
		assert.Equal(t, 1, r.log.count("msg=blocked"))
		assert.Equal(t, 1, r.log.count("msg=recovered partition=0 attempts=2 elapsed=3s"), r.log.String())

		outcome <- stream.Verdict{}
		outcome <- stream.Verdict{}
		synctest.Wait()
		status := r.status(0)
		assert.Equal(t, stream.Idle, status.State)
		assert.Equal(t, int64(0), status.Lag)
		assert.True(t, status.Oldest.IsZero())
		_, _ = r.stop()
		assert.Equal(t, stream.Stopped, r.status(0).State)
	})
}

func TestABlockIsLoggedOnEntryAndThenSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 1)
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			return stream.Verdict{Action: stream.Hold, Remaining: entries, Cause: "starts", Err: errors.New("down")}
		}
		r.run()
		pass(29 * time.Second)
		assert.Equal(t, 1, r.log.count("msg=blocked"))
		pass(10*time.Minute - 29*time.Second)
		assert.InDelta(t, 20, r.log.count("msg=blocked"), 1)
		_, _ = r.stop()
		assert.Equal(t, 1, r.log.count("stopped while blocked"))
	})
}

// The lag of a position in the middle of a stream is not known, rather than wrong, until the position was at an
// end of it once.
func TestLagIsExactOrUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 10)
		_, err := r.store.Save(t.Context(), []position.Write{{Partition: 0, ID: wire.ID{Ms: 4}}})
		require.NoError(t, err)
		var hold atomic.Bool
		hold.Store(true)
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if hold.Load() {
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			}
			return stream.Verdict{}
		}
		r.run()
		pass(20 * time.Second)
		assert.False(t, r.status(0).LagKnown)
		hold.Store(false)
		pass(30 * time.Second)
		assert.True(t, r.status(0).LagKnown)
		assert.Equal(t, int64(0), r.status(0).Lag)
		hold.Store(true)
		r.add(0, 11, 17)
		pass(30 * time.Second)
		assert.True(t, r.status(0).LagKnown)
		assert.Equal(t, int64(7), r.status(0).Lag)
		_, _ = r.stop()
	})
}

// A position behind which the last entries were deleted is at the end.
func TestLagIsKnownBehindWhatWasDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 10)
		r.source.Delete(0, wire.ID{Ms: 10})
		_, err := r.store.Save(t.Context(), []position.Write{{Partition: 0, ID: wire.ID{Ms: 4}}})
		require.NoError(t, err)
		r.run()
		pass(10 * time.Second)
		assert.True(t, r.status(0).LagKnown)
		assert.Zero(t, r.status(0).Lag)
		_, _ = r.stop()
	})
}
