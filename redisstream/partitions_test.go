package redisstream_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/position/positiontest"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/redisstream"
)

// A consumer that starts before the first publisher finds no topic yet.
func TestAddedPartitionsAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, handler := newEnv(t, 0), &recorder{}
		e.run(handler)
		testkit.Pass(time.Minute)
		require.Len(t, e.consumer.Status().Partitions, 1)
		e.setMeta("3", "1", nil)
		e.publish(0, "a")
		e.publish(2, "c")
		testkit.Pass(10 * time.Second)
		assert.ElementsMatch(t, []string{"a", "c"}, handler.delivered())
		assert.Len(t, e.consumer.Status().Partitions, 3)
		assert.Equal(t, "1-0", e.position(2))
	})
}

func TestFixedPartitionsDoNotGrow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 2)
		e.options.Partitions = 2
		e.run(&recorder{})
		e.setMeta("3", "1", nil)
		testkit.Pass(10 * time.Minute)
		assert.Contains(t, e.consumer.Status().Error, "partitions 2 to 2 of the topic are not read")
		assert.InDelta(t, 20, e.log.Count("partitions not read"), 1)
	})
}

// Growth changes neither the position of the other partitions, nor their batches in hand, nor their counts.
func TestAddedPartitionsDoNotDisturbTheOthers(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]redisstream.StartFrom{
		"stored": redisstream.FromStored(), "beginning": redisstream.FromBeginning(), "now": redisstream.FromNow(),
		"a time": redisstream.FromTime(time.UnixMilli(0)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, 2)
				e.options.StartFrom, e.options.BatchSize, e.options.DrainTimeout = from, 1, time.Second
				release := make(chan struct{})
				var down atomic.Bool
				down.Store(true)
				handler := &recorder{fail: func(batch []claimMessage) error {
					if batch[0].Value.Key == "a" && down.Load() {
						return testkit.ErrBoom
					}
					return nil
				}}
				run := claimHandler(func(ctx context.Context, batch []claimMessage) error {
					if batch[0].Value.Key == "slow" {
						<-release
						return ctx.Err()
					}
					return handler.Handle(ctx, batch)
				})
				e.run(run)
				e.publish(0, "a", "b", "c")
				e.publish(1, "slow", "d")
				testkit.Pass(2 * time.Second)
				since := e.partition(0).Blocked.Since
				e.setMeta("3", "1", nil)
				e.publish(2, "first", "second")
				testkit.Pass(20 * time.Second)
				assert.Equal(t, since, e.partition(0).Blocked.Since)
				assert.Equal(t, "2-0", e.position(2))
				assert.Contains(t, handler.delivered(), "first", "from its first entry, with any StartFrom")
				assert.Equal(t, 4, e.consumer.Status().Connections)
				close(release)
				down.Store(false)
				testkit.Pass(time.Minute)
				assert.Equal(t, "3-0", e.position(0))
				assert.Equal(t, "2-0", e.position(1))
				assert.Equal(t, int64(3), e.partition(0).Delivered)
			})
		})
	}
}

func TestAPoolTooSmallForAddedPartitionsIsReportedAndEndsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, handler := newEnv(t, 1), &recorder{}
		e.backend.Pool = 2
		e.run(handler)
		e.setMeta("2", "1", nil)
		testkit.Pass(time.Minute)
		e.publish(0, "a")
		testkit.Pass(time.Second)
		assert.Equal(t, []string{"a"}, handler.delivered())
		assert.Contains(t, e.consumer.Status().Error, "pool of 2 connections is too small")
	})
}

// A partition that moves to another instance continues where the first one was.
func TestGrowthReassignsPartitionsBetweenInstances(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 4)
		other := newEnv(t, 4)
		for index, instance := range []*env{e, other} {
			instance.options.InstanceCount, instance.options.InstanceIndex = 2, &index
			instance.options.StartFrom = redisstream.FromBeginning()
		}
		other.backend = e.backend
		other.backend.Meta = other.readMeta
		other.positions = e.positions
		mine, theirs := &recorder{}, &recorder{}
		e.run(mine)
		other.run(theirs)
		for partition := range 8 {
			e.publish(partition, "one")
		}
		testkit.Pass(3 * time.Second)
		assert.Len(t, mine.delivered(), 2)
		assert.Len(t, theirs.delivered(), 2)
		e.setMeta("8", "1", nil)
		other.setMeta("8", "1", nil)
		for partition := range 8 {
			e.publish(partition, "two")
		}
		testkit.Pass(20 * time.Second)
		assert.Equal(t, []int{0, 1, 2, 3}, numbers(e.consumer.Status()))
		assert.Equal(t, []int{4, 5, 6, 7}, numbers(other.consumer.Status()))
		for partition := range 8 {
			assert.Equal(t, "2-0", e.position(partition))
		}
		assert.ElementsMatch(t, []string{"one", "one", "two", "two"}, mine.delivered(), "partitions 2 and 3 continue where the other instance was")
		assert.Subset(t, []string{"one", "two", "one two"}, theirs.delivered())
	})
}

func numbers(status redisstream.Status) []int {
	var numbers []int
	for _, partition := range status.Partitions {
		numbers = append(numbers, partition.Partition)
	}
	return numbers
}

// The topic grows while the first positions cannot be read yet.
func TestGrowthDuringASlowStartIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		failing := &failingLoads{Memory: e.positions}
		failing.failures.Store(5)
		e.backend.Store = failing
		e.publish(0, "a")
		e.publish(1, "b")
		handler := &recorder{}
		e.run(handler)
		testkit.Pass(16 * time.Second) // in the middle of a wait of 16 s
		e.setMeta("2", "1", nil)
		failing.failures.Store(0)
		testkit.Pass(time.Minute)
		assert.ElementsMatch(t, []string{"a", "b"}, handler.delivered())
	})
}

type failingLoads struct {
	*positiontest.Memory

	failures atomic.Int64
}

func (f *failingLoads) Load(ctx context.Context, partitions []int) ([]position.Stored, error) {
	if f.failures.Add(-1) >= 0 {
		return nil, testkit.ErrBoom
	}
	return f.Memory.Load(ctx, partitions)
}
