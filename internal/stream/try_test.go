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
	"github.com/redisevents/restatestart/internal/wire"
)

func TestATryKnowsWhatHeldItsEntriesAndNothingOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 4) // a batch of three and one of one
		details := []any{"first", "second", nil, "of the other batch", nil}
		call := 0
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			detail := details[call]
			call++
			if detail == nil {
				return stream.Verdict{}
			}
			return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down"), Detail: detail}
		}
		r.run()
		pass(time.Minute)
		before := []any{}
		for _, try := range r.batches {
			before = append(before, try.Before)
		}
		assert.Equal(t, []any{nil, "first", "second", nil, "of the other batch"}, before)
		_, err := r.stop()
		require.NoError(t, err)
	})
}

func TestAResetForgetsWhatHeldTheEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 1)
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down"), Detail: "held"}
		}
		r.run()
		pass(1500 * time.Millisecond)
		require.Len(t, r.deliveries(), 2)
		r.store.RequestReset(0, "0-0|")
		for len(r.deliveries()) < 3 {
			pass(100 * time.Millisecond)
		}
		assert.Nil(t, r.batches[2].Before)
		_, err := r.stop()
		require.NoError(t, err)
	})
}

func TestATryKnowsThatTheRunIsStopping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 1)
		release := make(chan struct{})
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			<-release
			return stream.Verdict{}
		}
		r.run()
		pass(time.Second)
		assert.False(t, r.batches[0].Stopping())
		r.cancel()
		synctest.Wait()
		assert.True(t, r.batches[0].Stopping(), "long before the batch in hand has to end")
		close(release)
		require.NoError(t, <-r.result)
	})
}

func TestWhatIsParkedIsCountedAndBeginsTheWaitsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 3)
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			verdict := stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			switch len(r.deliveries()) {
			case 4:
				verdict.Parked, verdict.Remaining = 1, entries[1:]
			case 6:
				return stream.Verdict{Parked: 2}
			}
			return verdict
		}
		r.run()
		pass(time.Minute)
		assert.Equal(t, []float64{0, 1, 3, 7, 8, 10}, r.times())
		assert.Equal(t, int64(3), r.status(0).Parked)
		assert.Equal(t, "3-0", r.position(0))
		_, err := r.stop()
		require.NoError(t, err)
	})
}
