package e2e_test

import (
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/redisstream/admin"
)

// ownKeys is all that a consumer or an operator may touch; +hello and +client are what go-redis itself needs.
var ownKeys = []string{"~?:{bets_settled}*", "-@all", "+hello", "+client"}

func commands(names string) (rules []string) {
	for name := range strings.FieldsSeq(names) {
		rules = append(rules, "+"+name)
	}
	return rules
}

// The documented commands are all that a consumer needs, on the topic's keys alone.
func TestTheDocumentedPermissionsSufficeForAConsumer(t *testing.T) {
	t.Parallel()
	server, bets := newBets(t, 1, noFsync)
	client := connectAs(t, server, "service", slices.Concat(ownKeys, commands("xread xinfo|stream hmget eval evalsha hget hset hdel multi exec"))...)
	bets.Add(t, 0, kit.Bet{ID: "old"})

	seen, log, gaps := &handled{}, newErrorLog(t), &gapLog{}
	consumer := run(t, client, bets, seen, redisstream.Options{StartFrom: redisstream.FromNow(), Logger: slog.New(log), OnGap: gaps.onGap})
	consumer.awaitIdle(t, 1)
	id := bets.Add(t, 0, kit.Bet{ID: "b-1"})
	seen.await(t, 1)
	assert.Equal(t, []string{id}, seen.entries())
	bets.AwaitPosition(t, 0, id)
	kit.Await(t, func() bool { return consumer.Status().Partitions[0].Lag != nil })
	require.NoError(t, bets.Client.HSet(t.Context(), bets.Positions(kit.ConsumerName), "__reset:0", "0-0|").Err())
	seen.await(t, 3)
	assert.Zero(t, log.lines.Load())
	require.NoError(t, bets.Client.Del(t.Context(), bets.Stream(0)).Err())
	kit.Await(t, func() bool { return gaps.of(0) == "gone" })
}

// The documented commands are all that an operator needs to list and reset positions.
func TestTheDocumentedPermissionsSufficeForPositions(t *testing.T) {
	t.Parallel()
	server, bets := newBets(t, 1, noFsync)
	positions := newOperator(t, bets, connectAs(t, server, "operator",
		slices.Concat(ownKeys, commands("xinfo|stream hmget eval evalsha hget hset hdel hkeys xrange time"))...))
	ids := bets.AddN(t, 3)
	require.NoError(t, bets.Client.HSet(t.Context(), bets.Positions(kit.ConsumerName), "0", ids[1]+"|").Err())

	list, err := positions.Positions(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 1, *list[0].Lag)
	preview, err := positions.Reset(t.Context(), 0, admin.ToID(ids[0]))
	require.NoError(t, err)
	assert.EqualValues(t, 1, preview.Redelivered)
	cancelled, err := positions.CancelReset(t.Context(), 0)
	require.NoError(t, err)
	assert.True(t, cancelled)
}

// The documented commands are all that parking needs. While one of them is missing, nothing moves and nothing is parked twice; once
// it is granted, the consumer continues.
func TestTheDocumentedPermissionsSufficeForParking(t *testing.T) {
	t.Parallel()
	needed := strings.Fields("hget hset xrange xadd xlen hkeys")
	for _, missing := range append([]string{""}, needed...) {
		t.Run("without "+missing, func(t *testing.T) {
			t.Parallel()
			server, bets := newBets(t, 1, noFsync)
			rules := slices.Concat(ownKeys, []string{"~parked*:{bets_settled}:payout"})
			for _, rule := range commands("xread xinfo|stream hmget eval evalsha hdel " + strings.Join(needed, " ")) {
				if rule != "+"+missing {
					rules = append(rules, rule)
				}
			}
			client := connectAs(t, server, "service", rules...)
			id, err := bets.Client.XAdd(t.Context(), &redis.XAddArgs{Stream: bets.Stream(0), Values: []string{"b", "{bad"}}).Result()
			require.NoError(t, err)
			consumer := run(t, client, bets, &handled{}, redisstream.Options{
				OnMalformed: redisstream.MalformedPark, HoldMax: 200 * time.Millisecond, HoldMin: 20 * time.Millisecond,
			})
			parked := func() int64 { return bets.Client.XLen(t.Context(), bets.Parked(kit.ConsumerName)).Val() }
			if missing != "" {
				kit.Await(t, func() bool {
					blocked := consumer.blocked(0)
					return blocked != nil && blocked.Attempts > 3 &&
						(strings.Contains(blocked.Error, "NOPERM") || strings.Contains(blocked.Error, "can't run this command"))
				})
				assert.Zero(t, parked())
				permit(t, server, "service", "+"+missing)
			}
			bets.AwaitPosition(t, 0, id)
			permit(t, server, "service", "+xrange")
			operator := newOperator(t, bets, client)
			list := parkedEntries(t, operator)
			require.Len(t, list, 1, "parked once")
			require.Error(t, operator.Discard(t.Context(), list[0].ID), "without xdel")
			assert.EqualValues(t, 1, parked())
			permit(t, server, "service", "+xdel", "+hkeys")
			require.NoError(t, operator.Discard(t.Context(), list[0].ID))
			assert.Zero(t, parked())
		})
	}
}

