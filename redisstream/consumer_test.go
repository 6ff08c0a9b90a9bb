package redisstream_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/topic"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/redisstream/admin"
	"github.com/redisevents/restatestart/restatetest"
)

// The position waits for a start that has used up its own retries.
func TestC1C2AnOutageLongerThanTheRetriesLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEnv(t, 1), restatetest.New(t)
		e.options.BatchSize = 2
		e.publish(0, testkit.Keys(6)...)
		fake.Script("k3", restatetest.Status(503).Always())
		e.run(testkit.NewStarter(t, fake, nil, restatestart.Options{}))
		testkit.Pass(time.Minute)
		assert.Equal(t, "2-0", e.position(0))
		blocked := e.partition(0).Blocked
		require.NotNil(t, blocked)
		assert.Equal(t, "starts", blocked.Cause)
		require.Len(t, blocked.Failed, 1)
		assert.Equal(t, "k3", blocked.Failed[0].Key)
		assert.Equal(t, restatestart.ReasonServer, blocked.Failed[0].Reason)
		assert.Equal(t, redisstream.StateBlocked, e.partition(0).State)

		fake.Script("k3")
		testkit.Pass(time.Minute)
		assert.Equal(t, "6-0", e.position(0))
		assert.Nil(t, e.partition(0).Blocked)
		fake.ExpectStarted(t, "Payout", testkit.Keys(6)...)
	})
}

func TestC2OnlyTheStartsThatFailedArePostedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEnv(t, 1), restatetest.New(t)
		e.publish(0, testkit.Keys(10)...)
		fake.Script("k7", restatetest.Status(503).Times(30))
		e.run(once(t, fake))
		testkit.Pass(time.Hour)
		for _, key := range testkit.Keys(10) {
			want := 1
			if key == "k7" {
				want = 31
			}
			assert.Equal(t, want, fake.Attempts(key), key)
		}
		assert.Equal(t, "10-0", e.position(0))
	})
}

// Starts that are accepted after a failed one do not move the position past it.
func TestC1ACrashWhileBlockedLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEnv(t, 1), restatetest.New(t)
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxAttempts: 1, MaxParallelism: 4})
		e.publish(0, testkit.Keys(10)...)
		fake.Script("k2", restatetest.Status(400).Always())
		e.run(starter)
		testkit.Pass(5 * time.Second)
		assert.Equal(t, "0-0", e.position(0))
		require.NoError(t, e.stop()) // stores no more than a crash would

		fake.Script("k2")
		e.run(starter)
		testkit.Pass(5 * time.Second)
		fake.ExpectStarted(t, "Payout", testkit.Keys(10)...)
		assert.Equal(t, "10-0", e.position(0))
	})
}

func TestAWorkflowRegisteredLateIsStartedWithoutARestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEnv(t, 2), restatetest.New(t, restatetest.WithWorkflow("Payout"))
		starter := testkit.NewStarter(t, fake, func(message *claimMessage) (restatestart.Start, error) {
			start, err := testkit.Payout(message)
			if message.Partition == 1 {
				start.Workflow = "Late"
			}
			return start, err
		}, restatestart.Options{})
		e.publish(0, "a", "b")
		e.publish(1, "c", "d")
		e.run(starter)
		testkit.Pass(5 * time.Second)
		assert.Equal(t, "2-0", e.position(0))
		assert.Equal(t, "0-0", e.position(1))
		failed := e.partition(1).Blocked.Failed
		require.Len(t, failed, 2)
		assert.Equal(t, restatestart.ReasonNotFound, failed[0].Reason)
		assert.Equal(t, "Late", failed[0].Workflow)
		assert.Contains(t, e.partition(1).Blocked.Error, "Late/c")

		fake.Register("Late")
		testkit.Pass(30 * time.Second)
		fake.ExpectStarted(t, "Late", "c", "d")
		assert.Equal(t, "2-0", e.position(1))
	})
}

func TestARejectedStartIsNamedAndAResetSkipsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEnv(t, 1), restatetest.New(t)
		e.options.BatchSize = 1
		e.publish(0, testkit.Keys(5)...)
		fake.Script("k3", restatetest.Status(400, `{"message":"input validation error"}`).Always())
		e.run(testkit.NewStarter(t, fake, nil, restatestart.Options{}))
		testkit.Pass(5 * time.Minute)
		assert.LessOrEqual(t, fake.Attempts("k3"), 16, "one attempt for each delivery, in the end every 30 s")
		blocked := e.partition(0).Blocked
		assert.Equal(t, "3-0", blocked.Failed[0].EntryID)
		assert.Equal(t, 400, blocked.Failed[0].Status)
		assert.Contains(t, blocked.Error, "input validation error")
		assert.Equal(t, "2-0", e.position(0))
		assert.LessOrEqual(t, e.log.Count("msg=blocked"), 11)

		e.positions.RequestReset(0, "3-0|")
		testkit.Pass(5 * time.Second)
		fake.ExpectStarted(t, "Payout", "k1", "k2", "k4", "k5")
		assert.Equal(t, "5-0", e.position(0))
	})
}

