package restatestart_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/restatetest"
)

// world is a consumer with everything around it in memory, in virtual time.
type world struct {
	t        *testing.T
	source   *streamtest.Source
	store    *position.Memory
	consumer *restatestart.Consumer[claim]
	options  restatestart.ConsumerOptions
	cancel   context.CancelFunc
	result   chan error

	mu         sync.Mutex
	partitions string
	version    string
	metaErr    error
	pool       int
	log        bytes.Buffer
}

func newWorld(t *testing.T, partitions int) *world {
	t.Helper()
	return &world{
		t: t, source: &streamtest.Source{}, store: &position.Memory{}, partitions: fmt.Sprint(partitions), version: "1",
		options: restatestart.ConsumerOptions{Consumer: "payout"},
	}
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

func (w *world) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), text)
}

func (w *world) meta(context.Context) (string, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.partitions, w.version, w.metaErr
}

func (w *world) setMeta(partitions, version string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.partitions, w.version, w.metaErr = partitions, version, err
}

func (w *world) run(handler restatestart.Handler[claim]) {
	w.t.Helper()
	w.options.Logger = w.logger()
	consumer, err := restatestart.NewConsumerOn(restatestart.Backend{Source: w.source, Store: w.store, Meta: w.meta, Pool: w.pool},
		"claims", restatestart.JSON[claim], handler, w.options)
	require.NoError(w.t, err)
	w.consumer = consumer
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.result = make(chan error, 1)
	go func() { w.result <- consumer.Run(ctx) }()
	synctest.Wait()
}

func (w *world) stop() error {
	w.cancel()
	return <-w.result
}

// publish adds a message a key.
func (w *world) publish(partition int, keys ...string) {
	for _, key := range keys {
		body, err := json.Marshal(claim{Key: key})
		require.NoError(w.t, err)
		w.source.Add(partition, string(body))
	}
}

func (w *world) position(partition int) string {
	stored, err := w.store.Load(context.Background(), []int{partition})
	require.NoError(w.t, err)
	return stored[0].ID.String()
}

func (w *world) partition(number int) restatestart.PartitionStatus {
	for _, status := range w.consumer.Status().Partitions {
		if status.Partition == number {
			return status
		}
	}
	w.t.Fatalf("no partition %d in the status", number)
	return restatestart.PartitionStatus{}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// recorder is a handler that keeps the keys of each batch, and fails as it is told.
type recorder struct {
	mu      sync.Mutex
	batches []string
	fail    func(batch []restatestart.Message[claim]) error
}

func (r *recorder) Handle(_ context.Context, batch []restatestart.Message[claim]) error {
	keys := make([]string, len(batch))
	for i, message := range batch {
		keys[i] = message.Value.Key
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, strings.Join(keys, " "))
	if r.fail == nil {
		return nil
	}
	return r.fail(batch)
}

func (r *recorder) handed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.batches...)
}

// B03: past the end of an item's own retries, the position still waits for it.
func TestC1C2AnOutageLongerThanTheRetriesLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		starter := starterOn(t, fake, nil, restatestart.Options{})
		w.options.BatchSize = 2
		w.publish(0, keysOf(6)...)
		fake.Script("k3", restatetest.Status(503).Always())
		w.run(starter)
		pass(time.Minute)
		assert.Equal(t, "2-0", w.position(0))
		blocked := w.partition(0).Blocked
		require.NotNil(t, blocked)
		assert.Equal(t, "starts", blocked.Cause)
		require.Len(t, blocked.Failed, 1)
		assert.Equal(t, "k3", blocked.Failed[0].Key)
		assert.Equal(t, restatestart.ReasonServer, blocked.Failed[0].Reason)
		assert.Equal(t, restatestart.StateBlocked, w.partition(0).State)

		fake.Script("k3")
		pass(time.Minute)
		assert.Equal(t, "6-0", w.position(0))
		assert.Nil(t, w.partition(0).Blocked)
		fake.ExpectStarted(t, "Payout", keysOf(6)...)
		require.NoError(t, w.stop())
	})
}

