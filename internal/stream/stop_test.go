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

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestC4SkipStopAndFail(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	t.Run("skip advances and counts", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			r.add(0, 1, 4)
			r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
				if len(entries) == 3 {
					return stream.Verdict{Action: stream.Skip, Remaining: entries, Err: boom}
				}
				return stream.Verdict{}
			}
			r.run()
			pass(2 * time.Second)
			assert.Equal(t, []string{"0: m1 m2 m3", "0: m4"}, r.deliveries())
			assert.Equal(t, "4-0", r.position(0))
			assert.Equal(t, int64(3), r.status(0).Skipped)
			assert.Equal(t, 1, r.log.count("batch skipped"))
			_, _ = r.stop()
		})
	})
	t.Run("skip does not advance while stopping", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			r.add(0, 1, 1)
			r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
				time.Sleep(5 * time.Second)
				return stream.Verdict{Action: stream.Skip, Remaining: entries, Err: boom}
			}
			r.run()
			took, err := r.stop()
			require.NoError(t, err)
			assert.Equal(t, 5*time.Second, took)
			assert.Equal(t, "0-0", r.position(0))
		})
	})
	t.Run("stop keeps the position and the others go on", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0, 1)
			r.add(0, 1, 1)
			r.deliver = func(_ context.Context, partition int, _ []wire.Entry) stream.Verdict {
				if partition == 0 {
					return stream.Verdict{Action: stream.Stop, Err: boom}
				}
				return stream.Verdict{}
			}
			r.run()
			r.add(0, 2, 9)
			r.add(1, 1, 1)
			pass(time.Minute)
			assert.Equal(t, []string{"0: m1", "1: m1"}, r.deliveries())
			assert.Equal(t, "0-0", r.position(0))
			assert.Equal(t, "1-0", r.position(1))
			assert.Equal(t, stream.Stopped, r.status(0).State)
			require.ErrorIs(t, r.status(0).Err, boom)
			_, err := r.stop()
			require.NoError(t, err)
		})
	})
	t.Run("fail ends the run with its error and drains the others", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0, 1)
			r.add(0, 1, 1)
			r.add(1, 1, 1)
			r.deliver = func(_ context.Context, partition int, _ []wire.Entry) stream.Verdict {
				if partition == 0 {
					time.Sleep(time.Second)
					return stream.Verdict{Action: stream.Fail, Err: boom}
				}
				time.Sleep(3 * time.Second)
				return stream.Verdict{}
			}
			r.run()
			require.ErrorIs(t, <-r.result, boom)
			assert.Equal(t, "0-0", r.position(0))
			assert.Equal(t, "1-0", r.position(1), "what was in hand was finished and written")
			r.cancel()
		})
	})
	t.Run("a handler that ends its goroutine ends the run", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			r.add(0, 1, 1)
			r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
				runtime.Goexit()
				return stream.Verdict{}
			}
			r.run()
			require.ErrorIs(t, <-r.result, stream.ErrGoexit)
			assert.Equal(t, "0-0", r.position(0))
			r.cancel()
		})
	})
}

func TestC6TheBatchInHandGetsTheDrainTimeout(t *testing.T) {
	t.Parallel()
	t.Run("it finishes in time and its position is written", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			r.add(0, 1, 9)
			r.deliver = func(ctx context.Context, _ int, _ []wire.Entry) stream.Verdict {
				time.Sleep(9 * time.Second)
				assert.NoError(t, ctx.Err())
				return stream.Verdict{}
			}
			r.run()
			pass(4 * time.Second)
			took, err := r.stop()
			require.NoError(t, err)
			assert.Equal(t, 5*time.Second, took)
			assert.Equal(t, []string{"0: m1 m2 m3"}, r.deliveries(), "what was read ahead is not begun")
			assert.Equal(t, "3-0", r.position(0))
		})
	})
	t.Run("it is cancelled after that", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			r.add(0, 1, 3)
			r.deliver = func(ctx context.Context, _ int, entries []wire.Entry) stream.Verdict {
				<-ctx.Done()
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: ctx.Err()}
			}
			r.run()
			took, err := r.stop()
			require.NoError(t, err)
			assert.Equal(t, 10*time.Second, took)
			assert.Equal(t, "0-0", r.position(0))
		})
	})
	t.Run("a handler that heeds nothing is left behind and moves no position", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			r.add(0, 1, 3)
			r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
				time.Sleep(time.Hour)
				return stream.Verdict{}
			}
			r.run()
			took, err := r.stop()
			require.NoError(t, err)
			assert.LessOrEqual(t, took, 11*time.Second)
			assert.Equal(t, 1, r.log.count("left behind"))
			pass(2 * time.Hour)
			assert.Equal(t, "0-0", r.position(0))
		})
	})
	t.Run("nor when each batch is written", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			r.config.PersistEach = true
			r.add(0, 1, 3)
			r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
				time.Sleep(time.Hour)
				return stream.Verdict{}
			}
			r.run()
			_, err := r.stop()
			require.NoError(t, err)
			pass(2 * time.Hour)
			assert.Equal(t, "0-0", r.position(0))
		})
	})
	t.Run("an idle one stops within a read", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0, 1, 2, 3)
			r.config.Block = time.Minute
			r.run()
			pass(1500 * time.Millisecond)
			took, err := r.stop()
			require.NoError(t, err)
			assert.LessOrEqual(t, took, time.Second, "although Block is longer")
		})
	})
	t.Run("a store that hangs is given up", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			hang := &hangingStore{release: make(chan struct{})}
			r.config.Store = hang
			r.add(0, 1, 1)
			r.run()
			pass(500 * time.Millisecond)
			took, err := r.stop()
			require.NoError(t, err)
			assert.LessOrEqual(t, took, 11*time.Second)
			assert.Equal(t, 1, r.log.count("last positions not written"))
			close(hang.release)
			pass(time.Minute)
		})
	})
}

type hangingStore struct {
	position.Memory
	release chan struct{}
}

func (s *hangingStore) Save(ctx context.Context, writes []position.Write) ([]*position.Reset, error) {
	<-s.release // and not the context
	return s.Memory.Save(ctx, writes)
}

func TestAGroupWithoutPartitionsWaitsToBeStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run()
		pass(time.Hour)
		took, err := r.stop()
		require.NoError(t, err)
		assert.Zero(t, took)
	})
}

func TestStatusShowsNoTroubleThatStoppingMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.PersistEach = true
		r.config.Store = heeding{r.store}
		r.add(0, 1, 1)
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			time.Sleep(3 * time.Second)
			return stream.Verdict{}
		}
		r.run()
		_, err := r.stop()
		require.NoError(t, err)
		assert.Equal(t, "1-0", r.position(0))
		_, _, failing := r.group.Status()
		require.NoError(t, failing)
		assert.Nil(t, r.status(0).Blocked)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.Store = heeding{r.store}
		r.run()
		pass(1200 * time.Millisecond) // in the middle of a look for resets
		_, err := r.stop()
		require.NoError(t, err)
		_, _, failing := r.group.Status()
		require.NoError(t, failing)
	})
}

// heeding is a store that takes its time and heeds the context, as a client does.
type heeding struct{ *store }

func (h heeding) Save(ctx context.Context, writes []position.Write) ([]*position.Reset, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(300 * time.Millisecond):
		return h.store.Save(ctx, writes)
	}
}
