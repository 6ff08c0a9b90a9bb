package restatestart_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/position"
)

// Growth adds partitions and touches no other: not where it is, not what it has in hand, not its counts.
func TestPartitionsThatAreAddedLeaveTheOthersAlone(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]restatestart.StartFrom{
		"stored": restatestart.FromStored(), "beginning": restatestart.FromBeginning(), "now": restatestart.FromNow(),
		"a time": restatestart.FromTime(time.UnixMilli(0)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 2)
				w.options.StartFrom, w.options.BatchSize, w.options.DrainTimeout = from, 1, time.Second
				release := make(chan struct{})
				var down atomic.Bool
				down.Store(true)
				handler := &recorder{fail: func(batch []restatestart.Message[claim]) error {
					if batch[0].Value.Key == "a" && down.Load() {
						return errBoom
					}
					return nil
				}}
				run := restatestart.HandlerFunc[claim](func(ctx context.Context, batch []restatestart.Message[claim]) error {
					if batch[0].Value.Key == "slow" {
						<-release
						return ctx.Err()
					}
					return handler.Handle(ctx, batch)
				})
				w.run(run)
				w.publish(0, "a", "b", "c")
				w.publish(1, "slow", "d")
				pass(2 * time.Second)
				since := w.partition(0).Blocked.Since
				w.setMeta("3", "1", nil)
				w.publish(2, "first", "second")
				pass(20 * time.Second)
				assert.Equal(t, since, w.partition(0).Blocked.Since)
				assert.Equal(t, "2-0", w.position(2))
				assert.Contains(t, handler.handed(), "first", "from the first on, whatever StartFrom says")
				assert.Equal(t, 4, w.consumer.Status().Connections)
				close(release)
				down.Store(false)
				pass(time.Minute)
				assert.Equal(t, "3-0", w.position(0))
				assert.Equal(t, "2-0", w.position(1))
				assert.Equal(t, int64(3), w.partition(0).Handed)
				require.NoError(t, w.stop())
			})
		})
	}
}

func TestAPoolTooSmallForAddedPartitionsIsSaidAndEndsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.pool = 2
		handler := &recorder{}
		w.run(handler)
		w.setMeta("2", "1", nil)
		pass(time.Minute)
		w.publish(0, "a")
		pass(time.Second)
		assert.Equal(t, []string{"a"}, handler.handed())
		assert.Contains(t, w.consumer.Status().Error, "pool of 2 connections is too small")
		require.NoError(t, w.stop())
	})
}

// With several instances the parts shift when the topic grows: what another instance had goes on where that one was.
func TestPartsShiftWithTheTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		first := 0
		w.options.InstanceCount, w.options.InstanceIndex, w.options.StartFrom = 2, &first, restatestart.FromBeginning()
		other := newWorld(t, 4)
		second := 1
		other.options.InstanceCount, other.options.InstanceIndex, other.options.StartFrom = 2, &second, restatestart.FromBeginning()
		other.source, other.store = w.source, w.store
		mine, theirs := &recorder{}, &recorder{}
		w.run(mine)
		other.run(theirs)
		for partition := range 8 {
			w.publish(partition, "one")
		}
		pass(3 * time.Second)
		assert.Len(t, mine.handed(), 2)
		assert.Len(t, theirs.handed(), 2)
		w.setMeta("8", "1", nil)
		other.setMeta("8", "1", nil)
		for partition := range 8 {
			w.publish(partition, "two")
		}
		pass(20 * time.Second)
		assert.Equal(t, []int{0, 1, 2, 3}, numbers(w.consumer.Status()))
		assert.Equal(t, []int{4, 5, 6, 7}, numbers(other.consumer.Status()))
		for partition := range 8 {
			assert.Equal(t, "2-0", w.position(partition))
		}
		assert.ElementsMatch(t, []string{"one", "one", "two", "two"}, mine.handed(), "what came over was done by the other one, up to here")
		assert.Subset(t, []string{"one", "two", "one two"}, theirs.handed())
		require.NoError(t, w.stop())
		require.NoError(t, other.stop())
	})
}

func numbers(status restatestart.Status) []int {
	var numbers []int
	for _, partition := range status.Partitions {
		numbers = append(numbers, partition.Partition)
	}
	return numbers
}

func TestAnInstanceThatOwnsNothingSaysSo(t *testing.T) {
	t.Setenv("POD_NAME", "svc-3")
	t.Setenv("STREAMS_INSTANCE_COUNT", "")
	t.Setenv("STREAMS_INSTANCE_INDEX", "")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.run(&recorder{})
		pass(time.Second)
		assert.Contains(t, w.consumer.Status().Error, "instance 3 of 1 owns none of the topic's 2 partitions")
		assert.Equal(t, 1, w.logged("no partition"))
		require.NoError(t, w.stop())
	})
}

// Growth that comes while the first positions cannot be read yet is not forgotten.
func TestGrowthDuringASlowStartIsNotForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		failing := &failingLoads{Memory: w.store}
		failing.failures.Store(5)
		w.publish(0, "a")
		w.publish(1, "b")
		handler := &recorder{}
		consumer, err := restatestart.NewConsumerOn(restatestart.Backend{Source: w.source, Store: failing, Meta: w.meta}, "claims",
			restatestart.JSON[claim], restatestart.Handler[claim](handler), w.options)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		after(16*time.Second, func() { w.setMeta("2", "1", nil); failing.failures.Store(0) }) // in the middle of a wait of 16 s
		require.NoError(t, consumer.Run(ctx))
		assert.ElementsMatch(t, []string{"a", "b"}, handler.handed())
	})
}

type failingLoads struct {
	*position.Memory

	failures atomic.Int64
}

func (f *failingLoads) Load(ctx context.Context, partitions []int) ([]position.Stored, error) {
	if f.failures.Add(-1) >= 0 {
		return nil, errBoom
	}
	return f.Memory.Load(ctx, partitions)
}

// Where a partition began without anything stored is stored, for whoever takes it over.
func TestAPartitionThatMovesGoesOnWhereItBegan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.StartFrom = restatestart.FromNow()
		w.publish(0, "old", "older")
		w.run(&recorder{})
		pass(5 * time.Second)
		assert.Equal(t, "2-0", w.position(0))
		require.NoError(t, w.stop())
	})
}
