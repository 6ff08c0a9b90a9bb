package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/wire"
)

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

func (c *counting) Read(ctx context.Context, partition int, ask stream.Ask) (stream.Answer, error) {
	c.asked = append(c.asked, ask.Count)
	if ask.Count > c.most {
		return stream.Answer{}, fmt.Errorf("read: %w", os.ErrDeadlineExceeded)
	}
	return c.Source.Read(ctx, partition, ask)
}
