package e2e_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/internal/wire"
)

func keepLast(entries int) func(string) []any {
	return func(stream string) []any { return []any{"XTRIM", stream, "MAXLEN", entries} }
}

func remove(id string) func(string) []any {
	return func(stream string) []any { return []any{"XDEL", stream, id} }
}

func recreated(stream string) []any {
	return []any{"EVAL", `redis.call('DEL', KEYS[1]); return redis.call('XADD', KEYS[1], '3-0', 'b', '{}')`, 1, stream}
}

// Trimming and deleting are where doubles differ from the real thing.
func TestPositionsTellWhatWasTrimmed(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	client := connect(t, server.Addr())
	for n, row := range []struct {
		name    string
		happens func(stream string) []any // a command
		stored  string
		target  restatestart.ResetTarget
		again   int64
		skipped int64
		trimmed bool
		lag     int64
	}{
		{"nothing removed", nil, "5-0", restatestart.ToBeginning(), 5, 0, false, 5},
		{"before the first, nothing removed", nil, "5-0", restatestart.ToID("0-7"), 5, 0, false, 5},
		{"trimmed, back behind the first", keepLast(6), "8-0", restatestart.ToID("5-0"), 3, 0, false, 2},
		{"trimmed, back before the first", keepLast(6), "8-0", restatestart.ToID("3-0"), 4, 0, true, 2},
		{"trimmed, to the one before the first", keepLast(6), "8-0", restatestart.ToID("4-0"), 4, 0, true, 2}, // it may be
		{"trimmed, to the beginning", keepLast(6), "8-0", restatestart.ToBeginning(), 4, 0, true, 2},
		{"trimmed, to a time", keepLast(6), "8-0", restatestart.ToTime(time.UnixMilli(2)), 4, 0, true, 2},
		{"trimmed, position gone too", keepLast(6), "2-0", restatestart.ToID("7-0"), 0, 3, false, 6},
		{"deleted in the middle", remove("6-0"), "8-0", restatestart.ToID("5-0"), 2, 0, false, 2},
		{"deleted behind the position", remove("9-0"), "8-0", restatestart.ToEnd(), 0, 1, false, 1},
		{"the last deleted", remove("10-0"), "8-0", restatestart.ToID("10-0"), 0, 1, false, 1},
		{"all trimmed", keepLast(0), "8-0", restatestart.ToID("3-0"), 0, 0, true, 0},
		{"all trimmed, to the end", keepLast(0), "8-0", restatestart.ToEnd(), 0, 0, false, 0},
		{"recreated", recreated, "8-0", restatestart.ToBeginning(), 1, 0, false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			bets := newTopic(t, client, fmt.Sprintf("bets-%d", n), 1)
			for n := 1; n <= 10; n++ {
				require.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: bets.Stream(0), ID: fmt.Sprintf("%d-0", n), Values: []string{"b", "{}"}}).Err())
			}
			if row.happens != nil {
				require.NoError(t, client.Do(t.Context(), row.happens(bets.Stream(0))...).Err())
			}
			require.NoError(t, client.HSet(t.Context(), bets.Positions(consumerName), "0", row.stored+"|").Err())
			positions := bets.admin(t, client)
			preview, err := positions.Preview(t.Context(), 0, row.target)
			require.NoError(t, err)
			assert.Equal(t, row.again, preview.Again, "again")
			assert.Equal(t, row.skipped, preview.Skipped, "skipped")
			assert.Equal(t, row.trimmed, preview.Trimmed, "trimmed")
			list, err := positions.List(t.Context())
			require.NoError(t, err)
			require.NotNil(t, list[0].Lag)
			assert.Equal(t, row.lag, *list[0].Lag, "lag")
		})
	}
}

