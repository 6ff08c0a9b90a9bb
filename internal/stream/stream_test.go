package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a group with everything around it in memory. It is made inside a synctest bubble.
type rig struct {
	t       *testing.T
	source  *streamtest.Source
	store   *store
	deliver func(ctx context.Context, partition int, entries []wire.Entry) stream.Verdict
	config  stream.Config
	group   *stream.Group
	cancel  context.CancelFunc
	result  chan error
	log     *syncBuffer

	mu     sync.Mutex
	handed []string // "partition: first..last", in order
	at     []time.Time
	began  time.Time
}

func newRig(t *testing.T, partitions ...int) *rig {
	t.Helper()
	r := &rig{t: t, source: &streamtest.Source{}, store: &store{}, began: time.Now(), log: &syncBuffer{}}
	r.config = stream.Config{
		Name:       func(partition int) string { return fmt.Sprint("s:", partition) },
		Partitions: partitions, Source: r.source, Store: r.store,
		Deliver: func(ctx context.Context, partition int, entries []wire.Entry) stream.Verdict {
			r.mu.Lock()
			r.handed = append(r.handed, fmt.Sprintf("%d: %s", partition, bodies(entries)))
			r.at = append(r.at, time.Now())
			r.mu.Unlock()
			if r.deliver == nil {
				return stream.Verdict{}
			}
			return r.deliver(ctx, partition, entries)
		},
		Start:     func(_ context.Context, _ int, stored position.Stored, _ bool) (wire.ID, error) { return stored.ID, nil },
		Logger:    slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
		BatchSize: 3, Block: time.Second, ReadAhead: 2, PersistInterval: time.Second, DrainTimeout: 10 * time.Second,
		HoldMin: time.Second, HoldMax: 30 * time.Second,
	}
	return r
}

func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.group = stream.NewGroup(r.config)
	r.result = make(chan error, 1)
	go func() { r.result <- r.group.Run(ctx) }()
	synctest.Wait()
}

// pass lets time go by, and everything happen that happens until then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// stop cancels and returns what Run returned, and how long that took.
func (r *rig) stop() (time.Duration, error) {
	r.t.Helper()
	began := time.Now()
	r.cancel()
	err := <-r.result
	return time.Since(began), err
}

// deliveries are what was handed over so far.
func (r *rig) deliveries() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.handed...)
}

// times are when that was, in seconds since the test began.
func (r *rig) times() []float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	times := make([]float64, len(r.at))
	for i, at := range r.at {
		times[i] = at.Sub(r.began).Seconds()
	}
	return times
}

func (r *rig) position(partition int) string {
	stored, err := r.store.Load(context.Background(), []int{partition})
	require.NoError(r.t, err)
	return stored[0].ID.String()
}

func (r *rig) status(partition int) stream.Status {
	r.t.Helper()
	statuses, _, _ := r.group.Status()
	for _, status := range statuses {
		if status.Partition == partition {
			return status
		}
	}
	r.t.Fatalf("no partition %d", partition)
	return stream.Status{}
}

// store is a position store that can fail, and that knows every position it was ever at.
type store struct {
	position.Memory
	mu    sync.Mutex
	err   error
	saves int
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *store) Save(ctx context.Context, writes []position.Write) ([]*position.Reset, error) {
	s.mu.Lock()
	err := s.err
	s.saves++
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Memory.Save(ctx, writes)
}

func (s *store) Load(ctx context.Context, partitions []int) ([]position.Stored, error) {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Memory.Load(ctx, partitions)
}

type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *syncBuffer) count(text string) int { return strings.Count(b.String(), text) }

func withoutTime(_ []string, attr slog.Attr) slog.Attr {
	if attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}

func bodies(entries []wire.Entry) string {
	texts := make([]string, len(entries))
	for i, entry := range entries {
		texts[i] = entry.Body
	}
	return strings.Join(texts, " ")
}

func (r *rig) add(partition int, from, to int) {
	for n := from; n <= to; n++ {
		r.source.Add(partition, fmt.Sprintf("m%d", n))
	}
}

