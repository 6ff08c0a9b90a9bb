package e2e_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/parked/parkedtest"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestParkedEntriesOnARealRedis(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprint("RESP", protocol), func(t *testing.T) {
			t.Parallel()
			server := servers.StartRedis(t, servers.RedisOptions{})
			options := clientOptions(server.Addr())
			options.Protocol = protocol
			putThroughParked(t, connectWith(t, options), server.Version())
		})
	}
}

// In a cluster a script may touch the keys of one slot only.
func TestParkedEntriesOnAClusterNode(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Cluster: true})
	node := server.Client()
	require.NoError(t, node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	require.Eventually(t, func() bool {
		text, err := node.ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(text, "cluster_state:ok")
	}, patience, interval)
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{server.Addr()}, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	putThroughParked(t, client, server.Version())
}

func putThroughParked(t *testing.T, client redis.UniversalClient, version string) {
	t.Helper()
	var opened atomic.Int64
	t.Cleanup(func() { t.Logf("%d stores on redis-server %s", opened.Load(), version) })
	parkedtest.Run(t, func(t *testing.T) parkedtest.Harness {
		t.Helper()
		keys := wire.Keys{Prefix: "e2e:", Topic: fmt.Sprintf("parked-%d", opened.Add(1))}
		return parkedtest.OnRedis(t, client, keys, consumerName, parked.NewRedis(client, keys, consumerName))
	})
}

// Nothing of the parked entries is lost with the server, nor parked twice when an answer is lost.
func TestKillsOfRedisWhileEntriesAreParked(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	bets := newTopic(t, connect(t, server.Addr()), "bets_settled", 2)
	const entries, kills = 2000, 4
	seen := &handled{}
	consumer := run(t, connect(t, server.Addr()), bets, seen, restatestart.ConsumerOptions{
		BatchSize: 5, OnMalformed: restatestart.MalformedPark, HoldMin: 20 * time.Millisecond, HoldMax: 100 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	parkedThen := []int64{}
	for kill := range kills {
		pipeline := bets.client.Pipeline()
		for i := range entries / kills {
			body := fmt.Sprintf("{bad %d", kill*entries/kills+i)
			pipeline.XAdd(t.Context(), &redis.XAddArgs{Stream: bets.Stream(i % 2), Values: []string{"b", body}})
		}
		_, err := pipeline.Exec(t.Context())
		require.NoError(t, err)
		rest(t.Context(), 20*time.Millisecond) // it is in the middle of them
		require.NoError(t, server.Kill())
		require.NoError(t, server.Restart(t.Context()))
		parkedThen = append(parkedThen, server.Client().XLen(t.Context(), bets.Parked(consumerName)).Val())
	}
	require.Eventually(t, func() bool {
		behind, err := bets.behind(t.Context())
		return err == nil && len(behind) == 0
	}, patience, interval)
	list, err := consumer.Parked(t.Context(), restatestart.ParkedPage{Limit: 2 * entries})
	require.NoError(t, err)
	bodies := map[string]int{}
	for _, entry := range list {
		body, _ := entry.Body()
		bodies[string(body)]++
	}
	assert.Len(t, list, entries)
	assert.Len(t, bodies, entries)
	stream, err := server.Client().XInfoStream(t.Context(), bets.Parked(consumerName)).Result()
	require.NoError(t, err)
	assert.Equal(t, int64(entries), stream.EntriesAdded)
	assert.Empty(t, seen.entries())
	t.Logf("%d entries parked over %d kills of redis-server, each once; %v after the kills", entries, kills, parkedThen)
}

// The commands that the README says parking needs suffice. Whichever of them is missing, nothing moves, nothing is parked
// twice, and all goes on once it is granted.
func TestTheReadmesPermissionsSufficeForParking(t *testing.T) {
	t.Parallel()
	needed := []string{"xrange", "xadd", "xlen", "hkeys"}
	removal := []string{"xrange", "xdel", "hkeys"}
	for _, missing := range append([]string{"", "hget", "hset"}, needed...) {
		t.Run("without "+missing, func(t *testing.T) {
			t.Parallel()
			server := servers.StartRedis(t, servers.RedisOptions{})
			admin := server.Client()
			bets := newTopic(t, admin, "bets_settled", 1)
			rules := []any{
				"ACL", "SETUSER", "service", "on", ">secret", "~?:{bets_settled}*", "~parked*:{bets_settled}:payout", "-@all", "+hello", "+client",
			}
			for _, command := range append([]string{"xread", "xinfo|stream", "hmget", "eval", "evalsha", "hget", "hset", "hdel"}, needed...) {
				if command != missing {
					rules = append(rules, "+"+command)
				}
			}
			require.NoError(t, admin.Do(t.Context(), rules...).Err())
			options := clientOptions(server.Addr())
			options.Username, options.Password = "service", "secret"
			id, err := admin.XAdd(t.Context(), &redis.XAddArgs{Stream: bets.Stream(0), Values: []string{"b", "{bad"}}).Result()
			require.NoError(t, err)
			log := newErrorLog(t)
			consumer := run(t, connectWith(t, options), bets, &handled{}, restatestart.ConsumerOptions{
				OnMalformed: restatestart.MalformedPark, HoldMax: 200 * time.Millisecond, HoldMin: 20 * time.Millisecond, Logger: slog.New(log),
			})
			if missing != "" {
				require.Eventually(t, func() bool {
					blocked := consumer.blocked(0)
					return blocked != nil && blocked.Attempts > 3 && strings.Contains(blocked.Error, "NOPERM") ||
						blocked != nil && blocked.Attempts > 3 && strings.Contains(blocked.Error, "can't run this command")
				}, patience, interval)
				assert.Zero(t, admin.XLen(t.Context(), bets.Parked(consumerName)).Val())
				require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "service", "+"+missing).Err())
			}
			require.Eventually(t, func() bool {
				position, err := bets.position(t.Context(), 0)
				return err == nil && position == id
			}, patience, interval)
			require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "service", "+xrange").Err())
			list, err := consumer.Parked(t.Context(), restatestart.ParkedPage{})
			require.NoError(t, err)
			require.Len(t, list, 1, "parked once, whatever was missing")

			require.Error(t, consumer.Discard(t.Context(), list[0].ID), "without xdel")
			assert.Equal(t, int64(1), admin.XLen(t.Context(), bets.Parked(consumerName)).Val())
			for _, command := range removal {
				require.NoError(t, admin.Do(t.Context(), "ACL", "SETUSER", "service", "+"+command).Err())
			}
			require.NoError(t, consumer.Discard(t.Context(), list[0].ID))
			assert.Zero(t, admin.XLen(t.Context(), bets.Parked(consumerName)).Val())
		})
	}
}
