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

func TestNoStartIsLostOrMadeTwiceOverTwoKillsOfRedis(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	redis := servers.StartRedis(t, servers.RedisOptions{Fsync: "always"})
	restate, service := startPayouts(t)
	// The publisher's client repeats nothing by itself.
	bets := newTopic(t, redis.Client(), "bets_settled", 4)
	starter, answers := newStarter(t, restate, restatestart.Options{})

	const messages, every, chunk, pause = 3_000, 5, 10, 15 * time.Millisecond
	all := settled(messages, every)
	began := time.Now()
	consumer := run(t, connect(t, redis.Addr()), bets, starter, restatestart.ConsumerOptions{HoldMax: 2 * time.Second})
	type published struct {
		repeats int
		err     error
	}
	done := make(chan published, 1)
	go func() {
		repeats, err := bets.spread(t.Context(), all, chunk, pause)
		done <- published{repeats, err}
	}()

	for _, killAt := range []int{messages / every / 4, messages / every / 2} {
		answers.awaitAccepted(t, killAt)
		require.NoError(t, redis.Kill())
		require.Less(t, answers.now().Accepted, messages/every, "there is no middle to kill it in")
		require.Eventually(t, func() bool {
			blocked := consumer.blocked(0)
			return blocked != nil && blocked.Cause == "read"
		}, patience, interval, "the status tells that it is down")
		assert.True(t, consumer.alive())
		require.NoError(t, redis.Restart(t.Context()))
	}
	publishing := <-done
	require.NoError(t, publishing.err)
	assert.Positive(t, publishing.repeats, "publishing went on while Redis was down")
	// What a publisher adds again although its first try was applied. The kills may have made such bets too, or not.
	const again = 10
	bets.publish(t, all[:again*every])

	agree(t, bets, restate, payout.Workflow, service.Record, claims(all))
	assert.True(t, consumer.alive())
	bodies := bets.bodiesUpToPositions(t)
	twice := countClaims(bodies) - messages/every
	assert.GreaterOrEqual(t, twice, again)
	assert.Equal(t, counts{Accepted: messages / every, Repeated: twice}, answers.now(),
		"a bet that is there twice was previously accepted, and nothing else was")
	t.Logf("%d messages, %d kept, in %.1f s; %d adds repeated, %d entries twice: %s",
		messages, messages/every, time.Since(began).Seconds(), publishing.repeats, len(bodies)-messages, answers.now())
}