func TestC1ThePositionMovesOnlyPastWhatIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 4)
		release := make(chan struct{})
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			<-release
			return stream.Verdict{}
		}
		r.run()
		pass(5 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3"}, r.deliveries())
		assert.Equal(t, "0-0", r.position(0), "read, and not done")

		release <- struct{}{}
		pass(5 * time.Second)
		assert.Equal(t, "3-0", r.position(0))
		release <- struct{}{}
		pass(5 * time.Second)
		assert.Equal(t, "4-0", r.position(0))
		_, err := r.stop()
		require.NoError(t, err)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m4"}, r.deliveries())
	})
}

func TestC2AHoldWaitsOneSecondDoublingToThirtyForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 3)
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			return stream.Verdict{Action: stream.Hold, Remaining: entries, Cause: "starts", Err: errors.New("down")}
		}
		r.run()
		pass(time.Hour)
		times := r.times()
		assert.Equal(t, []float64{0, 1, 3, 7, 15, 31, 61, 91, 121}, times[:9])
		for i := 8; i < len(times); i++ {
			assert.InDelta(t, 30, times[i]-times[i-1], 1e-9, "the wait neither grows nor ends")
		}
		assert.Len(t, times, 6+(3600-31)/30)
		assert.Equal(t, "0-0", r.position(0))
		took, _ := r.stop()
		assert.Less(t, took, 1100*time.Millisecond, "a sleep is no reason to stay")
	})
}

func TestC2OnlyWhatRemainsIsHandedOverAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 4)
		calls := 0
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			calls++
			switch calls {
			case 1:
				return stream.Verdict{Action: stream.Hold, Remaining: entries[1:], Err: errors.New("two failed")}
			case 2:
				return stream.Verdict{Action: stream.Hold, Remaining: entries[1:], Err: errors.New("one failed")}
			default:
				return stream.Verdict{}
			}
		}
		r.run()
		pass(10 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m2 m3", "0: m3", "0: m4"}, r.deliveries())
		assert.Equal(t, "4-0", r.position(0))
		_, _ = r.stop()
	})
}

func TestC2ALadderBeginsAnewWithEachHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.BatchSize = 1
		r.add(0, 1, 2)
		failures := map[string]int{"m1": 4, "m2": 2}
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if body := bodies(entries); failures[body] > 0 {
				failures[body]--
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			}
			return stream.Verdict{}
		}
		r.run()
		pass(time.Minute)
		assert.Equal(t, []float64{0, 1, 3, 7, 15, 15, 16, 18}, r.times())
		_, _ = r.stop()
	})
}

func TestS12ARetryAfterRaisesTheWaitUpToThirtySeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 1)
		asked := []time.Duration{20 * time.Second, time.Hour, time.Millisecond}
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if len(asked) == 0 {
				return stream.Verdict{}
			}
			wait := asked[0]
			asked = asked[1:]
			return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("busy"), RetryAfter: wait}
		}
		r.run()
		pass(2 * time.Minute)
		assert.Equal(t, []float64{0, 20, 50, 54}, r.times())
		_, _ = r.stop()
	})
}

func TestC3AHeldPartitionDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, 1, 2)
		r.add(0, 1, 50)
		r.deliver = func(ctx context.Context, partition int, entries []wire.Entry) stream.Verdict {
			switch partition {
			case 0:
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			case 1:
				<-ctx.Done() // slow
			}
			return stream.Verdict{}
		}
		r.run()
		r.source.Add(1, "slow")
		pass(20 * time.Second)
		before := time.Now()
		id := r.source.Add(2, "x")
		synctest.Wait()
		assert.Zero(t, time.Since(before), "handed over at once")
		pass(time.Second)
		assert.Equal(t, id.String(), r.position(2))
		assert.Equal(t, stream.Holding, r.status(0).State)
		assert.Equal(t, stream.Running, r.status(1).State)
		assert.Equal(t, stream.Idle, r.status(2).State)
		_, _ = r.stop()
	})
}

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