// B25: in 30 rounds of one failing key the healthy ones are posted once.
func TestC2OnlyTheStartsThatFailedArePostedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		starter := starterOn(t, fake, nil, restatestart.Options{MaxAttempts: 1})
		w.publish(0, keysOf(10)...)
		fake.Script("k7", restatetest.Status(503).Times(30))
		w.run(starter)
		pass(time.Hour)
		for _, key := range keysOf(10) {
			want := 1
			if key == "k7" {
				want = 31
			}
			assert.Equal(t, want, fake.Attempts(key), key)
		}
		assert.Equal(t, "10-0", w.position(0))
		require.NoError(t, w.stop())
	})
}

// B04: what was accepted behind a failed start does not move the position past it, and after a crash the failed
// one is started.
func TestC1ACrashWhileBlockedLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		starter := starterOn(t, fake, nil, restatestart.Options{MaxAttempts: 1, MaxParallelism: 4})
		w.publish(0, keysOf(10)...)
		fake.Script("k2", restatetest.Status(400).Always())
		w.run(starter)
		pass(5 * time.Second)
		assert.Equal(t, "0-0", w.position(0))
		require.NoError(t, w.stop()) // what is stored is what a crash would have left

		fake.Script("k2")
		w.run(starter)
		pass(5 * time.Second)
		fake.ExpectStarted(t, "Payout", keysOf(10)...)
		assert.Equal(t, "10-0", w.position(0))
		require.NoError(t, w.stop())
	})
}

// B17: a workflow that is registered after its messages came is started then, without a restart.
func TestAWorkflowRegisteredLateIsStartedThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		fake := restatetest.New(t, restatetest.WithWorkflow("Payout"))
		starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
			start, err := payout(message)
			if message.Partition == 1 {
				start.Workflow = "Late"
			}
			return start, err
		}, restatestart.Options{})
		w.publish(0, "a", "b")
		w.publish(1, "c", "d")
		w.run(starter)
		pass(5 * time.Second)
		assert.Equal(t, "2-0", w.position(0))
		assert.Equal(t, "0-0", w.position(1))
		failed := w.partition(1).Blocked.Failed
		require.Len(t, failed, 2)
		assert.Equal(t, restatestart.ReasonNotFound, failed[0].Reason)
		assert.Equal(t, "Late", failed[0].Workflow)
		assert.Contains(t, w.partition(1).Blocked.Error, "Late/c")

		fake.Register("Late")
		pass(30 * time.Second)
		fake.ExpectStarted(t, "Late", "c", "d")
		assert.Equal(t, "2-0", w.position(1))
		require.NoError(t, w.stop())
	})
}

// B18: what will never be accepted is named, is not hammered, and an operator can step over it.
func TestAStartThatIsRefusedForGoodIsNamedAndCanBeSteppedOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		starter := starterOn(t, fake, nil, restatestart.Options{})
		w.options.BatchSize = 1
		w.publish(0, keysOf(5)...)
		fake.Script("k3", restatetest.Status(400, `{"message":"input validation error"}`).Always())
		w.run(starter)
		pass(5 * time.Minute)
		assert.LessOrEqual(t, fake.Attempts("k3"), 16, "once a hand-over, at most every 30 s in the end")
		blocked := w.partition(0).Blocked
		assert.Equal(t, "3-0", blocked.Failed[0].EntryID)
		assert.Equal(t, 400, blocked.Failed[0].Status)
		assert.Contains(t, blocked.Error, "input validation error")
		assert.Equal(t, "2-0", w.position(0))
		assert.LessOrEqual(t, w.logged("msg=blocked"), 11)

		w.store.RequestReset(0, "3-0|an operator steps over it")
		pass(5 * time.Second)
		fake.ExpectStarted(t, "Payout", "k1", "k2", "k4", "k5")
		assert.Equal(t, "5-0", w.position(0))
		require.NoError(t, w.stop())
	})
}

func TestC2ABlockedErrorThatNamesNothingUsableHoldsAll(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string][]restatestart.FailedStart{
		"none":                     nil,
		"one that is not there":    {{EntryID: "9-9"}},
		"one of them is not there": {{EntryID: "2-0"}, {EntryID: "9-9"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.publish(0, keysOf(3)...)
			first := true
			handler := &recorder{fail: func([]restatestart.Message[claim]) error {
				if first {
					first = false
					return fmt.Errorf("wrapped: %w", &restatestart.BlockedError{Failed: failed})
				}
				return nil
			}}
			w.run(handler)
			pass(10 * time.Second)
			assert.Equal(t, []string{"k1 k2 k3", "k1 k2 k3"}, handler.handed(), name)
			require.NoError(t, w.stop())
		})
	}
}

