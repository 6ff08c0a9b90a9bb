package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

func TestNoStartIsLostOrMadeTwiceOverTwoKillsOfRestate(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	redis := servers.StartRedis(t, servers.RedisOptions{})
	restate, service := startPayouts(t)
	client := connect(t, redis.Addr())
	bets := newTopic(t, client, "bets_settled", 4)
	// Two attempts: while Restate is down, partitions block rather than wait inside Handle.
	starter, answers := newStarter(t, restate, restatestart.Options{MaxAttempts: 2})

	const messages, every, chunk, pause = 3_000, 5, 10, 15 * time.Millisecond
	all := settled(messages, every)
	began := time.Now()
	consumer := run(t, client, bets, starter, restatestart.ConsumerOptions{HoldMax: 2 * time.Second})
	published := make(chan error, 1)
	go func() {
		_, err := bets.spread(t.Context(), all, chunk, pause)
		published <- err
	}()

	for _, killAt := range []int{messages / every / 4, messages / every / 2} {
		answers.awaitAccepted(t, killAt)
		require.NoError(t, restate.Kill())
		require.Less(t, answers.now().Accepted, messages/every, "there is no middle to kill it in")
		var held *restatestart.Blocked
		require.Eventually(t, func() bool {
			for partition := range bets.partitions {
				if held = consumer.blocked(partition); held != nil {
					return true
				}
			}
			return false
		}, patience, interval, "a partition blocks")
		assert.Equal(t, "starts", held.Cause)
		require.NotEmpty(t, held.Failed)
		assert.Contains(t, []restatestart.Reason{restatestart.ReasonUnreachable, restatestart.ReasonServer}, held.Failed[0].Reason)
		require.NoError(t, restate.Restart(t.Context()))
	}

	require.NoError(t, <-published)
	agree(t, bets, restate, payout.Workflow, service.Record, claims(all))
	for partition := range bets.partitions {
		assert.Nil(t, consumer.blocked(partition))
	}
	t.Logf("%d messages, %d kept, in %.1f s: %s", messages, messages/every, time.Since(began).Seconds(), answers.now())
}
