package e2e_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/preflight"
	"github.com/redisevents/restatestart/redisstream"
)

func TestTwentyThousandMessagesStartTwoThousandPayoutsOnce(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	server, bets := newBets(t, 4, servers.RedisOptions{})
	restate, service, ingress := startPayouts(t)
	starter := newStarter(t, restatestart.Options{Ingress: ingress.URL})

	const messages, every = 20_000, 10
	all := settled(messages, every)
	began := time.Now()
	consumer := run(t, connect(t, server), bets, starter, redisstream.Options{})
	bets.Publish(t, all)
	ingress.AwaitAccepted(t, messages/every)
	accepted := time.Since(began)
	assertStartedOnce(t, bets, restate, payout.Workflow, service, claims(all))
	consumer.stop(t)

	processed := int64(0)
	for _, partition := range consumer.Status().Partitions {
		processed += partition.Processed
	}
	assert.EqualValues(t, messages, processed)
	assert.Equal(t, kit.Counts{Accepted: messages / every}, ingress.Counts(), "nothing was posted twice")
	t.Logf("%d messages, %d kept, all accepted within %.1f s, run within %.1f s: %s",
		messages, messages/every, accepted.Seconds(), time.Since(began).Seconds(), ingress.Counts())
}

// The preflight, which is not strict, finds the workflow once it is registered.
func TestAWorkflowThatIsRegisteredLateHoldsItsPartitionOnly(t *testing.T) {
	t.Parallel()
	const lateWorkflow, held = "LatePayout", 2
	server, bets := newBets(t, 4, servers.RedisOptions{})
	restate, service, ingress := startPayouts(t)
	late := payout.StartService(t, lateWorkflow)
	starter := newStarter(t, restatestart.Options{Ingress: ingress.URL})

	// Five batches a partition, and the second batch of one of them contains the late one.
	const perPartition, batch, lateAt = 100, 20, 33
	began := time.Now()
	var atOnce, behind []string // claims that can be started before the registration, and those that have to wait
	for partition := range bets.Partitions {
		for n := range perPartition {
			b := kit.Bet{ID: fmt.Sprintf("b-%d-%d", partition, n), Claim: fmt.Sprintf("c-%d-%d", partition, n)}
			switch {
			case partition == held && n == lateAt:
				b.Workflow = lateWorkflow
			case partition == held && n/batch > lateAt/batch:
				behind = append(behind, b.Claim)
			default:
				atOnce = append(atOnce, b.Claim)
			}
			bets.Add(t, partition, b)
		}
	}
	lateKey := fmt.Sprintf("c-%d-%d", held, lateAt)
	consumer := run(t, connect(t, server), bets, starter, redisstream.Options{
		BatchSize: batch, Preflight: &preflight.Options{
			AdminURL: restate.Admin(), Workflows: []preflight.Workflow{{Name: payout.Workflow}, {Name: lateWorkflow}},
		},
	})
	awaitCompleted(t, restate, payout.Workflow, len(atOnce))
	consumer.awaitBlocked(t, held)
	consumer.awaitIdle(t, bets.Partitions-1)
	kit.Sleep(t.Context(), time.Until(began.Add(5*time.Second)))

	status := consumer.Status()
	assert.Equal(t, redisstream.PreflightFailed, status.Preflight.State)
	require.Len(t, status.Preflight.Findings, 1)
	assert.Equal(t, preflight.UnknownWorkflow, status.Preflight.Findings[0].Code)
	for _, partition := range status.Partitions {
		if partition.Partition == held {
			assert.Equal(t, redisstream.StateBlocked, partition.State)
			assert.EqualValues(t, lateAt/batch*batch, partition.Processed, "its position is before the batch")
		} else {
			assert.Equal(t, redisstream.StateIdle, partition.State)
			assert.EqualValues(t, perPartition, partition.Processed)
		}
	}
	blocked := consumer.blocked(held)
	require.NotNil(t, blocked)
	assert.Equal(t, "starts", blocked.Cause)
	require.Len(t, blocked.Failed, 1, "its neighbours were accepted")
	failed := blocked.Failed[0]
	assert.Equal(t, []any{lateWorkflow, lateKey, restatestart.ReasonNotFound, "not_found", 404, bets.Stream(held)},
		[]any{failed.Workflow, failed.Key, failed.Reason, failed.Reason.String(), failed.Status, failed.Stream})
	assert.ElementsMatch(t, atOnce, slices.Collect(maps.Keys(service.Executions())), "what is not behind it has run")
	// The late one only, after waits of 1, 2, 4 and 8 s: a slow machine may be in the last of them.
	assert.LessOrEqual(t, ingress.Counts().Refused, 4)
	assert.Equal(t, len(atOnce), ingress.Counts().Accepted)

	register(t, restate, late)
	assertStartedOnce(t, bets, restate, payout.Workflow, service, append(atOnce, behind...))
	assertStartedOnce(t, bets, restate, lateWorkflow, late, []string{lateKey})
	assert.Nil(t, consumer.blocked(held))
	assert.Zero(t, ingress.Counts().Repeated, "what was accepted is not posted again")
	kit.Await(t, func() bool { return consumer.Status().Preflight.State == redisstream.PreflightPassed }, "the preflight passed")
	t.Logf("%d messages, all kept, in %.1f s: %s", bets.Partitions*perPartition, time.Since(began).Seconds(), ingress.Counts())
}

