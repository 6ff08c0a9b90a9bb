package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/internal/wire"
)

// Field report B64: two consumers of one name on one stream, one slower than the other, as in a deployment's overlap.
func TestASecondWriterStartsNothingTwiceAndMovesNoPositionBack(t *testing.T) {
	t.Parallel()
	redis := servers.StartRedis(t, servers.RedisOptions{})
	restate, service := startPayouts(t)
	bets := newTopic(t, redis.Client(), "bets_settled", 1)
	const messages, batch = 200, 10
	all := settled(messages, 1)

	starter, quick := newStarter(t, restate, restatestart.Options{})
	slowStarter, slow := newStarter(t, restate, restatestart.Options{})
	slow.delay = 50 * time.Millisecond
	options := restatestart.ConsumerOptions{BatchSize: batch, Persist: restatestart.PersistEachBatch}

	stopSampling := make(chan struct{})
	sampled := make(chan sample, 1)
	go func() { sampled <- bets.samplePositions(t.Context(), stopSampling) }()
	began := time.Now()
	behind := run(t, connect(t, redis.Addr()), bets, slowStarter, options)
	bets.publish(t, all[:messages/2])
	slow.awaitAccepted(t, batch)
	ahead := run(t, connect(t, redis.Addr()), bets, starter, options)
	bets.publish(t, all[messages/2:])

	require.Eventually(t, func() bool {
		return behind.Status().Partitions[0].Passed == messages
	}, patience, interval, "the slow one is done too")
	agree(t, bets, restate, payout.Workflow, service.Record, claims(all))
	took := time.Since(began)
	ahead.stop(t)
	behind.stop(t)
	close(stopSampling)

	seen := <-sampled
	require.NoError(t, seen.err)
	positions := seen.positions
	var last wire.ID
	for _, text := range positions {
		id, err := wire.ParseID(text)
		require.NoError(t, err)
		assert.Positive(t, id.Compare(last), "%s after %s", id, last)
		last = id
	}
	assert.Greater(t, len(positions), 3, "positions were seen on their way")
	a, b := quick.now(), slow.now()
	assert.Equal(t, messages, a.Accepted+b.Accepted)
	assert.Equal(t, messages, b.Accepted+b.Repeated, "the slow one has posted everything")
	t.Logf("%d messages, all kept, in %.1f s, %d positions seen; one: %s; the other, %s slower: %s",
		messages, took.Seconds(), len(positions), a, slow.delay, b)
}

// sample is what was seen of a stored position.
type sample struct {
	positions []string
	err       error
}

// samplePositions looks at the stored position of partition 0 until it is told to stop, and returns each one that is not
// the one before it.
func (p *topic) samplePositions(ctx context.Context, stop <-chan struct{}) sample {
	var seen sample
	for {
		stored, err := p.position(ctx, 0)
		if err != nil {
			seen.err = err
			return seen
		}
		if n := len(seen.positions); stored != "" && (n == 0 || seen.positions[n-1] != stored) {
			seen.positions = append(seen.positions, stored)
		}
		select {
		case <-stop:
			return seen
		case <-ctx.Done():
			return seen
		case <-time.After(2 * time.Millisecond):
		}
	}
}
