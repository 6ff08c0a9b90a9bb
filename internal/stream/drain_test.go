package stream_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/position/positiontest"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestC6TheBatchBeingDeliveredGetsTheDrainTimeout(t *testing.T) {
	t.Parallel()
	t.Run("it finishes in time and its position is committed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0)
			h.add(0, 1, 9)
			h.deliver = func(ctx context.Context, _ int, _ []wire.Entry) stream.Verdict {
				time.Sleep(9 * time.Second)
				assert.NoError(t, ctx.Err())
				return stream.Verdict{}
			}
			h.run()
			testkit.Pass(4 * time.Second)
			assert.Equal(t, 5*time.Second, h.stop())
			assert.Equal(t, []string{"0: m1 m2 m3"}, h.deliveries(), "what was read ahead is not delivered")
			assert.Equal(t, "3-0", h.position(0))
		})
	})
	t.Run("it is cancelled after that", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0)
			h.add(0, 1, 3)
			h.deliver = func(ctx context.Context, _ int, entries []wire.Entry) stream.Verdict {
				<-ctx.Done()
				return hold(entries)
			}
			h.run()
			assert.Equal(t, 10*time.Second, h.stop())
			assert.Equal(t, "0-0", h.position(0))
		})
	})
	t.Run("a handler that ignores its context is abandoned and moves no position", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0)
			h.add(0, 1, 3)
			h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
				time.Sleep(time.Hour)
				return stream.Verdict{}
			}
			h.run()
			assert.LessOrEqual(t, h.stop(), 11*time.Second)
			assert.Equal(t, 1, h.log.Count("abandoned"))
			testkit.Pass(2 * time.Hour)
			assert.Equal(t, "0-0", h.position(0))
		})
	})
	t.Run("nor with PersistEach", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0)
			h.config.PersistEach = true
			h.add(0, 1, 3)
			h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
				time.Sleep(time.Hour)
				return stream.Verdict{}
			}
			h.run()
			h.stop()
			testkit.Pass(2 * time.Hour)
			assert.Equal(t, "0-0", h.position(0))
		})
	})
	t.Run("an idle one stops within a read", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0, 1, 2, 3)
			h.config.Block = time.Minute
			h.run()
			testkit.Pass(1500 * time.Millisecond)
			assert.LessOrEqual(t, h.stop(), time.Second, "although Block is longer")
		})
	})
	t.Run("a store that hangs is abandoned", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0)
			hang := &hangingStore{release: make(chan struct{})}
			h.config.Store = hang
			h.add(0, 1, 1)
			h.run()
			testkit.Pass(500 * time.Millisecond)
			assert.LessOrEqual(t, h.stop(), 11*time.Second)
			assert.Equal(t, 1, h.log.Count("last positions not written"))
			close(hang.release)
			testkit.Pass(time.Minute)
		})
	})
}

type hangingStore struct {
	positiontest.Memory
	release chan struct{}
}

func (s *hangingStore) Save(ctx context.Context, writes []position.Write) ([]*position.Reset, error) {
	<-s.release // even when the context is cancelled
	return s.Memory.Save(ctx, writes)
}

func TestALoopWithoutPartitionsWaitsToBeStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t)
		h.run()
		testkit.Pass(time.Hour)
		assert.Zero(t, h.stop())
	})
}

func TestStatusShowsNoErrorCausedByStopping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.PersistEach = true
		h.config.Store = slowStore{h.store, 300 * time.Millisecond, true}
		h.add(0, 1, 1)
		h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			time.Sleep(3 * time.Second)
			return stream.Verdict{}
		}
		h.run()
		h.stop()
		assert.Equal(t, "1-0", h.position(0))
		_, _, failing := h.loop.Status()
		require.NoError(t, failing)
		assert.Nil(t, h.status(0).Blocked)
	})
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.Store = slowStore{h.store, 300 * time.Millisecond, true}
		h.run()
		testkit.Pass(1200 * time.Millisecond) // during a commit
		h.stop()
		_, _, failing := h.loop.Status()
		require.NoError(t, failing)
	})
}

func TestC9AGapBeingReportedWhenTheRunEndsIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		report := h.config.OnGap
		h.config.OnGap = func(ctx context.Context, p int, gap stream.Gap) {
			report(ctx, p, gap)
			time.Sleep(500 * time.Millisecond) // an alert by HTTP
		}
		h.add(0, 1, 3)
		h.run()
		testkit.Pass(10 * time.Second)
		h.stop()
		h.add(0, 4, 10)
		h.source.Trim(0, 2)
		h.run()
		testkit.Pass(100 * time.Millisecond)
		h.restart()
		assert.Len(t, h.reportedGaps(), 1)
		h.stop()
	})
}