func TestPartitionsThatAreAddedAreReadWithTheSmallestPool(t *testing.T) {
	t.Parallel()
	server, bets := newBets(t, 2, noFsync)
	const grown, messages = 4, 400
	options := kit.ClientOptions(server.Addr())
	options.PoolSize = grown + 1 // the least that Run accepts
	seen := &handled{}
	run(t, kit.Connect(t, options), bets, seen, redisstream.Options{})
	bets.Publish(t, settled(messages, 1))
	seen.await(t, messages)

	require.NoError(t, bets.Client.HSet(t.Context(), bets.Meta(), wire.MetaPartitions, grown).Err())
	bets.Partitions = grown
	bets.Publish(t, settled(messages, 1))
	seen.await(t, 2*messages)
	bets.AwaitEnd(t)
	assert.Len(t, seen.entries(), 2*messages, "nothing was delivered twice")
}

// A new entry ends the read that waits for it: it does not wait for the end of Block.
func TestANewEntryDoesNotWaitForTheEndOfARead(t *testing.T) {
	t.Parallel()
	server, bets := newBets(t, 2, noFsync)
	seen := &handled{}
	consumer := run(t, connect(t, server), bets, seen, redisstream.Options{})
	const samples, pause, target = 20, 130 * time.Millisecond, 50 * time.Millisecond
	took := make([]time.Duration, 0, samples)
	for n := range samples {
		consumer.awaitIdle(t, bets.Partitions)
		kit.Sleep(t.Context(), pause) // anywhere within a read
		added := time.Now()
		bets.Add(t, n%bets.Partitions, kit.Bet{ID: fmt.Sprintf("b-%d", n)})
		seen.await(t, n+1)
		took = append(took, seen.last().Sub(added))
	}
	slices.Sort(took)
	// Loose, for a busy machine: a read that waits for its end takes far longer.
	assert.Less(t, took[samples/2], redisstream.DefaultBlock/2)
	t.Logf("%d messages: median %s, longest %s (target %s)", samples, took[samples/2], took[samples-1], target)
}

// A failover that keeps the entry and loses the position that was written after it.
func TestAPositionLostByAFailoverIsWrittenAgain(t *testing.T) {
	t.Parallel()
	p := newReplicated(t)
	consumed := kit.NewTopic(t, p.primary.Client(), "bets_settled", 1)
	promoted := &kit.Topic{Keys: consumed.Keys, Client: p.replica.Client(), Partitions: 1}
	seen := &handled{}
	consumer := run(t, p.client, consumed, seen, redisstream.Options{PersistInterval: 2 * time.Second, HoldMin: 50 * time.Millisecond})
	id := consumed.Add(t, 0, kit.Bet{ID: "first"})
	seen.await(t, 1)
	kit.Await(t, func() bool { last, _ := promoted.Last(t.Context(), 0); return last == id })
	p.promote(t)
	consumed.AwaitPosition(t, 0, id)
	p.failOver(t)
	promoted.AwaitPosition(t, 0, id)
	assert.True(t, consumer.alive())
	assert.Len(t, seen.entries(), 1)
}