func TestC4AnErrorOfTheHandlerFollowsThePolicy(t *testing.T) {
	t.Parallel()
	failing := func(batch []restatestart.Message[claim]) error {
		if batch[0].Value.Key == "bad" {
			return errBoom
		}
		return nil
	}
	panicking := func(batch []restatestart.Message[claim]) error {
		if batch[0].Value.Key == "bad" {
			panic(errBoom)
		}
		return nil
	}
	for name, fail := range map[string]func([]restatestart.Message[claim]) error{"an error": failing, "a panic": panicking} {
		run := func(t *testing.T, policy restatestart.ErrorPolicy) (*world, *recorder) {
			t.Helper()
			w := newWorld(t, 1)
			w.options.BatchSize, w.options.OnError = 1, policy
			w.publish(0, "a", "bad", "b")
			handler := &recorder{fail: fail}
			w.run(handler)
			pass(8 * time.Second)
			return w, handler
		}
		t.Run(name+" holds", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, handler := run(t, restatestart.ErrorHold)
				assert.Equal(t, []string{"a", "bad", "bad", "bad", "bad"}, handler.handed())
				assert.Equal(t, "handler", w.partition(0).Blocked.Cause)
				assert.Contains(t, w.partition(0).Blocked.Error, "boom")
				assert.Equal(t, "1-0", w.position(0))
				require.NoError(t, w.stop())
			})
		})
		t.Run(name+" is skipped", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, handler := run(t, restatestart.ErrorSkip)
				assert.Equal(t, []string{"a", "bad", "b"}, handler.handed())
				assert.Equal(t, "3-0", w.position(0))
				assert.Equal(t, int64(1), w.partition(0).Skipped)
				assert.Equal(t, 1, w.logged("batch skipped"))
				require.NoError(t, w.stop())
			})
		})
		t.Run(name+" stops the partition", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, handler := run(t, restatestart.ErrorStop)
				assert.Equal(t, []string{"a", "bad"}, handler.handed())
				assert.Equal(t, "1-0", w.position(0))
				assert.Equal(t, restatestart.StateStopped, w.partition(0).State)
				assert.Contains(t, w.partition(0).Error, "boom")
				assert.Equal(t, restatestart.StateRunning, w.consumer.Status().State)
				require.NoError(t, w.stop())
			})
		})
		t.Run(name+" fails the run", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, _ := run(t, restatestart.ErrorFail)
				err := <-w.result
				require.ErrorIs(t, err, errBoom)
				require.ErrorContains(t, err, "consumer payout of topic claims")
				assert.Equal(t, "1-0", w.position(0))
				assert.Contains(t, w.consumer.Status().Error, "boom")
				w.cancel()
			})
		})
	}
}

// Cancellation that is not the loop's own is an error like any other: nothing may pass for a shutdown.
func TestC4ACancellationOfTheHandlersOwnIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.publish(0, "a")
		handler := &recorder{fail: func([]restatestart.Message[claim]) error { return context.Canceled }}
		w.run(handler)
		pass(2 * time.Second)
		assert.Len(t, handler.handed(), 2)
		assert.Equal(t, "0-0", w.position(0))
		require.NoError(t, w.stop())
	})
}

