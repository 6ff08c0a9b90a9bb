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

func TestC1ThePositionMovesOnlyPastWhatIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 4)
		release := make(chan struct{})
		h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			<-release
			return stream.Verdict{}
		}
		h.run()
		testkit.Pass(5 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3"}, h.deliveries())
		assert.Equal(t, "0-0", h.position(0), "read and not processed")

		release <- struct{}{}
		testkit.Pass(5 * time.Second)
		assert.Equal(t, "3-0", h.position(0))
		release <- struct{}{}
		testkit.Pass(5 * time.Second)
		assert.Equal(t, "4-0", h.position(0))
		h.stop()
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m4"}, h.deliveries())
	})
}

func TestC2AHoldWaitsOneSecondDoublingToThirtyWithoutEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 3)
		h.hold(true)
		h.run()
		testkit.Pass(time.Hour)
		times := h.times()
		assert.Equal(t, []float64{0, 1, 3, 7, 15, 31, 61, 91, 121}, times[:9])
		for i := 8; i < len(times); i++ {
			assert.InDelta(t, 30, times[i]-times[i-1], 1e-9, "the wait neither grows nor ends")
		}
		assert.Len(t, times, 6+(3600-31)/30)
		assert.Equal(t, "0-0", h.position(0))
		assert.Less(t, h.stop(), 1100*time.Millisecond, "it does not sleep on")
	})
}

func TestC2OnlyWhatRemainsIsRedelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 4)
		h.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if len(h.deliveries()) < 3 {
				return hold(entries[1:])
			}
			return stream.Verdict{}
		}
		h.run()
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m2 m3", "0: m3", "0: m4"}, h.deliveries())
		assert.Equal(t, "4-0", h.position(0))
		h.stop()
	})
}

func TestC2TheBackoffStartsOverWithEachHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.BatchSize = 1
		h.add(0, 1, 2)
		failures := map[string]int{"m1": 4, "m2": 2}
		h.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if body := bodies(entries); failures[body] > 0 {
				failures[body]--
				return hold(entries)
			}
			return stream.Verdict{}
		}
		h.run()
		testkit.Pass(time.Minute)
		assert.Equal(t, []float64{0, 1, 3, 7, 15, 15, 16, 18}, h.times())
		h.stop()
	})
}

func TestS12ARetryAfterRaisesTheWaitUpToThirtySeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 1)
		retryAfter := []time.Duration{20 * time.Second, time.Hour, time.Millisecond}
		h.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if len(retryAfter) == 0 {
				return stream.Verdict{}
			}
			verdict := hold(entries)
			verdict.RetryAfter, retryAfter = retryAfter[0], retryAfter[1:]
			return verdict
		}
		h.run()
		testkit.Pass(2 * time.Minute)
		assert.Equal(t, []float64{0, 20, 50, 54}, h.times())
		h.stop()
	})
}

func TestC3AHeldPartitionDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0, 1, 2)
		h.add(0, 1, 50)
		h.deliver = func(ctx context.Context, partition int, entries []wire.Entry) stream.Verdict {
			switch partition {
			case 0:
				return hold(entries)
			case 1:
				<-ctx.Done() // slow
			}
			return stream.Verdict{}
		}
		h.run()
		h.source.Add(1, "slow")
		testkit.Pass(20 * time.Second)
		before := time.Now()
		id := h.source.Add(2, "x")
		synctest.Wait()
		assert.Zero(t, time.Since(before), "delivered at once")
		testkit.Pass(time.Second)
		assert.Equal(t, id.String(), h.position(2))
		assert.Equal(t, stream.StateBlocked, h.status(0).State)
		assert.Equal(t, stream.StateRunning, h.status(1).State)
		assert.Equal(t, stream.StateIdle, h.status(2).State)
		h.stop()
	})
}

