package stream_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
)

// While a position does not move, status and log say when trimming reaches it, once anything was trimmed.
func TestC9TrimmingIsEstimated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		const most = 10_000
		published := 0
		publish := func(entries int, during time.Duration) {
			for range int(during / time.Second) {
				for range entries {
					published++
					h.source.AddAt(0, wire.ID{Ms: uint64(published)}, "m")
				}
				h.source.Trim(0, most)
				testkit.Pass(time.Second)
			}
		}
		h.config.BatchSize = 100
		h.run()
		publish(5, 30*time.Minute)
		assert.Nil(t, h.status(0).TrimIn, "it moves")
		h.hold(true)
		publish(5, time.Minute)
		assert.Nil(t, h.status(0).TrimIn, "nothing was trimmed yet, and perhaps nothing ever will be")
		publish(5, 3*time.Minute)
		require.Equal(t, most, int(h.length()))

		publish(5, 10*time.Minute)
		behind := 5 * 14 * 60
		left := h.status(0).TrimIn
		require.NotNil(t, left)
		assert.InDelta(t, float64(most-behind)/5, left.Seconds(), 60)
		assert.Zero(t, h.log.Count("trimming close to the position"))
		publish(10, 2*time.Minute)
		assert.InDelta(t, float64(most-behind-1200)/10, h.status(0).TrimIn.Seconds(), 60, "by the current rate")
		assert.InDelta(t, 4, h.log.Count("trimming close to the position"), 1, "once in 30 s")
		testkit.Pass(2 * time.Minute)
		assert.Nil(t, h.status(0).TrimIn, "nothing is published")
		publish(10, 12*time.Minute)
		require.NotNil(t, h.status(0).TrimIn)
		assert.Zero(t, *h.status(0).TrimIn)
		h.hold(false)
		for before := h.status(0).Position; h.status(0).Position == before; {
			testkit.Pass(100 * time.Millisecond)
		}
		assert.Nil(t, h.status(0).TrimIn, "as soon as it moves")
		testkit.Pass(time.Minute)
		assert.Nil(t, h.status(0).TrimIn)
		lines := h.log.Count("trimming close to the position")
		publish(10, 10*time.Minute)
		testkit.Pass(20 * time.Second)
		assert.Nil(t, h.status(0).TrimIn, "nothing is behind it")
		assert.Equal(t, lines, h.log.Count("trimming close to the position"))
		h.stop()
	})
}

func (h *harness) length() int64 {
	tail, err := h.source.Tail(h.t.Context(), 0)
	require.NoError(h.t, err)
	return tail.Length
}

// A stream that was trimmed once, by hand, is not being trimmed.
func TestC9AStreamTrimmedLongAgoHasNoEstimate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.hold(true)
		h.run()
		for n := range 20 * 60 {
			h.add(0, 1, 2)
			if n == 60 {
				h.source.Trim(0, 80)
			}
			testkit.Pass(time.Second)
			switch n {
			case 70, 600:
				assert.NotNil(t, h.status(0).TrimIn, "%d s", n)
			case 50, 680, 1190:
				assert.Nil(t, h.status(0).TrimIn, "%d s", n)
			}
		}
		h.stop()
	})
}

// The rate of a stream says nothing about the one that replaces it.
func TestC9AStreamThatBeginsAgainHasNoEstimate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.hold(true)
		h.run()
		for range 60 {
			h.add(0, 1, 10)
			h.source.Trim(0, 50)
			testkit.Pass(time.Second)
		}
		require.NotNil(t, h.status(0).TrimIn)
		h.source.Drop(0)
		h.add(0, 1, 10)
		testkit.Pass(20 * time.Second)
		assert.Nil(t, h.status(0).TrimIn)
		for range 180 {
			h.add(0, 1, 10)
			testkit.Pass(time.Second)
		}
		assert.Nil(t, h.status(0).TrimIn, "this one was never trimmed")
		h.stop()
	})
}

// Not even one that moves slowly.
func TestC9APositionThatMovesHasNoEstimate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			time.Sleep(3 * time.Second)
			return stream.Verdict{}
		}
		h.run()
		for range 10 * 60 {
			h.add(0, 1, 4)
			h.source.Trim(0, 400)
			testkit.Pass(time.Second)
			assert.Nil(t, h.status(0).TrimIn)
		}
		h.stop()
	})
}

func TestC9ARevokedPartitionHasNoTrimWarning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0, 1)
		h.add(1, 1, 1000)
		h.config.BatchSize = 1000
		h.run()
		testkit.Pass(20 * time.Second)
		require.Equal(t, "1000-0", h.position(1))
		require.NoError(t, h.loop.Assign(t.Context(), []int{0}))
		for range 60 { // another instance reads it, and MAXLEN 1000 trims it
			h.add(1, 1, 100)
			h.source.Trim(1, 1000)
			testkit.Pass(time.Second)
		}
		assert.Zero(t, h.log.Count("trimming close to the position"), h.log.String())
		h.stop()
	})
}
