package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/internal/wire"
)

// adminWriter is who the original's reset tool writes as.
const adminWriter = "6f72616e-6765-4164-6d69-6e5265736574"

// requestReset asks for a partition to resume behind an id, as the original's tool does.
func (p *topic) requestReset(t *testing.T, partition int, target string) {
	t.Helper()
	transaction := p.client.TxPipeline()
	hash := p.Positions(consumerName)
	transaction.HSet(t.Context(), hash, wire.PositionField(partition), target+"|"+adminWriter)
	transaction.HSet(t.Context(), hash, wire.ResetField(partition), target+"|"+wire.FormatTime(time.Now()))
	_, err := transaction.Exec(t.Context())
	require.NoError(t, err)
}

func TestAResetIsHonouredWhileRunningAndAtStart(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	client := connect(t, server.Addr())
	bets := newTopic(t, client, "bets_settled", 1)
	const entries = 10
	ids := make([]string, entries)
	for n := range ids {
		ids[n] = bets.addTo(t, 0, bet{ID: fmt.Sprintf("b-%d", n)})
	}
	settledAgain := func() {
		t.Helper()
		require.Eventually(t, func() bool {
			behind, err := bets.behind(t.Context())
			pending, pendingErr := client.HExists(t.Context(), bets.Positions(consumerName), wire.ResetField(0)).Result()
			return err == nil && pendingErr == nil && len(behind) == 0 && !pending
		}, patience, interval, "the position is at the end and the marker gone")
	}

	seen := &handled{}
	consumer := run(t, client, bets, seen, restatestart.ConsumerOptions{})
	seen.await(t, entries, patience)
	settledAgain()
	require.Equal(t, ids, seen.entries())

	began := time.Now()
	const again = 6
	bets.requestReset(t, 0, ids[entries-again-1])
	seen.await(t, entries+again, patience)
	took := time.Since(began)
	settledAgain()
	want := append(append([]string{}, ids...), ids[entries-again:]...)
	assert.Equal(t, want, seen.entries(), "the entries behind the target, and no others")
	consumer.stop(t)
	value, err := client.HGet(t.Context(), bets.Positions(consumerName), wire.PositionField(0)).Result()
	require.NoError(t, err)
	assert.NotContains(t, value, adminWriter, "the consumer's own position is stored again")

	const more = 3
	bets.requestReset(t, 0, ids[entries-more-1])
	restarted := &handled{}
	consumer = run(t, client, bets, restarted, restatestart.ConsumerOptions{})
	restarted.await(t, more, patience)
	settledAgain()
	consumer.stop(t)
	assert.Equal(t, ids[entries-more:], restarted.entries())
	t.Logf("%d messages, %d handled again after %.2f s while running, %d at start", entries, again, took.Seconds(), more)
}

func TestAResetMayGoBackToTheBeginning(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	client := connect(t, server.Addr())
	bets := newTopic(t, client, "bets_settled", 1)
	ids := []string{bets.addTo(t, 0, bet{ID: "b-0"}), bets.addTo(t, 0, bet{ID: "b-1"})}
	seen := &handled{}
	consumer := run(t, client, bets, seen, restatestart.ConsumerOptions{})
	seen.await(t, len(ids), patience)
	bets.requestReset(t, 0, "0-0")
	seen.await(t, 2*len(ids), patience)
	require.Eventually(t, func() bool {
		behind, err := bets.behind(t.Context())
		return err == nil && len(behind) == 0
	}, patience, interval)
	consumer.stop(t)
	assert.Equal(t, append(append([]string{}, ids...), ids...), seen.entries())
	t.Logf("%d messages, all handled twice", len(ids))
}
