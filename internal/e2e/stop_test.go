package e2e_test

import (
	"context"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/redisstream"
)

// A cancelled context does not end a read that waits on the server.
func TestStoppingAnIdleConsumerTakesASecondAndLeavesNothingBehind(t *testing.T) { //nolint:paralleltest // it counts goroutines
	server, bets := newBets(t, 1, noFsync)
	connections := func() int {
		list, err := server.Client().ClientList(t.Context()).Result()
		require.NoError(t, err)
		return strings.Count(list, "\n")
	}
	baseConnections, baseGoroutines := connections(), runtime.NumGoroutine()

	const runs, lasting, limit = 10, 200 * time.Millisecond, 1200 * time.Millisecond
	client := redis.NewUniversalClient(kit.ClientOptions(server.Addr()))
	var longest time.Duration
	for n := range runs {
		seen := &handled{}
		consumer := run(t, client, bets, seen, redisstream.Options{})
		kit.Sleep(t.Context(), lasting)
		require.Equal(t, redisstream.StateRunning, consumer.Status().State)
		took := consumer.stop(t)
		longest = max(longest, took)
		assert.Less(t, took, limit, "run %d", n)
		assert.Empty(t, seen.entries())
		assert.Equal(t, redisstream.StateStopped, consumer.Status().State)
		// The client's pool may keep the connections, and the next run uses them again. Beside the reads, positions, lag and
		// growth are queried, one after the other only where the pool has no more connections.
		assert.LessOrEqual(t, connections(), baseConnections+consumer.Status().Connections+2, "run %d", n)
	}
	require.NoError(t, client.Close())
	// Eventually would add goroutines of its own.
	deadline := time.Now().Add(kit.Patience)
	for (runtime.NumGoroutine() > baseGoroutines || connections() > baseConnections) && time.Now().Before(deadline) {
		kit.Sleep(t.Context(), kit.Interval)
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), baseGoroutines)
	assert.Equal(t, baseConnections, connections())
	t.Logf("%d runs without a message, the longest stop took %.2f s", runs, longest.Seconds())
}

func TestStoppingDuringAnOutageOfRedisKeepsToTheDrainTimeout(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*servers.Redis) error{
		"killed": (*servers.Redis).Kill,
		// It keeps its connections and answers nothing.
		"paused": func(server *servers.Redis) error {
			return server.Client().Do(context.Background(), "CLIENT", "PAUSE", "60000", "ALL").Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, bets := newBets(t, 2, servers.RedisOptions{})
			const messages, drain, slack = 100, 2 * time.Second, 500 * time.Millisecond
			seen := &handled{}
			consumer := run(t, connect(t, server), bets, seen, redisstream.Options{DrainTimeout: drain})
			bets.Publish(t, settled(messages, 1))
			seen.await(t, messages)
			require.NoError(t, breakIt(server))
			if name == "killed" {
				blocked := consumer.awaitBlocked(t, 0)
				assert.Equal(t, "read", blocked.Cause)
				assert.True(t, consumer.alive())
			}
			kit.Sleep(t.Context(), 1500*time.Millisecond) // until reads fail, or wait

			took := consumer.stop(t)
			// A read that does not return takes nearly all of Run's second more; the slack is for a busy machine.
			assert.Less(t, took, drain+time.Second+slack)
			assert.Len(t, seen.entries(), messages)
			t.Logf("%d messages; stopped within %.2f s", messages, took.Seconds())
		})
	}
}

// Two partitions share the bets evenly, so that each one's batches contain 100 of them and 20 claims. The second batches begin
// with bet 200, and the proxy holds their starts from bet 300 on, as many as are posted at once.
func TestStoppingAServiceAmidItsBatches(t *testing.T) {
	t.Parallel()
	const (
		messages, every, partitions     = 1_000, 5, 2
		inFirstBatches, inSecondBatches = 40, 40
		notHeld                         = 60
		inFlight                        = partitions * restatestart.DefaultMaxParallelism
		drain                           = 2 * time.Second
	)
	for name, row := range map[string]struct {
		drain   time.Duration
		answers bool // the proxy holds answers
		stop    func(t *testing.T, service *kit.Process, ingress *kit.Ingress)
		started int
		stored  int
	}{
		"SIGTERM finishes the batches in flight": {
			stop: func(t *testing.T, service *kit.Process, ingress *kit.Ingress) {
				t.Helper()
				service.Signal(syscall.SIGTERM)
				assert.False(t, service.Await(500*time.Millisecond), "it waits for its starts")
				ingress.Open()
				terminate(t, service, redisstream.DefaultDrainTimeout+time.Second)
			},
			started: inFirstBatches + inSecondBatches, stored: inFirstBatches + inSecondBatches,
		},
		"SIGTERM ends batches that take too long": {
			drain: drain,
			stop: func(t *testing.T, service *kit.Process, _ *kit.Ingress) {
				t.Helper()
				began := time.Now()
				terminate(t, service, drain+time.Second)
				assert.GreaterOrEqual(t, time.Since(began), drain)
			},
			started: notHeld, stored: inFirstBatches,
		},
		"SIGKILL leaves what was not stored to be redelivered": {
			answers: true,
			stop:    func(_ *testing.T, service *kit.Process, _ *kit.Ingress) { service.Kill() },
			started: notHeld + inFlight, // Restate has accepted starts of which the service has no answer
			stored:  inFirstBatches,     // at most: positions are stored after the answers, once a second
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, bets := newBets(t, partitions, servers.RedisOptions{})
			restate, payouts, ingress := startPayouts(t)
			all := settled(messages, every)
			bets.Publish(t, all)
			config := serviceConfig{Redis: server.Addr(), Topic: bets.Topic, Ingress: ingress.URL, DrainTimeout: row.drain}
			ingress.Hold(row.answers, func(claim string) bool { return claim >= "c-00300" })
			service := startService(t, config)
			ingress.AwaitHeld(t, inFlight)
			row.stop(t, service, ingress)

			behind, err := bets.Behind(t.Context())
			require.NoError(t, err)
			require.Len(t, behind, partitions, "it was stopped in the middle")
			assert.Equal(t, row.started, ingress.Counts().Accepted)
			stored := countClaims(bets.Bodies(t))
			if row.answers {
				assert.LessOrEqual(t, stored, row.stored)
			} else {
				assert.Equal(t, row.stored, stored)
			}

			ingress.AwaitHeld(t, 0)
			ingress.Open()
			service = startService(t, config)
			assertStartedOnce(t, bets, restate, payout.Workflow, payouts, claims(all))
			terminate(t, service, kit.Patience)
			counts := ingress.Counts()
			assert.Equal(t, []int{messages / every, row.started - stored}, []int{counts.Accepted, counts.Repeated}, "what was accepted and not stored is posted again")
			t.Logf("%d messages, %d kept; stopped after %d starts, of which %d were stored; in the end %s",
				messages, messages/every, row.started, stored, counts)
		})
	}
}
