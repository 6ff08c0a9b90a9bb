package e2e_test

import (
	"log/slog"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// few is how many reads may be tried in the 3 s that these troubles last (field report B11).
const (
	few     = 10
	lasting = 3 * time.Second
)

var xreadCalls = regexp.MustCompile(`cmdstat_xread:calls=(\d+),.*rejected_calls=(\d+)`)

// reads is how many XREADs the server has counted, those included that it refused.
func reads(t *testing.T, client *redis.Client) int {
	t.Helper()
	text, err := client.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	parts := xreadCalls.FindStringSubmatch(text)
	if parts == nil {
		return 0
	}
	calls, err := strconv.Atoi(parts[1])
	require.NoError(t, err)
	rejected, err := strconv.Atoi(parts[2])
	require.NoError(t, err)
	return calls + rejected
}

// awaitReadTrouble waits until Status tells that the stream cannot be read, and why.
func awaitReadTrouble(t *testing.T, consumer *consuming, code string) {
	t.Helper()
	require.Eventually(t, func() bool { return consumer.blocked(0) != nil }, patience, interval)
	blocked := consumer.blocked(0)
	require.NotNil(t, blocked)
	assert.Equal(t, "read", blocked.Cause)
	assert.Contains(t, blocked.Error, code)
}

func TestAKeyOfTheWrongTypeIsWaitedOut(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	admin := server.Client()
	bets := newTopic(t, admin, "bets_settled", 1)
	first := bets.addTo(t, 0, bet{ID: "b-1"})
	seen, log := &handled{}, newErrorLog(t)
	consumer := run(t, connect(t, server.Addr()), bets, seen,
		restatestart.ConsumerOptions{HoldMax: 2 * time.Second, Logger: slog.New(log)})
	seen.await(t, 1, patience)

	before := reads(t, admin)
	pipeline := admin.TxPipeline()
	pipeline.Del(t.Context(), bets.Stream(0))
	pipeline.Set(t.Context(), bets.Stream(0), "no stream", 0)
	_, err := pipeline.Exec(t.Context())
	require.NoError(t, err)
	rest(t.Context(), lasting)
	tried := reads(t, admin) - before
	assert.LessOrEqual(t, tried, few)
	awaitReadTrouble(t, consumer, "WRONGTYPE")

	require.NoError(t, admin.Del(t.Context(), bets.Stream(0)).Err())
	second := bets.addTo(t, 0, bet{ID: "b-2"})
	seen.await(t, 2, patience)
	assert.Equal(t, []string{first, second}, seen.entries())
	require.Eventually(t, func() bool { return consumer.blocked(0) == nil }, patience, interval)
	assert.EqualValues(t, 2, log.lines.Load(), "one line about it, and one about the stream that was replaced")
	t.Logf("2 messages; %d reads in %s of WRONGTYPE", tried, lasting)
}

func TestAMissingPermissionIsWaitedOut(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	admin := server.Client()
	bets := newTopic(t, admin, "bets_settled", 1)
	permit := func(rules ...any) {
		t.Helper()
		require.NoError(t, admin.Do(t.Context(), append([]any{"ACL", "SETUSER", "service"}, rules...)...).Err())
	}
	permit("on", ">secret", "~*", "+@all", "-xread")
	options := clientOptions(server.Addr())
	options.Username, options.Password = "service", "secret"
	client := connectWith(t, options)
	id := bets.addTo(t, 0, bet{ID: "b-1"})

	seen, log := &handled{}, newErrorLog(t)
	consumer := run(t, client, bets, seen, restatestart.ConsumerOptions{HoldMax: 2 * time.Second, Logger: slog.New(log)})
	awaitReadTrouble(t, consumer, "NOPERM")
	before := reads(t, admin)
	rest(t.Context(), lasting)
	tried := reads(t, admin) - before
	assert.Positive(t, tried)
	assert.LessOrEqual(t, tried, few)
	assert.Empty(t, seen.entries())

	permit("+xread")
	seen.await(t, 1, patience)
	assert.Equal(t, []string{id}, seen.entries())
	require.Eventually(t, func() bool { return consumer.blocked(0) == nil }, patience, interval)
	assert.EqualValues(t, 1, log.lines.Load(), "lines about it")
	t.Logf("1 message; %d reads in %s of NOPERM", tried, lasting)
}

func TestAWaitingReadOutlivesThreeKillsOfRedis(t *testing.T) {
	t.Parallel()
	for name, retries := range map[string]int{
		"with a client that tries again": 0,
		"with a client that does not":    -1, // every broken read comes up to the library
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outliveThreeKills(t, retries)
		})
	}
}

// outliveThreeKills is about one consumer whose client has this MaxRetries.
func outliveThreeKills(t *testing.T, retries int) {
	t.Helper()
	server := servers.StartRedis(t, servers.RedisOptions{})
	bets := newTopic(t, connect(t, server.Addr()), "bets_settled", 1)
	options := clientOptions(server.Addr())
	if retries != 0 {
		options.MaxRetries, options.DialerRetries = retries, 1
	}
	client := connectWith(t, options)
	const kills = 3
	seen, log := &handled{}, newErrorLog(t)
	consumer := run(t, client, bets, seen, restatestart.ConsumerOptions{Logger: slog.New(log)})
	first := bets.addTo(t, 0, bet{ID: "b-1"})
	seen.await(t, 1, patience)
	began := time.Now()
	for range kills {
		rest(t.Context(), time.Second)
		require.NoError(t, server.Kill())
		require.NoError(t, server.Restart(t.Context()))
	}
	rest(t.Context(), time.Second)
	assert.True(t, consumer.alive())

	added := time.Now()
	second := bets.addTo(t, 0, bet{ID: "b-2"})
	seen.await(t, 2, patience)
	took := seen.last().Sub(added)
	rest(t.Context(), time.Second) // for a second delivery, were there one
	assert.Equal(t, []string{first, second}, seen.entries())
	consumer.stop(t)
	behind, err := bets.behind(t.Context())
	require.NoError(t, err)
	assert.Empty(t, behind)
	// One for the reads and one for the positions, each time it broke.
	assert.LessOrEqual(t, log.lines.Load(), int64(2*kills))
	t.Logf("2 messages; %d kills within %.1f s, then delivered after %s; %d lines at level Error",
		kills, time.Since(began).Seconds(), took.Round(time.Millisecond), log.lines.Load())
}
