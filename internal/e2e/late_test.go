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
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

func TestAWorkflowThatIsRegisteredLateHoldsItsPartitionOnly(t *testing.T) {
	t.Parallel()
	const lateWorkflow, held = "LatePayout", 2
	redis := servers.StartRedis(t, servers.RedisOptions{})
	restate, service := startPayouts(t)
	late := payout.StartService(t, lateWorkflow)
	client := connect(t, redis.Addr())
	bets := newTopic(t, client, "bets_settled", 4)
	starter, answers := newStarter(t, restate, restatestart.Options{})

	// Five batches a partition, and the second batch of one of them holds the late one.
	const perPartition, batch, lateAt = 100, 20, 33
	began := time.Now()
	var atOnce, behind []string // claims that can be started before the registration, and those that have to wait
	for partition := range bets.partitions {
		for n := range perPartition {
			b := bet{ID: fmt.Sprintf("b-%d-%d", partition, n), Claim: fmt.Sprintf("c-%d-%d", partition, n)}
			switch {
			case partition == held && n == lateAt:
				b.Workflow = lateWorkflow
			case partition == held && n/batch > lateAt/batch:
				behind = append(behind, b.Claim)
			default:
				atOnce = append(atOnce, b.Claim)
			}
			bets.addTo(t, partition, b)
		}
	}
	lateKey := fmt.Sprintf("c-%d-%d", held, lateAt)
	consumer := run(t, client, bets, starter, restatestart.ConsumerOptions{BatchSize: batch})

	awaitCompleted(t, restate, payout.Workflow, len(atOnce))
	require.Eventually(t, func() bool { return consumer.blocked(held) != nil }, patience, interval)
	require.Eventually(t, func() bool {
		idle := 0
		for _, partition := range consumer.Status().Partitions {
			if partition.State == restatestart.StateIdle {
				idle++
			}
		}
		return idle == bets.partitions-1
	}, patience, interval, "the others are done")
	rest(t.Context(), time.Until(began.Add(5*time.Second)))

	blocked := consumer.blocked(held)
	require.NotNil(t, blocked)
	assert.Equal(t, "starts", blocked.Cause)
	require.Len(t, blocked.Failed, 1, "its neighbours were accepted")
	failed := blocked.Failed[0]
	assert.Equal(t, []any{lateWorkflow, lateKey, restatestart.ReasonNotFound, "not_found", 404, bets.Stream(held)},
		[]any{failed.Workflow, failed.Key, failed.Reason, failed.Reason.String(), failed.Status, failed.Stream})
	assert.ElementsMatch(t, atOnce, slices.Collect(maps.Keys(service.Executions())), "what is not behind it has run")
	for _, partition := range consumer.Status().Partitions {
		if partition.Partition == held {
			assert.Equal(t, restatestart.StateBlocked, partition.State)
			assert.EqualValues(t, lateAt/batch*batch, partition.Passed, "its position stands before the batch")
		} else {
			assert.Equal(t, restatestart.StateIdle, partition.State)
			assert.EqualValues(t, perPartition, partition.Passed)
		}
	}
	// The late one only, and after waits of 1, 2, 4 and 8 s: a machine that is slow may be in the last of them by now.
	assert.LessOrEqual(t, answers.now().Refused, 4)
	assert.Equal(t, len(atOnce), answers.now().Accepted)

	register(t, restate, late)
	agree(t, bets, restate, payout.Workflow, service.Record, append(atOnce, behind...))
	agree(t, bets, restate, lateWorkflow, late.Record, []string{lateKey})
	assert.Nil(t, consumer.blocked(held))
	assert.Zero(t, answers.now().Repeated, "what was accepted is not posted again")
	t.Logf("%d messages, all kept, in %.1f s: %s", bets.partitions*perPartition, time.Since(began).Seconds(), answers.now())
}
