package e2e_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// Field report B01: a cancelled context does not end a read that waits on the server.
func TestStoppingAnIdleConsumerTakesASecondAndLeavesNothingBehind(t *testing.T) { //nolint:paralleltest // it counts goroutines
	server := servers.StartRedis(t, servers.RedisOptions{})
	connections := func() int {
		list, err := server.Client().ClientList(t.Context()).Result()
		require.NoError(t, err)
		return strings.Count(list, "\n")
	}
	baseConnections := connections()
	baseGoroutines := runtime.NumGoroutine()

	const runs, running, limit = 10, 200 * time.Millisecond, 1200 * time.Millisecond
	client := redis.NewClient(clientOptions(server.Addr()))
	bets := newTopic(t, server.Client(), "bets_settled", 1)
	var longest time.Duration
	for n := range runs {
		seen := &handled{}
		consumer, err := restatestart.NewConsumer(client, bets.Topic, restatestart.JSON[bet], seen,
			restatestart.ConsumerOptions{Consumer: consumerName, Logger: logTo(t)})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- consumer.Run(ctx) }()
		rest(t.Context(), running)
		require.Equal(t, restatestart.StateRunning, consumer.Status().State)

		asked := time.Now()
		cancel()
		require.NoError(t, <-ended)
		took := time.Since(asked)
		longest = max(longest, took)
		assert.Less(t, took, limit, "run %d", n)
		assert.Empty(t, seen.entries())
		assert.Equal(t, restatestart.StateStopped, consumer.Status().State)
		// The user's pool may keep what a run used, and the next run takes it from there. Beside the reads, positions, lag and
		// growth are asked for, which take turns on one connection only where the pool has no more.
		assert.LessOrEqual(t, connections(), baseConnections+consumer.Status().Connections+2, "run %d", n)
	}

	require.NoError(t, client.Close())
	require.Eventually(t, func() bool { return connections() == baseConnections }, patience, interval)
	// Eventually has goroutines of its own.
	deadline := time.Now().Add(patience)
	for runtime.NumGoroutine() > baseGoroutines && time.Now().Before(deadline) {
		rest(t.Context(), interval)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), baseGoroutines)
	t.Logf("%d runs without a message, the longest stop took %.2f s", runs, longest.Seconds())
}

func TestStoppingWhileRedisIsAwayKeepsToTheDrainTimeout(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*servers.Redis) error{
		"killed": (*servers.Redis).Kill,
		// It keeps its connections and answers nothing.
		"frozen": func(server *servers.Redis) error {
			return server.Client().Do(context.Background(), "CLIENT", "PAUSE", "60000", "ALL").Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.StartRedis(t, servers.RedisOptions{})
			bets := newTopic(t, connect(t, server.Addr()), "bets_settled", 2)
			const messages, drain, slack = 100, 2 * time.Second, 500 * time.Millisecond
			seen := &handled{}
			consumer := run(t, connect(t, server.Addr()), bets, seen, restatestart.ConsumerOptions{DrainTimeout: drain})
			bets.publish(t, settled(messages, 1))
			seen.await(t, messages, patience)
			require.NoError(t, leave(server))
			rest(t.Context(), 1500*time.Millisecond) // reads have begun to fail, or to wait

			took := consumer.stop(t)
			// Run takes nearly all of its second more when a read does not come back; the rest is for a busy machine.
			assert.Less(t, took, drain+time.Second+slack)
			assert.Len(t, seen.entries(), messages)
			t.Logf("%d messages; stopped within %.2f s", messages, took.Seconds())
		})
	}
}

func TestAClosedClientEndsTheRun(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	bets := newTopic(t, connect(t, server.Addr()), "bets_settled", 1)
	client := redis.NewClient(clientOptions(server.Addr()))
	consumer, err := restatestart.NewConsumer(client, bets.Topic, restatestart.JSON[bet], &handled{},
		restatestart.ConsumerOptions{Consumer: consumerName, Logger: logTo(t)})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	rest(ctx, 500*time.Millisecond)
	closed := time.Now()
	require.NoError(t, client.Close())
	require.ErrorIs(t, <-ended, redis.ErrClosed)
	require.NoError(t, ctx.Err())
	t.Logf("no message; ended %.1f s after its client was closed", time.Since(closed).Seconds())
}