func TestC7ReadErrorsAreSurvivedWithTheLadderAndLoggedSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, 1)
		r.run()
		r.source.Fail(0, errors.New("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"))
		before := r.source.Reads(0)
		pass(10*time.Minute - time.Millisecond)
		assert.InDelta(t, 6+(600-31)/30, r.source.Reads(0)-before, 2)
		assert.InDelta(t, 20, r.log.count("redis read failing"), 1, "one line in 30 s")
		status := r.status(0)
		assert.Equal(t, stream.Holding, status.State)
		assert.Equal(t, stream.CauseRead, status.Blocked.Cause)
		require.ErrorContains(t, status.Blocked.Err, "UNBLOCKED")
		assert.InDelta(t, 600, time.Since(status.Blocked.Since).Seconds(), 2)
		assert.Equal(t, stream.Idle, r.status(1).State)

		r.source.Fail(0, nil)
		r.source.Add(0, "back")
		pass(30 * time.Second)
		assert.Equal(t, []string{"0: back"}, r.deliveries())
		assert.Equal(t, 1, r.log.count("redis read recovered"))
		assert.Equal(t, stream.Idle, r.status(0).State)
		_, _ = r.stop()
	})
}

func TestC7AFlappingServerIsLoggedSeldomToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.run()
		for range 60 {
			r.source.Fail(0, io.ErrUnexpectedEOF)
			r.store.fail(io.ErrUnexpectedEOF)
			pass(5 * time.Second)
			r.source.Fail(0, nil)
			r.store.fail(nil)
			pass(5 * time.Second)
		}
		assert.InDelta(t, 20, r.log.count("redis read failing"), 1)
		assert.InDelta(t, 20, r.log.count("redis read recovered"), 1)
		assert.InDelta(t, 20, r.log.count("position write failing"), 1)
		assert.InDelta(t, 20, r.log.count("position write recovered"), 1)
		_, _ = r.stop()
	})
}

func TestC7IdleReadsAreNoErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.Block = 200 * time.Millisecond
		r.run()
		pass(10 * time.Minute)
		assert.Equal(t, stream.Idle, r.status(0).State)
		assert.Nil(t, r.status(0).Blocked)
		assert.Equal(t, 1, strings.Count(r.log.String(), "\n"), "that the stream does not exist yet, once:\n"+r.log.String())
		before := time.Now()
		r.source.Add(0, "x")
		synctest.Wait()
		assert.Equal(t, []string{"0: x"}, r.deliveries())
		assert.Zero(t, time.Since(before))
		_, _ = r.stop()
	})
}

func TestC7ARunThatBeginsDuringAnOutageWaitsItOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 2)
		r.store.fail(io.ErrUnexpectedEOF)
		r.run()
		pass(5 * time.Minute)
		assert.Empty(t, r.deliveries(), "it does not begin anywhere else because the position cannot be read")
		assert.Equal(t, stream.Holding, r.status(0).State)
		r.store.fail(nil)
		pass(31 * time.Second)
		assert.Equal(t, []string{"0: m1 m2"}, r.deliveries())
		_, _ = r.stop()

		again := newRig(t, 0)
		again.store.fail(io.ErrUnexpectedEOF)
		again.run()
		pass(time.Minute)
		took, err := again.stop()
		require.NoError(t, err)
		assert.Zero(t, took)
	})
}

func TestAFailedPositionWriteIsRetriedAndVisible(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.run()
		r.store.fail(errors.New("READONLY You can't write against a read only replica."))
		r.add(0, 1, 2)
		pass(5 * time.Minute)
		assert.Equal(t, []string{"0: m1", "0: m2"}, splitDeliveries(r.deliveries()), "processing goes on")
		assert.Equal(t, "2-0", r.status(0).Position.String())
		_, since, failing := statusOf(r)
		require.ErrorContains(t, failing, "READONLY")
		assert.InDelta(t, 299, time.Since(since).Seconds(), 2)
		assert.InDelta(t, 10, r.log.count("position write failing"), 1)

		r.store.fail(nil)
		pass(31 * time.Second)
		assert.Equal(t, "2-0", r.position(0))
		_, _, failing = statusOf(r)
		require.NoError(t, failing)
		assert.Equal(t, 1, r.log.count("position write recovered"))
		_, _ = r.stop()
	})
}

