package e2e_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

func TestAConsumerFollowsAFailover(t *testing.T) {
	t.Parallel()
	const group = "bets"
	primary := servers.StartRedis(t, servers.RedisOptions{})
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	replica := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--replicaof", host, port}})
	sentinel := servers.StartRedis(t, servers.RedisOptions{Sentinel: []string{
		"sentinel monitor " + group + " " + host + " " + port + " 1",
		"sentinel down-after-milliseconds " + group + " 1000",
		"sentinel failover-timeout " + group + " 5000",
	}})
	restate, service := startPayouts(t)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: group, SentinelAddrs: []string{sentinel.Addr()}, DisableIdentity: true,
	})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	bets := newTopic(t, client, "bets_settled", 2)
	starter, answers := newStarter(t, restate, restatestart.Options{})

	const messages, every, chunk, pause = 400, 5, 10, 10 * time.Millisecond
	all := settled(messages, every)
	began := time.Now()
	consumer := run(t, client, bets, starter, restatestart.ConsumerOptions{HoldMax: 2 * time.Second})
	_, err = bets.spread(t.Context(), all[:messages/2], chunk, pause)
	require.NoError(t, err)
	answers.awaitAccepted(t, messages/every/4)

	// Replication is asynchronous: what the replica has not got by now would be lost, whoever consumes it.
	copies, err := primary.Client().Wait(t.Context(), 1, patience).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, copies)
	require.Eventually(t, func() bool {
		// Refused until the sentinel has found the replica.
		return sentinel.Client().Do(t.Context(), "SENTINEL", "FAILOVER", group).Err() == nil
	}, patience, 100*time.Millisecond)
	_, replicaPort, err := net.SplitHostPort(replica.Addr())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		text, err := client.Info(t.Context()).Result()
		return err == nil && strings.Contains(text, "tcp_port:"+replicaPort) && strings.Contains(text, "role:master")
	}, patience, interval, "the client has moved to the replica")
	promoted := time.Since(began)

	_, err = bets.spread(t.Context(), all[messages/2:], chunk, pause)
	require.NoError(t, err)
	agree(t, bets, restate, payout.Workflow, service.Record, claims(all))
	assert.True(t, consumer.alive())
	consumer.stop(t)
	kept := int64(0)
	for partition := range bets.partitions {
		length, err := replica.Client().XLen(t.Context(), bets.Stream(partition)).Result()
		require.NoError(t, err)
		kept += length
	}
	assert.EqualValues(t, messages, kept, "the replica has them all")
	assert.Equal(t, messages/every, answers.now().Accepted)
	t.Logf("%d messages, %d kept, in %.1f s, on the replica after %.1f s: %s",
		messages, messages/every, time.Since(began).Seconds(), promoted.Seconds(), answers.now())
}