func TestC5AMalformedEntryNeverTakesItsNeighboursAlong(t *testing.T) {
	t.Parallel()
	publish := func(w *world) {
		w.publish(0, "a")
		w.source.Add(0, "{bad")
		w.source.AddMalformed(0)
		w.publish(0, "b")
	}
	t.Run("hold", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			publish(w)
			handler := &recorder{}
			w.run(handler)
			pass(time.Minute)
			assert.Equal(t, []string{"a b"}, handler.handed(), "the neighbours are handed over, once")
			assert.Equal(t, "0-0", w.position(0))
			blocked := w.partition(0).Blocked
			assert.Equal(t, "malformed", blocked.Cause)
			assert.Equal(t, []string{"2-0", "3-0"}, blocked.Malformed)
			assert.Contains(t, blocked.Error, "2 malformed entries; 2-0: malformed entry: invalid character")
			assert.NotContains(t, blocked.Error, "bad", "the body is not in the error")
			require.NoError(t, w.stop())
		})
	})
	t.Run("skip", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.options.OnMalformed = restatestart.MalformedSkip
			publish(w)
			w.source.AddMalformed(0)
			handler := &recorder{}
			w.run(handler)
			pass(5 * time.Second)
			assert.Equal(t, []string{"a b"}, handler.handed())
			assert.Equal(t, "5-0", w.position(0))
			assert.Equal(t, int64(3), w.partition(0).Skipped)
			assert.Equal(t, 3, w.logged("malformed entry skipped"))
			assert.Equal(t, 1, w.logged("entry=2-0"))
			require.NoError(t, w.stop())
		})
	})
	t.Run("beside failed starts only those come again", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			publish(w)
			rounds := 0
			handler := &recorder{fail: func([]restatestart.Message[claim]) error {
				if rounds++; rounds < 3 {
					return &restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "4-0"}}}
				}
				return nil
			}}
			w.run(handler)
			pass(time.Minute)
			assert.Equal(t, []string{"a b", "b", "b"}, handler.handed())
			assert.Equal(t, []string{"2-0", "3-0"}, w.partition(0).Blocked.Malformed)
			assert.Equal(t, "0-0", w.position(0))
			require.NoError(t, w.stop())
		})
	})
	t.Run("a batch that is skipped cannot leave a malformed entry behind", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.options.OnError = restatestart.ErrorSkip
			publish(w)
			handler := &recorder{fail: func([]restatestart.Message[claim]) error { return errBoom }}
			w.run(handler)
			pass(2 * time.Second)
			assert.Equal(t, []string{"a b", "a b"}, handler.handed())
			assert.Equal(t, "0-0", w.position(0))
			require.NoError(t, w.stop())
		})
	})
}

// B23: what Keep refuses counts as done, while nothing before it is held.
func TestC8MessagesThatAreNotKeptAdvanceThePosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		starter := starterOn(t, fake, nil, restatestart.Options{})
		for range 999 {
			w.publish(0, "")
		}
		w.publish(0, "k")
		fake.Down()
		w.run(starter)
		pass(time.Minute)
		assert.Equal(t, "900-0", w.position(0), "up to the batch of the one that is held")
		fake.Up()
		pass(time.Minute)
		assert.Equal(t, "1000-0", w.position(0))
		assert.Len(t, fake.Requests(), 1)
		require.NoError(t, w.stop())
	})
}

// B19: a batch in the middle of its starts is finished, and what was not begun is not.
func TestC6StopInTheMiddleOfABatchFinishesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		fake.ScriptAll(restatetest.Delay(300 * time.Millisecond))
		starter := starterOn(t, fake, nil, restatestart.Options{MaxParallelism: 4})
		w.options.BatchSize = 8
		w.publish(0, keysOf(16)...)
		w.run(starter)
		pass(150 * time.Millisecond)
		began := time.Now()
		require.NoError(t, w.stop())
		assert.LessOrEqual(t, time.Since(began), time.Second, "the read that waits on the server is the longest")
		assert.Equal(t, "8-0", w.position(0))
		assert.Len(t, fake.Requests(), 8)
		assert.Equal(t, restatestart.StateStopped, w.consumer.Status().State)

		w.run(starter)
		pass(time.Minute)
		fake.ExpectStarted(t, "Payout", keysOf(16)...)
		assert.Zero(t, fake.Duplicates())
		require.NoError(t, w.stop())
	})
}

func TestC6AStartThatHangsIsCutOffAfterTheDrainTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		fake.Script("k2", restatetest.Hang().Always())
		starter := starterOn(t, fake, nil, restatestart.Options{AttemptTimeout: time.Minute})
		w.options.DrainTimeout = 3 * time.Second
		w.publish(0, keysOf(3)...)
		w.run(starter)
		pass(time.Second)
		began := time.Now()
		require.NoError(t, w.stop())
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.Equal(t, "0-0", w.position(0))
		fake.ExpectStarted(t, "Payout", "k1", "k3")
		time.Sleep(time.Hour)
		assert.Equal(t, 1, fake.Attempts("k2"))
	})
}