func statusOf(r *rig) ([]stream.Status, time.Time, error) { return r.group.Status() }

// splitDeliveries takes batches apart: how messages fall into batches is not what every test is about.
func splitDeliveries(deliveries []string) []string {
	var single []string
	for _, delivery := range deliveries {
		partition, list, _ := strings.Cut(delivery, ": ")
		for body := range strings.FieldsSeq(list) {
			single = append(single, partition+": "+body)
		}
	}
	return single
}

func TestPersistEachBatchWritesBeforeTheNextBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.PersistEach = true
		r.config.PersistInterval = time.Hour
		r.add(0, 1, 6)
		var seen []string
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			seen = append(seen, r.position(0))
			if len(seen) == 2 {
				r.store.fail(errors.New("LOADING Redis is loading the dataset in memory"))
			}
			return stream.Verdict{}
		}
		r.run()
		r.add(0, 7, 9)
		pass(10 * time.Second)
		assert.Equal(t, []string{"0-0", "3-0"}, seen, "the third waits for the second's position")
		assert.Equal(t, stream.CausePositions, r.status(0).Blocked.Cause)
		r.store.fail(nil)
		pass(10 * time.Second)
		assert.Equal(t, []string{"0-0", "3-0", "6-0"}, seen)
		assert.Nil(t, r.status(0).Blocked)
		_, _ = r.stop()
	})
}

func TestC8FilteredEntriesAdvanceThePosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.Source = filtering{r.source}
		r.add(0, 1, 7)
		r.run()
		pass(2 * time.Second)
		assert.Equal(t, []string{"0: m2", "0: m4 m6"}, r.deliveries(), "and a page with nothing wanted is not handed over")
		assert.Equal(t, "7-0", r.position(0))
		assert.Equal(t, int64(7), r.status(0).Passed)
		assert.Equal(t, int64(3), r.status(0).Handed)
		assert.Zero(t, r.log.count("no message is of a type"))
		_, _ = r.stop()
	})
}

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

// filtering wants only entries with even ids.
type filtering struct{ *streamtest.Source }

func (f filtering) Read(ctx context.Context, partition int, after wire.ID, count int, block time.Duration) (stream.Page, error) {
	page, err := f.Source.Read(ctx, partition, after, count, block)
	var wanted []wire.Entry
	for _, entry := range page.Entries {
		if entry.ID.Ms%2 == 0 {
			wanted = append(wanted, entry)
		}
	}
	page.Entries = wanted
	return page, err
}

func TestC10NoMoreThanReadAheadBatchesAreInMemory(t *testing.T) {
	t.Parallel()
	for readAhead := 1; readAhead <= 4; readAhead++ {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			r.config.ReadAhead = readAhead
			r.add(0, 1, 100)
			r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			}
			r.run()
			pass(time.Hour)
			assert.Equal(t, readAhead, r.source.Reads(0))
			_, _ = r.stop()
		})
	}
}

func TestResetsAreHonouredWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 6)
		r.run()
		pass(5 * time.Second)
		require.Equal(t, "6-0", r.position(0))
		r.store.RequestReset(0, "2-0|2026-09-06T11:22:33.4440000+00:00")
		pass(5 * time.Second)
		assert.Equal(t, []string{"0: m1", "0: m2", "0: m3", "0: m4", "0: m5", "0: m6", "0: m3", "0: m4", "0: m5", "0: m6"}, splitDeliveries(r.deliveries()))
		assert.Equal(t, "6-0", r.position(0))
		r.store.RequestReset(0, "5-0|forward and back are the same")
		pass(5 * time.Second)
		assert.Len(t, splitDeliveries(r.deliveries()), 11)
		_, _ = r.stop()
	})
}

func TestAResetEndsAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.BatchSize = 1
		r.add(0, 1, 4)
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if bodies(entries) == "m2" {
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("never")}
			}
			return stream.Verdict{}
		}
		r.run()
		pass(100 * time.Second)
		require.Equal(t, "1-0", r.position(0))
		r.store.RequestReset(0, "2-0")
		pass(3 * time.Second)
		assert.Equal(t, "4-0", r.position(0), "the operator stepped over it")
		assert.Equal(t, stream.Idle, r.status(0).State)
		_, _ = r.stop()
	})
}

// What was in hand when the reset came is not recorded after it, and what was read ahead is not handed over.
func TestAResetIsNotOverrunByWhatWasInHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 9)
		first := true
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			if first {
				first = false
				time.Sleep(10 * time.Second)
			}
			return stream.Verdict{}
		}
		r.run()
		r.store.RequestReset(0, "7-0")
		pass(9 * time.Second)
		assert.Equal(t, "0-0", r.position(0))
		pass(5 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m8 m9"}, r.deliveries())
		assert.Equal(t, "9-0", r.position(0))
		_, _ = r.stop()
	})
}

func TestAResetBackwardsIsNotOverrunByWhatWasInHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 9)
		done := 0
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			switch done++; {
			case done < 3:
				return stream.Verdict{}
			case done == 3:
				time.Sleep(10 * time.Second)
				return stream.Verdict{}
			default:
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			}
		}
		r.run()
		pass(2 * time.Second)
		require.Equal(t, "6-0", r.position(0))
		r.store.RequestReset(0, "1-0")
		pass(30 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m4 m5 m6", "0: m7 m8 m9", "0: m2 m3 m4"}, r.deliveries()[:4])
		assert.Equal(t, "1-0", r.position(0))
		_, _ = r.stop()
		assert.Equal(t, "1-0", r.position(0))
	})
}

// A position that was recorded and not yet written when the reset came is forgotten.
func TestAResetIsNotOverrunByWhatWasRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 6)
		var hold atomic.Bool
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if hold.Load() {
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			}
			return stream.Verdict{}
		}
		r.run()
		pass(500 * time.Millisecond)
		require.Equal(t, "6-0", r.status(0).Position.String())
		require.Equal(t, "0-0", r.position(0), "not written yet")
		hold.Store(true)
		r.store.RequestReset(0, "2-0")
		pass(10 * time.Second)
		assert.Equal(t, "2-0", r.position(0))
		_, _ = r.stop()
		assert.Equal(t, "2-0", r.position(0))
	})
}

func TestAResetWaitsForTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		failing := &failingReset{store: r.store, failures: 3}
		r.config.Store = failing
		r.add(0, 1, 3)
		r.run()
		pass(2 * time.Second)
		r.store.RequestReset(0, "1-0")
		pass(20 * time.Second)
		assert.Equal(t, []string{"0: m1", "0: m2", "0: m3", "0: m2", "0: m3"}, splitDeliveries(r.deliveries()))
		assert.Equal(t, "3-0", r.position(0))
		_, _ = r.stop()
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
		r := newRig(t, 0, 1)
		_, err := r.store.Save(t.Context(), []position.Write{{Partition: 0, ID: wire.ID{Ms: 3}}, {Partition: 1, ID: wire.ID{Ms: 3}}})
		require.NoError(t, err)
		r.store.RequestReset(0, "1-0|whenever")
		r.store.RequestReset(7, "1-0|of a partition that is somebody else's")
		r.add(0, 1, 3)
		r.add(1, 1, 3)
		r.run()
		pass(2 * time.Second)
		assert.Equal(t, []string{"0: m2 m3"}, r.deliveries())
		assert.Equal(t, "3-0", r.position(0))
		others, err := r.store.Load(t.Context(), []int{7})
		require.NoError(t, err)
		assert.NotNil(t, others[0].Reset)
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

