package e2e_test

import (
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/servers"
)

func TestRedisKeepsAcknowledgedEntriesOverKillAndStop(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	t.Log("redis-server", server.Version())
	client, address := server.Client(), server.Addr()

	first := client.XAdd(t.Context(), &redis.XAddArgs{Stream: "s:bets:0", Values: []string{"body", "1"}}).Val()
	require.NotEmpty(t, first)
	require.NoError(t, server.Kill())
	require.Error(t, client.Ping(t.Context()).Err(), "a killed server answers nothing")
	require.NoError(t, server.Kill(), "killing it again does nothing")
	require.NoError(t, server.Restart(t.Context()))

	second := client.XAdd(t.Context(), &redis.XAddArgs{Stream: "s:bets:0", Values: []string{"body", "2"}}).Val()
	require.NoError(t, server.Stop())
	require.NoError(t, server.Restart(t.Context()))
	require.NoError(t, server.Restart(t.Context()), "a running one is stopped first")

	entries, err := client.XRange(t.Context(), "s:bets:0", "-", "+").Result()
	require.NoError(t, err)
	require.Len(t, entries, 2)
	assert.Equal(t, []string{first, second}, []string{entries[0].ID, entries[1].ID})
	assert.Equal(t, address, server.Addr())
}

func TestARestartWaitsForItsPort(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	require.NoError(t, server.Client().Set(t.Context(), "kept", "yes", 0).Err())
	require.NoError(t, server.Kill())

	squatter, err := net.Listen("tcp", server.Addr())
	require.NoError(t, err)
	leaving := time.AfterFunc(300*time.Millisecond, func() { _ = squatter.Close() })
	defer leaving.Stop()
	require.NoError(t, server.Restart(t.Context()))
	assert.Equal(t, "yes", server.Client().Get(t.Context(), "kept").Val())
}

func TestRedisTakesSettings(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Fsync: "everysec", Args: []string{"--maxmemory", "8mb"}})

	settings, err := server.Client().ConfigGet(t.Context(), "*").Result()
	require.NoError(t, err)
	assert.Equal(t, "everysec", settings["appendfsync"])
	assert.Equal(t, "yes", settings["appendonly"])
	assert.Empty(t, settings["save"])
	assert.Equal(t, "8388608", settings["maxmemory"])
	assert.Equal(t, "127.0.0.1", settings["bind"])
}

func TestRedisThatCannotStartShowsItsLog(t *testing.T) {
	t.Parallel()
	servers.StartRedis(t, servers.RedisOptions{}) // skips where there is none

	_, err := servers.LaunchRedis(t.Context(), servers.RedisOptions{Args: []string{"--maxmemory", "plenty"}})
	require.ErrorContains(t, err, "start redis-server: it ended")
	assert.ErrorContains(t, err, "maxmemory")
}