var xreadCalls = regexp.MustCompile(`cmdstat_xread:calls=(\d+),.*rejected_calls=(\d+)`)

// reads is how many XREADs the server has counted, those included that it refused.
func reads(t *testing.T, server *servers.Redis) (n int) {
	t.Helper()
	text, err := server.Client().Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	parts := xreadCalls.FindStringSubmatch(text)
	for i := 1; i < len(parts); i++ {
		count, err := strconv.Atoi(parts[i])
		require.NoError(t, err)
		n += count
	}
	return n
}

// A stream that cannot be read is retried with backoff, and not in a hot loop.
func TestAStreamThatCannotBeReadIsWaitedOut(t *testing.T) {
	t.Parallel()
	const few, lasting = 10, 3 * time.Second
	for code, row := range map[string]struct {
		breakIt, repair func(t *testing.T, server *servers.Redis, stream string)
		lines           int // at level Error
	}{
		"WRONGTYPE": {
			breakIt: func(t *testing.T, server *servers.Redis, stream string) {
				t.Helper()
				transaction := server.Client().TxPipeline()
				transaction.Del(t.Context(), stream)
				transaction.Set(t.Context(), stream, "no stream", 0)
				_, err := transaction.Exec(t.Context())
				require.NoError(t, err)
			},
			repair: func(t *testing.T, server *servers.Redis, stream string) {
				t.Helper()
				require.NoError(t, server.Client().Del(t.Context(), stream).Err())
			},
			lines: 2, // one about it, and one about the stream that was replaced
		},
		"NOPERM": {
			breakIt: func(t *testing.T, server *servers.Redis, _ string) {
				t.Helper()
				permit(t, server, "service", "-xread")
			},
			repair: func(t *testing.T, server *servers.Redis, _ string) {
				t.Helper()
				permit(t, server, "service", "+xread")
			},
			lines: 1,
		},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			server, bets := newBets(t, 1, noFsync)
			seen, log := &handled{}, newErrorLog(t)
			consumer := run(t, connectAs(t, server, "service", "~*", "+@all"), bets, seen,
				redisstream.Options{HoldMax: 2 * time.Second, Logger: slog.New(log)})
			ids := bets.AddN(t, 1)
			seen.await(t, 1)
			before := reads(t, server)
			row.breakIt(t, server, bets.Stream(0))
			kit.Sleep(t.Context(), lasting)
			tried := reads(t, server) - before
			assert.Positive(t, tried)
			assert.LessOrEqual(t, tried, few)
			blocked := consumer.awaitBlocked(t, 0)
			assert.Equal(t, "read", blocked.Cause)
			assert.Contains(t, blocked.Error, code)

			row.repair(t, server, bets.Stream(0))
			ids = append(ids, bets.Add(t, 0, kit.Bet{ID: "b-2"}))
			seen.await(t, 2)
			assert.Equal(t, ids, seen.entries())
			kit.Await(t, func() bool { return consumer.blocked(0) == nil })
			assert.EqualValues(t, row.lines, log.lines.Load())
			t.Logf("2 messages; %d reads in %s of %s", tried, lasting, code)
		})
	}
}
