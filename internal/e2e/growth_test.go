package e2e_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestPartitionsThatAreAddedAreReadWithTheSmallestPool(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	admin := server.Client()
	bets := newTopic(t, admin, "bets_settled", 2)
	const grown, messages = 4, 400
	options := clientOptions(server.Addr())
	options.PoolSize = grown + 1 // what Run asks for at least
	client := connectWith(t, options)
	seen := &handled{}
	consumer := run(t, client, bets, seen, restatestart.ConsumerOptions{})
	bets.publish(t, settled(messages, 1))
	seen.await(t, messages, patience)

	began := time.Now()
	require.NoError(t, admin.HSet(t.Context(), bets.Meta(), wire.MetaPartitions, grown).Err())
	bets.partitions = grown
	bets.publish(t, settled(messages, 1))
	seen.await(t, 2*messages, patience)
	took := time.Since(began)
	require.Eventually(t, func() bool {
		behind, err := bets.behind(t.Context())
		return err == nil && len(behind) == 0
	}, patience, interval)
	assert.Len(t, seen.entries(), 2*messages, "nothing was handed over twice")
	consumer.stop(t)
	t.Logf("%d messages; the added partitions were read after %.1f s", 2*messages, took.Seconds())
}
