package e2e_test

import (
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// The commands that the README says a Redis user needs are all that a consumer uses, on the topic's keys alone.
func TestTheReadmesPermissionsSuffice(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	admin := server.Client()
	bets := newTopic(t, admin, "bets_settled", 1)
	rules := []any{"ACL", "SETUSER", "service", "on", ">secret", "~?:{bets_settled}*", "-@all", "+hello", "+client"} // the last two are go-redis's own
	for _, command := range []string{"xread", "xinfo|stream", "hmget", "eval", "evalsha", "hget", "hset", "hdel", "multi", "exec"} {
		rules = append(rules, "+"+command)
	}
	require.NoError(t, admin.Do(t.Context(), rules...).Err())
	options := clientOptions(server.Addr())
	options.Username, options.Password = "service", "secret"
	client := connectWith(t, options)
	bets.addTo(t, 0, bet{ID: "old"})

	seen, log, gaps := &handled{}, newErrorLog(t), &gapLog{}
	consumer := run(t, client, bets, seen, restatestart.ConsumerOptions{StartFrom: restatestart.FromNow(), Logger: slog.New(log), OnGap: gaps.onGap})
	require.Eventually(t, func() bool {
		partitions := consumer.Status().Partitions
		return len(partitions) == 1 && partitions[0].State == restatestart.StateIdle
	}, patience, interval)
	id := bets.addTo(t, 0, bet{ID: "b-1"})
	seen.await(t, 1, patience)
	assert.Equal(t, []string{id}, seen.entries())
	require.Eventually(t, func() bool {
		position, err := bets.position(t.Context(), 0)
		return err == nil && position == id
	}, patience, interval)
	require.Eventually(t, func() bool { return consumer.Status().Partitions[0].Lag != nil }, patience, interval)
	require.NoError(t, admin.HSet(t.Context(), bets.Positions(consumerName), "__reset:0", "0-0|").Err())
	seen.await(t, 3, patience)
	assert.Zero(t, log.lines.Load())
	require.NoError(t, admin.Del(t.Context(), bets.Stream(0)).Err())
	require.Eventually(t, func() bool { return gaps.told(0) == "gone" }, patience, interval)
	t.Logf("3 messages and a gap with 10 commands")
}