// A reset that was withdrawn before it was applied moves nothing, and hands nothing over again.
func TestAResetThatWasWithdrawnMovesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 9)
		done := 0
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			if done++; done == 2 {
				time.Sleep(10 * time.Second)
			}
			return stream.Verdict{}
		}
		r.run()
		r.store.RequestReset(0, "7-0")
		pass(5 * time.Second)
		r.store.WithdrawReset(0)
		pass(20 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m4 m5 m6", "0: m7 m8 m9"}, r.deliveries())
		assert.Equal(t, "9-0", r.position(0))
		assert.Equal(t, 1, r.log.count("position reset withdrawn"))
		_, _ = r.stop()
	})
}

// A reset that another one has replaced gives way to it.
func TestAResetThatWasReplacedGivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 9)
		first := true
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			if first {
				first = false
				time.Sleep(10 * time.Second)
			}
			return stream.Verdict{}
		}
		r.run()
		r.store.RequestReset(0, "7-0")
		pass(5 * time.Second)
		applied, err := r.store.ApplyReset(t.Context(), 0, position.Reset{Target: wire.ID{Ms: 7}, Value: "7-0"})
		require.NoError(t, err)
		require.True(t, applied)
		r.store.RequestReset(0, "1-0") // and another one in its place
		pass(20 * time.Second)
		assert.Equal(t, "9-0", r.position(0))
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m2 m3 m4", "0: m5 m6 m7", "0: m8 m9"}, r.deliveries(), "the one in its place counts")
		_, _ = r.stop()
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

// With each batch written, partitions do not wait for each other's writes.
func TestC3PersistEachBatchKeepsPartitionsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		partitions := []int{0, 1, 2, 3, 4, 5, 6, 7}
		r := newRig(t, partitions...)
		r.config.PersistEach, r.config.BatchSize, r.config.PersistInterval = true, 1, time.Hour
		r.config.Store = slow{r.store}
		for _, partition := range partitions {
			r.add(partition, 1, 100)
		}
		r.run()
		pass(4050 * time.Millisecond)
		for _, partition := range partitions {
			assert.Equal(t, "40-0", r.position(partition))
		}
		_, _ = r.stop()
	})
}

// slow is a store that takes its time.
type slow struct{ *store }

func (s slow) Save(ctx context.Context, writes []position.Write) ([]*position.Reset, error) {
	time.Sleep(100 * time.Millisecond)
	return s.store.Save(ctx, writes)
}

// A page that is too large to arrive in the time that a read has is asked for in smaller parts.
func TestAPageThatTimesOutIsAskedForInSmallerParts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.BatchSize = 100
		counts := &counting{Source: r.source, most: 12}
		r.config.Source = counts
		r.add(0, 1, 40)
		r.run()
		pass(2 * time.Minute)
		assert.Equal(t, "40-0", r.position(0))
		assert.Equal(t, []int{100, 50, 25, 12, 24, 12}, counts.asked[:6])
		_, _ = r.stop()
	})
}

type counting struct {
	*streamtest.Source

	most  int
	asked []int
}

func (c *counting) Read(ctx context.Context, partition int, after wire.ID, count int, block time.Duration) (stream.Page, error) {
	c.asked = append(c.asked, count)
	if count > c.most {
		return stream.Page{}, fmt.Errorf("read: %w", os.ErrDeadlineExceeded)
	}
	return c.Source.Read(ctx, partition, after, count, block)
}

// A reset that was applied, and whose answer was lost, is not overrun by what was recorded before it.
func TestAResetWhoseAnswerWasLostIsNotUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.Store = &lostAnswer{store: r.store}
		r.add(0, 1, 6)
		done := 0
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			switch done++; {
			case done == 2:
				time.Sleep(10 * time.Second)
				return stream.Verdict{}
			case done > 2:
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			}
			return stream.Verdict{}
		}
		r.run()
		pass(2 * time.Second)
		r.store.RequestReset(0, "1-0")
		pass(30 * time.Second)
		assert.Equal(t, "1-0", r.position(0))
		assert.Equal(t, "0: m2 m3 m4", r.deliveries()[2])
		_, _ = r.stop()
		assert.Equal(t, "1-0", r.position(0))
	})
}

// lostAnswer applies a first reset and says that it could not.
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