func TestC8MessagesThatAreNotKeptAdvanceThePosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEnv(t, 1), restatetest.New(t)
		for range 999 {
			e.publish(0, "")
		}
		e.publish(0, "k")
		fake.Down()
		e.run(testkit.NewStarter(t, fake, nil, restatestart.Options{}))
		testkit.Pass(time.Minute)
		assert.Equal(t, "900-0", e.position(0), "the batch of k is held")
		fake.Up()
		testkit.Pass(time.Minute)
		assert.Equal(t, "1000-0", e.position(0))
		assert.Len(t, fake.Requests(), 1)
	})
}

func TestC6AStopInTheMiddleOfABatchFinishesIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEnv(t, 1), restatetest.New(t)
		fake.ScriptAll(restatetest.Delay(300 * time.Millisecond))
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxParallelism: 4})
		e.options.BatchSize = 8
		e.publish(0, testkit.Keys(16)...)
		e.run(starter)
		testkit.Pass(150 * time.Millisecond)
		began := time.Now()
		require.NoError(t, e.stop())
		assert.LessOrEqual(t, time.Since(began), time.Second, "the longest wait is for the blocking read")
		assert.Equal(t, "8-0", e.position(0))
		assert.Len(t, fake.Requests(), 8)
		assert.Equal(t, redisstream.StateStopped, e.consumer.Status().State)

		e.run(starter)
		testkit.Pass(time.Minute)
		fake.ExpectStarted(t, "Payout", testkit.Keys(16)...)
		assert.Zero(t, fake.Duplicates())
	})
}

func TestC6AStartThatHangsIsCutOffAfterTheDrainTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEnv(t, 1), restatetest.New(t)
		fake.Script("k2", restatetest.Hang().Always())
		e.options.DrainTimeout = 3 * time.Second
		e.publish(0, testkit.Keys(3)...)
		e.run(testkit.NewStarter(t, fake, nil, restatestart.Options{AttemptTimeout: time.Minute}))
		testkit.Pass(time.Second)
		began := time.Now()
		require.NoError(t, e.stop())
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.Equal(t, "0-0", e.position(0))
		fake.ExpectStarted(t, "Payout", "k1", "k3")
		time.Sleep(time.Hour)
		assert.Equal(t, 1, fake.Attempts("k2"))
	})
}

func TestC6RunReturnsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, hang := newEnv(t, 1), make(chan struct{})
		e.backend.Meta = func(context.Context) (topic.Meta, error) {
			<-hang
			return topic.Meta{Partitions: "1", Version: "1"}, nil
		}
		e.run(&recorder{})
		testkit.Pass(time.Second)
		began := time.Now()
		require.NoError(t, e.stop())
		assert.LessOrEqual(t, time.Since(began), redisstream.DefaultDrainTimeout+time.Second)
		assert.Equal(t, 1, e.log.Count("redis call still waiting after the drain timeout, abandoned"))
		close(hang)
	})
}

func TestC4AFailedRunReturnsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, hang, calls := newEnv(t, 1), make(chan struct{}), 0
		e.options.OnError = redisstream.ErrorFail
		e.backend.Meta = func(context.Context) (topic.Meta, error) {
			if calls++; calls > 1 {
				<-hang
			}
			return topic.Meta{Partitions: "1", Version: "1"}, nil
		}
		e.run(&recorder{fail: boom})
		testkit.Pass(10 * time.Second)
		e.publish(0, "a")
		began := time.Now()
		require.ErrorIs(t, e.ended(), testkit.ErrBoom)
		assert.LessOrEqual(t, time.Since(began), 2*time.Second)
		close(hang)
	})
}

func TestC7RunWaitsForATopicThatCannotBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, handler := newEnv(t, 1), &recorder{}
		e.publish(0, "a")
		e.setMeta("", "", errors.New("NOAUTH Authentication required."))
		e.run(handler)
		testkit.Pass(5 * time.Minute)
		assert.Equal(t, redisstream.StateStarting, e.consumer.Status().State)
		assert.Contains(t, e.consumer.Status().Error, "NOAUTH")
		assert.InDelta(t, 10, e.log.Count("redis unavailable at start"), 1)
		e.setMeta("1", "1", nil)
		testkit.Pass(31 * time.Second)
		assert.Equal(t, []string{"a"}, handler.delivered())
		assert.Empty(t, e.consumer.Status().Error)
	})
}

func TestRunReturnsPermanentErrors(t *testing.T) {
	t.Parallel()
	for text, change := range map[string]func(*env){
		"Options.Partitions is 2, the topic has 4":     func(e *env) { e.options.Partitions = 2 },
		"unknown wire version 2, this package reads 1": func(e *env) { e.setMeta("4", "2", nil) },
		"pool of 4 connections is too small":           func(e *env) { e.backend.Pool = 4 },
		"redis: client is closed":                      func(e *env) { e.setMeta("4", "1", redis.ErrClosed) },
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t, 4)
			change(e)
			e.run(&recorder{})
			require.ErrorContains(t, e.ended(), text)
			assert.Equal(t, redisstream.StateStopped, e.consumer.Status().State)
			assert.Contains(t, e.consumer.Status().Error, text)
		})
	}
}

func TestAConsumerRunsOnceAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 4)
		e.backend.Pool = 5
		e.run(&recorder{})
		assert.Equal(t, 5, e.consumer.Status().Connections)
		require.ErrorContains(t, e.consumer.Run(t.Context()), "running already")
		require.NoError(t, e.stop())
		e.setMeta("4", "1", redis.ErrClosed)
		require.ErrorIs(t, e.consumer.Run(t.Context()), redis.ErrClosed, "it ran again")
	})
}

func TestTopicMetaIsReadTolerantly(t *testing.T) {
	t.Parallel()
	for meta, want := range map[[2]string]int{
		{"", ""}: 1, {"3", ""}: 3, {"3", "one"}: 3, {"many", "1"}: 1, {"-4", "1"}: 1, {"0", "1"}: 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t, 1)
			e.setMeta(meta[0], meta[1], nil)
			e.run(&recorder{})
			assert.Len(t, e.consumer.Status().Partitions, want, meta)
		})
	}
}

func TestARunBeginsWhereStartFromSays(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		from   redisstream.StartFrom
		stored uint64
		want   []string
		log    string
	}{
		"stored":                        {redisstream.FromStored(), 3, []string{"k4 k5", "later"}, ""},
		"nothing stored":                {redisstream.FromStored(), 0, []string{"k1 k2 k3 k4 k5", "later"}, "no stored position, starting from the beginning"},
		"beginning":                     {redisstream.FromBeginning(), 3, []string{"k1 k2 k3 k4 k5", "later"}, "stored position ignored"},
		"now":                           {redisstream.FromNow(), 3, []string{"later"}, "stored position ignored"},
		"now, on nothing stored":        {redisstream.FromNow(), 0, []string{"later"}, "start_from=now"},
		"a time":                        {redisstream.FromTime(time.UnixMilli(4)), 0, []string{"k4 k5", "later"}, "start_from=1970-01-01T00:00:00.004Z"},
		"a time before the first entry": {redisstream.FromTime(time.UnixMilli(-4)), 0, []string{"k1 k2 k3 k4 k5", "later"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, 1)
				e.options.StartFrom = row.from
				e.publish(0, testkit.Keys(5)...)
				if row.stored > 0 {
					_, err := e.positions.Save(t.Context(), []position.Write{{ID: wire.ID{Ms: row.stored}}})
					require.NoError(t, err)
				}
				handler := &recorder{}
				e.run(handler)
				testkit.Pass(5 * time.Second)
				e.publish(0, "later")
				testkit.Pass(5 * time.Second)
				assert.Equal(t, row.want, handler.delivered())
				assert.Equal(t, "6-0", e.position(0))
				if row.log != "" {
					assert.Positive(t, e.log.Count(row.log))
				}
			})
		})
	}
}

// FromNow is an id from the first moment on: nothing published between two reads, or during an outage, is missed.
func TestStartFromNowIsResolvedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, handler := newEnv(t, 1), &recorder{}
		e.options.StartFrom = redisstream.FromNow()
		e.publish(0, "old")
		e.run(handler)
		testkit.Pass(3 * time.Second)
		e.source.Fail(0, io.ErrUnexpectedEOF)
		testkit.Pass(3 * time.Second)
		e.publish(0, "during")
		e.source.Fail(0, nil)
		testkit.Pass(30 * time.Second)
		assert.Equal(t, []string{"during"}, handler.delivered())
	})
}

// Another instance that takes over the partition must continue there, although nothing was processed yet.
func TestWhereAPartitionBeginsIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		e.options.StartFrom = redisstream.FromNow()
		e.publish(0, "old", "older")
		e.run(&recorder{})
		testkit.Pass(5 * time.Second)
		assert.Equal(t, "2-0", e.position(0))
	})
}

func TestARunBeginsAtAPendingReset(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	for _, id := range []string{"1-0", "2-0", "3-0"} {
		add(t, server, id, "b", "{}")
	}
	operator, err := admin.New(client, "claims", admin.Options{Consumer: "payout"})
	require.NoError(t, err)
	preview, err := operator.Reset(t.Context(), 0, admin.ToID("2-0"))
	require.NoError(t, err)
	assert.EqualValues(t, 2, preview.Skipped)
	seen := consume(t, client, 1, redisstream.Options{StartFrom: redisstream.FromBeginning()})
	assert.Equal(t, "3-0", seen[0].ID)
	list, err := operator.Positions(t.Context())
	require.NoError(t, err)
	assert.Nil(t, list[0].Pending)
	assert.Equal(t, "3-0", list[0].Position)
	assert.NotEqual(t, admin.Writer, list[0].Writer)
}