func TestC7ATopicThatCannotBeReadAtStartIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.publish(0, "a")
		w.setMeta("", "", errors.New("NOAUTH Authentication required."))
		handler := &recorder{}
		w.run(handler)
		pass(5 * time.Minute)
		assert.Equal(t, restatestart.StateStarting, w.consumer.Status().State)
		assert.Contains(t, w.consumer.Status().Error, "NOAUTH")
		assert.InDelta(t, 10, w.logged("redis unavailable at start"), 1)
		w.setMeta("1", "1", nil)
		pass(31 * time.Second)
		assert.Equal(t, []string{"a"}, handler.handed())
		assert.Empty(t, w.consumer.Status().Error)
		require.NoError(t, w.stop())
	})
}

func TestRunReturnsWhatNoWaitingHeals(t *testing.T) {
	t.Parallel()
	for text, row := range map[string]func(*world){
		"ConsumerOptions.Partitions is 2, the topic has 4": func(w *world) { w.options.Partitions = 2 },
		"unknown wire version 2, this package reads 1":     func(w *world) { w.version = "2" },
		"pool of 4 connections is too small":               func(w *world) { w.pool = 4 },
		"redis: client is closed":                          func(w *world) { w.metaErr = redis.ErrClosed },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 4)
			row(w)
			w.run(&recorder{})
			err := <-w.result
			require.ErrorContains(t, err, text)
			assert.Equal(t, restatestart.StateStopped, w.consumer.Status().State)
			assert.Contains(t, w.consumer.Status().Error, text)
			w.cancel()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		w.pool = 5
		w.run(&recorder{})
		assert.Equal(t, 5, w.consumer.Status().Connections)
		require.ErrorContains(t, w.consumer.Run(t.Context()), "running already")
		require.NoError(t, w.stop())
		w.setMeta("4", "1", redis.ErrClosed)
		w.run(&recorder{})
		require.ErrorIs(t, <-w.result, redis.ErrClosed)
		w.cancel()
	})
}

func TestTopicMetaIsReadTolerantly(t *testing.T) {
	t.Parallel()
	for meta, want := range map[[2]string]int{
		{"", ""}: 1, {"3", ""}: 3, {"3", "one"}: 3, {"many", "1"}: 1, {"-4", "1"}: 1, {"0", "1"}: 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.setMeta(meta[0], meta[1], nil)
			w.run(&recorder{})
			assert.Len(t, w.consumer.Status().Partitions, want, meta)
			require.NoError(t, w.stop())
		})
	}
}

// A consumer that starts before the first publisher finds no topic yet. The partitions that come are read.
func TestPartitionsThatAreAddedAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 0)
		handler := &recorder{}
		w.run(handler)
		pass(time.Minute)
		require.Len(t, w.consumer.Status().Partitions, 1)
		w.setMeta("3", "1", nil)
		w.publish(0, "a")
		w.publish(2, "c")
		pass(10 * time.Second)
		assert.ElementsMatch(t, []string{"a", "c"}, handler.handed())
		assert.Len(t, w.consumer.Status().Partitions, 3)
		assert.Equal(t, "1-0", w.position(2))
		require.NoError(t, w.stop())
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.options.Partitions = 2
		w.run(&recorder{})
		w.setMeta("3", "1", nil)
		pass(10 * time.Minute)
		assert.Contains(t, w.consumer.Status().Error, "partitions 2 to 2 of the topic are not read")
		assert.InDelta(t, 20, w.logged("unread partitions"), 1)
		require.NoError(t, w.stop())
	})
}