func TestC4SkipStopAndFail(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	t.Run("skip advances and counts", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0)
			h.add(0, 1, 4)
			h.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
				if len(entries) == 3 {
					return stream.Verdict{Policy: stream.ErrorSkip, Remaining: entries, Err: boom}
				}
				return stream.Verdict{}
			}
			h.run()
			testkit.Pass(2 * time.Second)
			assert.Equal(t, []string{"0: m1 m2 m3", "0: m4"}, h.deliveries())
			assert.Equal(t, "4-0", h.position(0))
			assert.Equal(t, int64(3), h.status(0).Skipped)
			assert.Equal(t, 1, h.log.Count("batch skipped"))
			h.stop()
		})
	})
	t.Run("skip does not advance while stopping", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0)
			h.add(0, 1, 1)
			h.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
				time.Sleep(5 * time.Second)
				return stream.Verdict{Policy: stream.ErrorSkip, Remaining: entries, Err: boom}
			}
			h.run()
			assert.Equal(t, 5*time.Second, h.stop())
			assert.Equal(t, "0-0", h.position(0))
		})
	})
	t.Run("stop keeps the position and the others continue", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0, 1)
			h.add(0, 1, 1)
			h.deliver = func(_ context.Context, partition int, _ []wire.Entry) stream.Verdict {
				if partition == 0 {
					return stream.Verdict{Policy: stream.ErrorStop, Err: boom}
				}
				return stream.Verdict{}
			}
			h.run()
			h.add(0, 2, 9)
			h.add(1, 1, 1)
			testkit.Pass(time.Minute)
			assert.Equal(t, []string{"0: m1", "1: m1"}, h.deliveries())
			assert.Equal(t, "0-0", h.position(0))
			assert.Equal(t, "1-0", h.position(1))
			assert.Equal(t, stream.StateStopped, h.status(0).State)
			require.ErrorIs(t, h.status(0).Err, boom)
			h.stop()
		})
	})
	t.Run("fail ends the run with its error and drains the others", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0, 1)
			h.add(0, 1, 1)
			h.add(1, 1, 1)
			h.deliver = func(_ context.Context, partition int, _ []wire.Entry) stream.Verdict {
				if partition == 0 {
					time.Sleep(time.Second)
					return stream.Verdict{Policy: stream.ErrorFail, Err: boom}
				}
				time.Sleep(3 * time.Second)
				return stream.Verdict{}
			}
			h.run()
			require.ErrorIs(t, <-h.result, boom)
			assert.Equal(t, "0-0", h.position(0))
			assert.Equal(t, "1-0", h.position(1), "the batch being delivered was finished and committed")
			h.cancel()
		})
	})
	t.Run("a handler that ends its goroutine ends the run", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0)
			h.add(0, 1, 1)
			h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
				runtime.Goexit()
				return stream.Verdict{}
			}
			h.run()
			require.ErrorIs(t, <-h.result, stream.ErrGoexit)
			assert.Equal(t, "0-0", h.position(0))
			h.cancel()
		})
	})
}

func TestABatchHasTheDetailOfItsOwnHoldOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 4) // a batch of three and one of one
		details := []any{"first", "second", nil, "of the other batch", nil}
		h.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			verdict := hold(entries)
			if verdict.Detail = details[len(h.deliveries())-1]; verdict.Detail == nil {
				return stream.Verdict{}
			}
			return verdict
		}
		h.run()
		testkit.Pass(time.Minute)
		previous := []any{}
		for _, batch := range h.batches {
			previous = append(previous, batch.Previous)
		}
		assert.Equal(t, []any{nil, "first", "second", nil, "of the other batch"}, previous)
		h.stop()
	})
}

func TestAResetClearsTheDetailOfAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 1)
		h.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			verdict := hold(entries)
			verdict.Detail = "held"
			return verdict
		}
		h.run()
		testkit.Pass(1500 * time.Millisecond)
		require.Len(t, h.deliveries(), 2)
		h.store.RequestReset(0, "0-0|")
		for len(h.deliveries()) < 3 {
			testkit.Pass(100 * time.Millisecond)
		}
		assert.Nil(t, h.batches[2].Previous)
		h.stop()
	})
}

func TestABatchKnowsThatTheRunIsStopping(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 1)
		release := make(chan struct{})
		h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			<-release
			return stream.Verdict{}
		}
		h.run()
		testkit.Pass(time.Second)
		assert.False(t, h.batches[0].Stopping())
		h.cancel()
		synctest.Wait()
		assert.True(t, h.batches[0].Stopping(), "long before the batch has to end")
		close(release)
		require.NoError(t, <-h.result)
	})
}

func TestParkingIsCountedAndResetsTheBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 3)
		h.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			verdict := hold(entries)
			switch len(h.deliveries()) {
			case 4:
				verdict.Parked, verdict.Remaining = 1, entries[1:]
			case 6:
				return stream.Verdict{Parked: 2}
			}
			return verdict
		}
		h.run()
		testkit.Pass(time.Minute)
		assert.Equal(t, []float64{0, 1, 3, 7, 8, 10}, h.times())
		assert.Equal(t, int64(3), h.status(0).Parked)
		assert.Equal(t, "3-0", h.position(0))
		h.stop()
	})
}

func TestTheObserverCountsEachEventOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			switch attempt := len(h.deliveries()); attempt {
			case 1, 2:
				return stream.Verdict{Policy: stream.ErrorHold, Skipped: 2 - attempt, Remaining: []wire.Entry{{}}, Err: errors.New("held")}
			case 4:
				return stream.Verdict{Policy: stream.ErrorSkip, Remaining: []wire.Entry{{}}, Err: errors.New("skipped")}
			default:
				return stream.Verdict{}
			}
		}
		h.run()
		h.add(0, 1, 3)
		testkit.Pass(10 * time.Second)
		h.add(0, 4, 4)
		testkit.Pass(time.Second)
		h.source.Fail(0, errors.New("down"))
		testkit.Pass(10 * time.Second)
		h.source.Fail(0, nil)
		testkit.Pass(40 * time.Second)
		h.store.fail(errors.New("read-only"))
		h.add(0, 5, 5)
		testkit.Pass(1500 * time.Millisecond)
		h.store.fail(nil)
		testkit.Pass(5 * time.Second)
		h.stop()
		assert.Equal(t, []string{
			"0: failed, policy 0", "0: failed, policy 0", "0: processed 3 of 3, but for {1 0 0}",
			"0: failed, policy 1", "0: processed 1 of 1, but for {0 1 0}",
			"0: read failed", "0: processed 1 of 1, but for {0 0 0}", "commit failed",
		}, h.observer.events)
		assert.Greater(t, h.observer.reads, 50, "idle reads count: they are the heartbeat")
	})
}
