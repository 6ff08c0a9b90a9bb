package e2e_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// Two partitions share the bets evenly, so that each one's batches hold 100 of them and 20 claims. The second batches
// begin with bet 200, and their starts from bet 300 on are those that the gate holds, as many as are under way at once.
const (
	shutdownMessages   = 1_000
	shutdownEvery      = 5
	shutdownPartitions = 2

	inFirstBatches  = 40
	inSecondBatches = 40
	passing         = 60
	underWay        = shutdownPartitions * restatestart.DefaultMaxParallelism
)

func fromTheMiddleOfTheSecondBatches(claim string) bool { return claim >= "c-00300" }

// shutdown is what each of these tests has: a topic full of bets and a gate between the service and Restate.
type shutdown struct {
	restate *servers.Restate
	payouts *payout.Service
	topic   *topic
	gate    *gate
	bets    []bet
	service serviceConfig
}

func newShutdown(t *testing.T, drain time.Duration) *shutdown {
	t.Helper()
	redis := servers.StartRedis(t, servers.RedisOptions{})
	s := &shutdown{bets: settled(shutdownMessages, shutdownEvery)}
	s.restate, s.payouts = startPayouts(t)
	s.gate = newGate(t, s.restate)
	s.topic = newTopic(t, redis.Client(), "bets_settled", shutdownPartitions)
	s.topic.publish(t, s.bets)
	s.service = serviceConfig{Redis: redis.Addr(), Topic: s.topic.Topic, Ingress: s.gate.url, DrainTimeout: drain}
	return s
}

// finish opens the gate, starts the service again, and sees to it that everything was started once.
func (s *shutdown) finish(t *testing.T) {
	t.Helper()
	s.gate.awaitWaiting(t, 0)
	s.gate.open()
	service := startService(t, s.service)
	agree(t, s.topic, s.restate, payout.Workflow, s.payouts.Record, claims(s.bets))
	require.NoError(t, service.command.Process.Signal(syscall.SIGTERM))
	assert.Zero(t, service.await(patience), "an idle service stops cleanly")
}

func (s *shutdown) assertPositionsAreWithin(t *testing.T) {
	t.Helper()
	behind, err := s.topic.behind(t.Context())
	require.NoError(t, err)
	require.Len(t, behind, shutdownPartitions, "there is no middle to stop it in")
}

func TestSIGTERMLetsTheBatchInHandFinish(t *testing.T) {
	t.Parallel()
	s := newShutdown(t, restatestart.DefaultDrainTimeout)
	s.gate.shutBefore(fromTheMiddleOfTheSecondBatches)
	service := startService(t, s.service)
	s.gate.awaitWaiting(t, underWay)

	asked := time.Now()
	require.NoError(t, service.command.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, -1, service.await(500*time.Millisecond), "it waits for its starts")
	s.gate.open()
	assert.Zero(t, service.await(restatestart.DefaultDrainTimeout+time.Second), "exit code")
	took := time.Since(asked)

	s.assertPositionsAreWithin(t)
	started := s.gate.now().Accepted
	assert.Equal(t, inFirstBatches+inSecondBatches, started, "the batches in hand were finished, and no other begun")
	assert.Equal(t, started, countClaims(s.topic.bodiesUpToPositions(t)), "and stored")
	s.finish(t)
	assert.Equal(t, counts{Accepted: shutdownMessages / shutdownEvery}, s.gate.now())
	t.Logf("%d messages, %d kept; stopped after %d starts within %.2f s; in the end %s",
		shutdownMessages, shutdownMessages/shutdownEvery, started, took.Seconds(), s.gate.now())
}

func TestSIGTERMEndsABatchThatTakesTooLong(t *testing.T) {
	t.Parallel()
	const drain = 2 * time.Second
	s := newShutdown(t, drain)
	s.gate.shutBefore(fromTheMiddleOfTheSecondBatches)
	service := startService(t, s.service)
	s.gate.awaitWaiting(t, underWay)

	asked := time.Now()
	require.NoError(t, service.command.Process.Signal(syscall.SIGTERM))
	assert.Zero(t, service.await(drain+time.Second), "exit code")
	took := time.Since(asked)
	assert.GreaterOrEqual(t, took, drain)

	s.assertPositionsAreWithin(t)
	started := s.gate.now().Accepted
	assert.Equal(t, passing, started)
	done := countClaims(s.topic.bodiesUpToPositions(t))
	assert.Equal(t, inFirstBatches, done, "the batches in hand are not done")
	s.finish(t)
	assert.Equal(t, counts{Accepted: shutdownMessages / shutdownEvery, Repeated: started - done}, s.gate.now(),
		"what was accepted of the batches in hand is posted again")
	t.Logf("%d messages, %d kept; stopped after %d starts within %.2f s; in the end %s",
		shutdownMessages, shutdownMessages/shutdownEvery, started, took.Seconds(), s.gate.now())
}

func TestSIGKILLHandsOverAgainWhatWasNotStored(t *testing.T) {
	t.Parallel()
	s := newShutdown(t, restatestart.DefaultDrainTimeout)
	s.gate.shutBehind(fromTheMiddleOfTheSecondBatches)
	service := startService(t, s.service)
	s.gate.awaitWaiting(t, underWay)

	require.NoError(t, service.command.Process.Kill())
	assert.Equal(t, -1, service.await(patience))
	s.assertPositionsAreWithin(t)
	started := s.gate.now().Accepted
	assert.Equal(t, passing+underWay, started, "Restate has accepted what the service never heard of")
	done := countClaims(s.topic.bodiesUpToPositions(t))
	assert.LessOrEqual(t, done, inFirstBatches, "positions are stored after the answers, and every second")
	s.finish(t)
	assert.Equal(t, counts{Accepted: shutdownMessages / shutdownEvery, Repeated: started - done}, s.gate.now())
	t.Logf("%d messages, %d kept; killed after %d starts, of which %d were stored; in the end %s",
		shutdownMessages, shutdownMessages/shutdownEvery, started, done, s.gate.now())
}
