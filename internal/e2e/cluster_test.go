package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

func TestAClusterServesAConsumer(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Cluster: true})
	node := server.Client()
	require.NoError(t, node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	require.Eventually(t, func() bool {
		text, err := node.ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(text, "cluster_state:ok")
	}, patience, interval)
	restate, service := startPayouts(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{server.Addr()}, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	bets := newTopic(t, client, "bets_settled", 3)
	starter, answers := newStarter(t, restate, restatestart.Options{})

	const messages, every = 300, 5
	all := settled(messages, every)
	began := time.Now()
	consumer := run(t, client, bets, starter, restatestart.ConsumerOptions{})
	bets.publish(t, all)
	agree(t, bets, restate, payout.Workflow, service.Record, claims(all))
	consumer.stop(t)
	assert.Equal(t, counts{Accepted: messages / every}, answers.now())
	t.Logf("%d messages, %d kept, in %.1f s: %s", messages, messages/every, time.Since(began).Seconds(), answers.now())
}
