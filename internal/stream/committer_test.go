package stream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestPersistEachWritesBeforeTheNextBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.PersistEach = true
		h.config.PersistInterval = time.Hour
		h.add(0, 1, 6)
		var seen []string
		h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			seen = append(seen, h.position(0))
			if len(seen) == 2 {
				h.store.fail(errors.New("LOADING Redis is loading the dataset in memory"))
			}
			return stream.Verdict{}
		}
		h.run()
		h.add(0, 7, 9)
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"0-0", "3-0"}, seen, "the third waits for the second's position")
		assert.Equal(t, stream.CausePositions, h.status(0).Blocked.Cause)
		h.store.fail(nil)
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"0-0", "3-0", "6-0"}, seen)
		assert.Nil(t, h.status(0).Blocked)
		h.stop()
	})
}

// Partitions do not wait for each other's commits.
func TestC3PersistEachKeepsPartitionsApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		partitions := []int{0, 1, 2, 3, 4, 5, 6, 7}
		h := newHarness(t, partitions...)
		h.config.PersistEach, h.config.BatchSize, h.config.PersistInterval = true, 1, time.Hour
		h.config.Store = slowStore{h.store, 100 * time.Millisecond, false}
		for _, partition := range partitions {
			h.add(partition, 1, 100)
		}
		h.run()
		testkit.Pass(4050 * time.Millisecond)
		for _, partition := range partitions {
			assert.Equal(t, "40-0", h.position(partition))
		}
		h.stop()
	})
}

// A failover may keep an entry and lose the position behind it. It is restored even when nothing more is published.
func TestAPositionThatTheServerLostIsWrittenAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 3)
		h.run()
		testkit.Pass(40 * time.Second)
		require.Equal(t, "3-0", h.position(0))
		h.store.Forget(0)
		require.Equal(t, "0-0", h.position(0))
		testkit.Pass(1500 * time.Millisecond)
		assert.Equal(t, "3-0", h.position(0))
		assert.Len(t, h.deliveries(), 1)
		h.stop()
	})
}
