package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// A new entry ends the read that waits for it: it does not wait for the end of Block.
func TestANewEntryDoesNotWaitForTheEndOfARead(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	client := connect(t, server.Addr())
	bets := newTopic(t, client, "bets_settled", 2)
	seen := &handled{}
	consumer := run(t, client, bets, seen, restatestart.ConsumerOptions{})
	idle := func() bool {
		partitions := consumer.Status().Partitions
		return len(partitions) == bets.partitions && !slices.ContainsFunc(partitions, func(p restatestart.PartitionStatus) bool {
			return p.State != restatestart.StateIdle
		})
	}

	const samples, pause, target = 20, 130 * time.Millisecond, 50 * time.Millisecond
	took := make([]time.Duration, 0, samples)
	for n := range samples {
		require.Eventually(t, idle, patience, interval)
		rest(t.Context(), pause) // anywhere within a read
		added := time.Now()
		bets.addTo(t, n%bets.partitions, bet{ID: fmt.Sprintf("b-%d", n)})
		seen.await(t, n+1, patience)
		took = append(took, seen.last().Sub(added))
	}
	slices.Sort(took)
	median := took[samples/2]
	// Loose: it tells a read that is waited out from one that is not, on a busy machine too.
	assert.Less(t, median, restatestart.DefaultBlock/2)
	t.Logf("%d messages: median %s, longest %s (target %s)", samples, median, took[samples-1], target)
}
