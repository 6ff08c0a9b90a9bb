package position_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/position/positiontest"
	"github.com/redisevents/restatestart/internal/wire"
)

var keys = wire.Keys{Topic: "bets"} //nolint:gochecknoglobals // a constant

// startServer starts a Redis double. Its client retries nothing.
func startServer(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

func TestRedisConformsToTheSuite(t *testing.T) {
	t.Parallel()
	positiontest.Run(t, func(t *testing.T) positiontest.Harness {
		t.Helper()
		server, client := startServer(t)
		return positiontest.Harness{
			Store:        position.NewRedis(client, keys, "payout", wire.DeriveInstanceID("svc-0")),
			Other:        position.NewRedis(client, keys, "payout", wire.DeriveInstanceID("svc-1")),
			RequestReset: func(partition int, value string) { server.HSet("p:{bets}:payout", wire.ResetField(partition), value) },
		}
	})
}

func TestPositionsAreWrittenInTheFormatOfRedisEvents(t *testing.T) {
	t.Parallel()
	server, client := startServer(t)
	writer := wire.DeriveInstanceID("svc-0")
	store := position.NewRedis(client, wire.Keys{Prefix: "dev:re:", Topic: "bets"}, "payout", writer)

	_, err := store.Save(t.Context(), []position.Write{{Partition: 2, ID: wire.ID{Ms: 1726000000000, Seq: 7}, Metadata: "41"}})
	require.NoError(t, err)
	assert.Equal(t, "1726000000000-7|1b3a45ca-59c5-d080-8e1c-02429c2efc50", server.HGet("dev:re:p:{bets}:payout", "2"))
	assert.Equal(t, writer.String(), server.HGet("dev:re:p:{bets}:payout:meta", "2:instanceId"))
	assert.Equal(t, "1726000000000-7|41", server.HGet("dev:re:p:{bets}:payout:meta", "2:read"))
	assert.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}\+00:00$`, server.HGet("dev:re:p:{bets}:payout:meta", "2:updatedUtc"))
}

func TestARewriteReplacesOnlyTheWritersOwnPosition(t *testing.T) {
	t.Parallel()
	server, client := startServer(t)
	writer := wire.DeriveInstanceID("svc-0")
	store := position.NewRedis(client, keys, "payout", writer)
	for _, row := range []struct{ stored, want string }{
		{"", "7-0|" + writer.String()},
		{"5-0|" + writer.String(), "7-0|" + writer.String()},
		{"9-0|" + writer.String(), "9-0|" + writer.String()},
		{"5-0|" + wire.DeriveInstanceID("svc-1").String(), "5-0|" + wire.DeriveInstanceID("svc-1").String()},
		{"5-0|", "5-0|"},
		{"5-0", "5-0"},
	} {
		server.Del("p:{bets}:payout")
		if row.stored != "" {
			server.HSet("p:{bets}:payout", "0", row.stored)
		}
		_, err := store.Save(t.Context(), []position.Write{{Partition: 0, ID: wire.ID{Ms: 7}, Rewrite: true}})
		require.NoError(t, err)
		assert.Equal(t, row.want, server.HGet("p:{bets}:payout", "0"), row.stored)
	}
	server.HSet("p:{bets}:payout", "0", "5-0|"+writer.String(), "__reset:0", "5-0|")
	resets, err := store.Save(t.Context(), []position.Write{{Partition: 0, ID: wire.ID{Ms: 7}, Rewrite: true}})
	require.NoError(t, err)
	assert.NotNil(t, resets[0])
	assert.Equal(t, "5-0|"+writer.String(), server.HGet("p:{bets}:payout", "0"))
}

// Two processes may share a writer id, by the instance's index. A rewrite by one of them does not undo a reset that the
// other has applied; a new position is written.
func TestARewriteDoesNotUndoAResetThatAnotherProcessApplied(t *testing.T) {
	t.Parallel()
	server, client := startServer(t)
	writer := wire.DeriveInstanceID("svc-0")
	idle, other := position.NewRedis(client, keys, "payout", writer), position.NewRedis(client, keys, "payout", writer)
	save := func(store *position.Redis, ms uint64, rewrite bool) {
		_, err := store.Save(t.Context(), []position.Write{{Partition: 0, ID: wire.ID{Ms: ms}, Rewrite: rewrite}})
		require.NoError(t, err)
	}
	save(idle, 7, false)
	server.HSet("p:{bets}:payout", "__reset:0", "5-0|")
	applied, err := other.ApplyReset(t.Context(), 0, position.Reset{Target: wire.ID{Ms: 5}, Value: "5-0|"})
	require.NoError(t, err)
	require.True(t, applied)
	save(idle, 7, true)
	assert.Equal(t, "5-0|"+writer.String(), server.HGet("p:{bets}:payout", "0"))
	save(other, 6, false)
	save(idle, 7, true)
	assert.Equal(t, "6-0|"+writer.String(), server.HGet("p:{bets}:payout", "0"))
	save(other, 6, true)
	save(idle, 8, false)
	assert.Equal(t, "8-0|"+writer.String(), server.HGet("p:{bets}:payout", "0"))
}

func TestAnUnreadablePositionIsTreatedAsNone(t *testing.T) {
	t.Parallel()
	server, client := startServer(t)
	store := position.NewRedis(client, keys, "payout", wire.DeriveInstanceID("svc-0"))
	for _, value := range []string{"5|junk", "", "17260000000001726000000000-0|x"} {
		server.HSet("p:{bets}:payout", "0", value)
		stored, err := store.Load(t.Context(), []int{0})
		require.NoError(t, err)
		assert.False(t, stored[0].Found)
		assert.Equal(t, value, stored[0].Unreadable)
		_, err = store.Save(t.Context(), []position.Write{{Partition: 0, ID: wire.ID{Ms: 5}}})
		require.NoError(t, err)
		assert.Contains(t, server.HGet("p:{bets}:payout", "0"), "5-0|")
	}
}

func TestErrorsNameTheHash(t *testing.T) {
	t.Parallel()
	server, client := startServer(t)
	store := position.NewRedis(client, keys, "payout", wire.DeriveInstanceID("svc-0"))
	require.NoError(t, server.Set("p:{bets}:payout", "a string"))

	_, err := store.Save(t.Context(), []position.Write{{Partition: 0, ID: wire.ID{Ms: 5}}})
	require.ErrorContains(t, err, "write positions to p:{bets}:payout")
	_, err = store.Load(t.Context(), []int{0})
	require.ErrorContains(t, err, "read positions from p:{bets}:payout")
	_, err = store.ApplyReset(t.Context(), 0, position.Reset{})
	require.ErrorContains(t, err, "apply reset")
}