// The server serves others between the steps of a count, however many entries there are and however large.
func TestCountingManyEntriesHoldsTheServerUpBriefly(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	client := connect(t, server.Addr())
	const small, large, size = 200_000, 200, 100_000
	fill := func(topic string, entries, size int) *restatestart.Positions {
		bets := newTopic(t, client, topic, 1)
		body := strings.Repeat("x", size)
		for first := 0; first < entries; first += 1000 {
			pipeline := client.Pipeline()
			for n := first; n < min(first+1000, entries); n++ {
				pipeline.XAdd(t.Context(), &redis.XAddArgs{Stream: bets.Stream(0), ID: fmt.Sprintf("%d-0", n+1), Values: []string{"b", body, "t", "BetSettled", "k", "a"}})
			}
			_, err := pipeline.Exec(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, client.HSet(t.Context(), bets.Positions(consumerName), "0", strconv.Itoa(entries)+"-0|").Err())
		return bets.admin(t, client)
	}
	steps := func() (calls int, longest time.Duration) {
		log, err := client.SlowLogGet(t.Context(), -1).Result()
		require.NoError(t, err)
		for _, entry := range log {
			if strings.HasPrefix(strings.ToUpper(entry.Args[0]), "EVAL") {
				calls, longest = calls+1, max(longest, entry.Duration)
			}
		}
		return calls, longest
	}
	require.NoError(t, client.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	require.NoError(t, client.ConfigSet(t.Context(), "slowlog-max-len", "100000").Err())
	for _, row := range []struct{ entries, size, calls int }{{small, 100, 80}, {large, size, 7}} {
		positions := fill(fmt.Sprintf("bets-%d", row.size), row.entries, row.size)
		require.NoError(t, client.SlowLogReset(t.Context()).Err())
		began := time.Now()
		preview, err := positions.Preview(t.Context(), 0, restatestart.ToBeginning())
		require.NoError(t, err)
		took := time.Since(began)
		assert.EqualValues(t, row.entries, preview.Again)
		calls, slowest := steps()
		assert.GreaterOrEqual(t, calls, row.calls)
		assert.Less(t, slowest, time.Second, "on a busy machine; alone it takes milliseconds")
		t.Logf("%d entries of %d bytes in %s and %d calls, the longest of them %s", row.entries, row.size, took.Round(time.Millisecond), calls, slowest)
	}
}

// The commands that the README says an operator's Redis user needs are all that Positions uses.
func TestTheReadmesPermissionsSufficeForPositions(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	bets := newTopic(t, server.Client(), "bets_settled", 1)
	rules := []any{"ACL", "SETUSER", "operator", "on", ">secret", "~?:{bets_settled}*", "-@all", "+hello", "+client"}
	for _, command := range []string{"xinfo|stream", "hmget", "eval", "evalsha", "hget", "hset", "hdel", "hkeys", "xrange", "time"} {
		rules = append(rules, "+"+command)
	}
	require.NoError(t, server.Client().Do(t.Context(), rules...).Err())
	options := clientOptions(server.Addr())
	options.Username, options.Password = "operator", "secret"
	positions := bets.admin(t, connectWith(t, options))
	ids := []string{bets.addTo(t, 0, bet{ID: "b-0"}), bets.addTo(t, 0, bet{ID: "b-1"}), bets.addTo(t, 0, bet{ID: "b-2"})}
	require.NoError(t, server.Client().HSet(t.Context(), bets.Positions(consumerName), "0", wire.FormatPosition(mustID(t, ids[1]), wire.InstanceID{})).Err())

	list, err := positions.List(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, *list[0].Lag)
	preview, err := positions.Reset(t.Context(), 0, restatestart.ToID(ids[0]))
	require.NoError(t, err)
	assert.EqualValues(t, 1, preview.Again)
	withdrawn, err := positions.Withdraw(t.Context(), 0)
	require.NoError(t, err)
	assert.True(t, withdrawn)
}

func mustID(t *testing.T, text string) wire.ID {
	t.Helper()
	id, err := wire.ParseID(text)
	require.NoError(t, err)
	return id
}
