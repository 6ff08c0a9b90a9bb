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

// startPayouts starts a restate-server that knows the payout service.
func startPayouts(t *testing.T) (*servers.Restate, *payout.Service) {
	t.Helper()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	service := payout.StartService(t)
	register(t, restate, service)
	return restate, service
}

func register(t *testing.T, restate *servers.Restate, service *payout.Service) {
	t.Helper()
	_, err := restate.Register(t.Context(), service.URL())
	require.NoError(t, err)
}

func TestTwentyThousandMessagesStartTwoThousandPayoutsOnce(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	redis := servers.StartRedis(t, servers.RedisOptions{})
	restate, service := startPayouts(t)
	client := connect(t, redis.Addr())
	bets := newTopic(t, client, "bets_settled", 4)
	starter, answers := newStarter(t, restate, restatestart.Options{})

	const messages, every = 20_000, 10
	all := settled(messages, every)
	began := time.Now()
	consumer := run(t, client, bets, starter, restatestart.ConsumerOptions{})
	bets.publish(t, all)
	answers.awaitAccepted(t, messages/every)
	accepted := time.Since(began)
	agree(t, bets, restate, payout.Workflow, service.Record, claims(all))
	consumer.stop(t)

	passed := int64(0)
	for _, partition := range consumer.Status().Partitions {
		passed += partition.Passed
	}
	assert.EqualValues(t, messages, passed)
	assert.Equal(t, counts{Accepted: messages / every}, answers.now(), "nothing was posted twice")
	t.Logf("%d messages, %d kept, all accepted within %.1f s, run within %.1f s: %s",
		messages, messages/every, accepted.Seconds(), time.Since(began).Seconds(), answers.now())
}