// B22: where a run begins, with and without a stored position.
func TestStartFrom(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		from   restatestart.StartFrom
		stored uint64
		want   []string
		log    string
	}{
		"stored":                 {restatestart.FromStored(), 3, []string{"k4 k5", "later"}, ""},
		"nothing stored":         {restatestart.FromStored(), 0, []string{"k1 k2 k3 k4 k5", "later"}, "no stored position, starting from the beginning"},
		"beginning":              {restatestart.FromBeginning(), 3, []string{"k1 k2 k3 k4 k5", "later"}, "stored position passed over"},
		"now":                    {restatestart.FromNow(), 3, []string{"later"}, "stored position passed over"},
		"now, on nothing stored": {restatestart.FromNow(), 0, []string{"later"}, "start_from=now"},
		"a time":                 {restatestart.FromTime(time.UnixMilli(4)), 0, []string{"k4 k5", "later"}, "start_from=1970-01-01T00:00:00.004Z"},
		"a time before all":      {restatestart.FromTime(time.UnixMilli(-4)), 0, []string{"k1 k2 k3 k4 k5", "later"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1)
				w.options.StartFrom = row.from
				w.publish(0, keysOf(5)...)
				if row.stored > 0 {
					_, err := w.store.Save(t.Context(), []position.Write{{ID: wire.ID{Ms: row.stored}}})
					require.NoError(t, err)
				}
				handler := &recorder{}
				w.run(handler)
				pass(5 * time.Second)
				w.publish(0, "later")
				pass(5 * time.Second)
				assert.Equal(t, row.want, handler.handed())
				assert.Equal(t, "6-0", w.position(0))
				if row.log != "" {
					assert.Positive(t, w.logged(row.log))
				}
				require.NoError(t, w.stop())
			})
		})
	}
}

// "Now" is an id from the first moment on: what comes between two reads, or during an outage, is not missed.
func TestStartFromNowIsResolvedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.StartFrom = restatestart.FromNow()
		w.publish(0, "old")
		handler := &recorder{}
		w.run(handler)
		pass(3 * time.Second)
		w.source.Fail(0, io.ErrUnexpectedEOF)
		pass(3 * time.Second)
		w.publish(0, "during")
		w.source.Fail(0, nil)
		pass(30 * time.Second)
		assert.Equal(t, []string{"during"}, handler.handed())
		require.NoError(t, w.stop())
	})
}

func TestNewConsumerNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "nowhere.invalid:1"})
	t.Cleanup(func() { _ = client.Close() })
	index := func(n int) *int { return &n }
	for field, change := range map[string]func(*restatestart.ConsumerOptions){
		"Consumer: a name is required":          func(o *restatestart.ConsumerOptions) { o.Consumer = "" },
		`Consumer: "x:meta" ends in :meta`:      func(o *restatestart.ConsumerOptions) { o.Consumer = "x:meta" },
		"Partitions: -1 is negative":            func(o *restatestart.ConsumerOptions) { o.Partitions = -1 },
		"BatchSize: -1 is negative":             func(o *restatestart.ConsumerOptions) { o.BatchSize = -1 },
		"Block: -1s is negative":                func(o *restatestart.ConsumerOptions) { o.Block = -time.Second },
		"Block: 1.5ms is not in whole":          func(o *restatestart.ConsumerOptions) { o.Block = 1500 * time.Microsecond },
		"ReadAhead: -1 is negative":             func(o *restatestart.ConsumerOptions) { o.ReadAhead = -1 },
		"PersistInterval: -1s is negative":      func(o *restatestart.ConsumerOptions) { o.PersistInterval = -time.Second },
		"Persist: there is no choice 9":         func(o *restatestart.ConsumerOptions) { o.Persist = 9 },
		"DrainTimeout: -1s is negative":         func(o *restatestart.ConsumerOptions) { o.DrainTimeout = -time.Second },
		"HoldMin: -1s is negative":              func(o *restatestart.ConsumerOptions) { o.HoldMin = -time.Second },
		"DrainTimeout: 10ns is below a millise": func(o *restatestart.ConsumerOptions) { o.DrainTimeout = 10 },
		"HoldMax: -1s is negative":              func(o *restatestart.ConsumerOptions) { o.HoldMax = -time.Second },
		"HoldMin: 1m0s is above HoldMax, 30s":   func(o *restatestart.ConsumerOptions) { o.HoldMin = time.Minute },
		"OnError: there is no policy 9":         func(o *restatestart.ConsumerOptions) { o.OnError = 9 },
		"OnMalformed: there is no policy 9":     func(o *restatestart.ConsumerOptions) { o.OnMalformed = 9 },
		"StartFrom: the time is zero":           func(o *restatestart.ConsumerOptions) { o.StartFrom = restatestart.FromTime(time.Time{}) },
		"Types: name 1 is empty":                func(o *restatestart.ConsumerOptions) { o.Types = []string{"a", ""} },
		"InstanceCount: -1 is negative":         func(o *restatestart.ConsumerOptions) { o.InstanceCount = -1 },
		"InstanceIndex: -1 is negative":         func(o *restatestart.ConsumerOptions) { o.InstanceIndex = index(-1) },
		"InstanceIndex: 3 is not below Instanc": func(o *restatestart.ConsumerOptions) { o.InstanceIndex, o.InstanceCount = index(3), 3 },
	} {
		options := restatestart.ConsumerOptions{Consumer: "payout"}
		change(&options)
		_, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], &recorder{}, options)
		require.ErrorContains(t, err, "restatestart: ConsumerOptions."+field)
	}
	good := restatestart.ConsumerOptions{Consumer: "payout"}
	_, err := restatestart.NewConsumer(nil, "claims", restatestart.JSON[claim], &recorder{}, good)
	require.ErrorContains(t, err, "client is nil")
	_, err = restatestart.NewConsumer((*redis.Client)(nil), "claims", restatestart.JSON[claim], &recorder{}, good)
	require.ErrorContains(t, err, "client is nil")
	_, err = restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], (*restatestart.Starter[claim])(nil), good)
	require.ErrorContains(t, err, "handler is nil")
	_, err = restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], restatestart.HandlerFunc[claim](nil), good)
	require.ErrorContains(t, err, "handler is nil")
	_, err = restatestart.NewConsumer(client, "", restatestart.JSON[claim], &recorder{}, good)
	require.ErrorContains(t, err, "topic is empty")
	_, err = restatestart.NewConsumer(client, "{claims}", restatestart.JSON[claim], &recorder{}, good)
	require.ErrorContains(t, err, "bare name")
	_, err = restatestart.NewConsumer(client, "claims", nil, restatestart.Handler[claim](&recorder{}), good)
	require.ErrorContains(t, err, "decoder is nil")
	_, err = restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], nil, good)
	require.ErrorContains(t, err, "handler is nil")
	consumer, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], &recorder{}, good)
	require.NoError(t, err)
	assert.Equal(t, restatestart.StateStopped, consumer.Status().State, "no I/O, and a status before Run")
}

func TestC11StatusIsJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.options.KeyPrefix = "dev:re:"
		fake := restatetest.New(t)
		fake.Script("k2", restatetest.Status(503, "no leader").Always())
		w.publish(0, "k1", "k2")
		w.run(starterOn(t, fake, nil, restatestart.Options{MaxAttempts: 2}))
		pass(500 * time.Millisecond)
		encoded, err := json.Marshal(w.consumer.Status())
		require.NoError(t, err)
		assert.JSONEq(t, `{
			"topic": "claims", "consumer": "payout", "keyPrefix": "dev:re:", "state": "running", "connections": 3,
			"partitions": [
				{"partition": 0, "stream": "dev:re:s:{claims}:0", "state": "blocked", "position": "0-0", "lag": 2, "oldest": "`+time.UnixMilli(1).Format(time.RFC3339Nano)+`",
				 "passed": 0, "handed": 0, "skipped": 0,
				 "blocked": {"since": "2000-01-01T00:00:00.2Z", "attempts": 1, "next": "2000-01-01T00:00:01.2Z", "cause": "starts",
				  "error": "1 of 2 starts not accepted; start Payout/k2 (entry 2-0): server after 2 attempts: 503: no leader",
				  "failed": [{"entryId": "2-0", "stream": "dev:re:s:{claims}:0", "workflow": "Payout", "key": "k2", "reason": "server", "status": 503, "attempts": 2,
				   "since": "2000-01-01T00:00:00Z", "error": "503: no leader"}]}},
				{"partition": 1, "stream": "dev:re:s:{claims}:1", "state": "starting", "position": "0-0", "lag": 0, "missing": true, "passed": 0, "handed": 0, "skipped": 0}
			]}`, string(encoded))
		require.NoError(t, w.stop())
	})
}
