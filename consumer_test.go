package restatestart_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

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
