package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// holdable is a Handler that holds its partition as long as it is told to.
type holdable struct {
	handled

	holds atomic.Bool
}

func (h *holdable) Handle(ctx context.Context, batch []restatestart.Message[bet]) error {
	if h.holds.Load() {
		return errors.New("held")
	}
	return h.handled.Handle(ctx, batch)
}

// gapLog is an OnGap that keeps what it is told.
type gapLog struct {
	mu   sync.Mutex
	gaps []restatestart.Gap
}

func (l *gapLog) onGap(_ context.Context, gap restatestart.Gap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gaps = append(l.gaps, gap)
}

// told are the gaps of a partition so far, in few words.
func (l *gapLog) told(partition int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var told []string
	for _, gap := range l.gaps {
		if gap.Partition != partition {
			continue
		}
		text := gap.Kind.String()
		if gap.Lost != nil {
			text += fmt.Sprint(" ", *gap.Lost)
		}
		told = append(told, text)
	}
	return strings.Join(told, ", ")
}

func (l *gapLog) lost() (entries int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, gap := range l.gaps {
		if gap.Lost != nil {
			entries += *gap.Lost
		}
	}
	return entries
}

// A consumer that is idle or held looks every five seconds.
const lookInterval = 5 * time.Second

// gapWorld is a consumer that has read ten entries of each partition.
type gapWorld struct {
	*topic

	t        *testing.T
	reader   redis.UniversalClient
	handler  *holdable
	gaps     *gapLog
	options  restatestart.ConsumerOptions
	consumer *consuming
	ids      [][]string // of each partition
}

// newGapWorld has a publisher who may do more than the consumer, perhaps.
func newGapWorld(t *testing.T, publisher, client redis.UniversalClient, partitions int) *gapWorld {
	t.Helper()
	g := &gapWorld{
		t: t, topic: newTopic(t, publisher, "bets_settled", partitions), reader: client, handler: &holdable{}, gaps: &gapLog{}, ids: make([][]string, partitions),
	}
	g.options = restatestart.ConsumerOptions{
		BatchSize: 5, ReadAhead: 2, HoldMin: 10 * time.Millisecond, HoldMax: 100 * time.Millisecond, PersistInterval: 50 * time.Millisecond,
		OnGap: g.gaps.onGap,
	}
	g.start()
	g.add(10)
	g.awaitPositions()
	return g
}

func (g *gapWorld) start() { g.consumer = run(g.t, g.reader, g.topic, g.handler, g.options) }

func (g *gapWorld) restart() {
	g.consumer.stop(g.t)
	g.start()
}

// add adds so many entries to each partition, at once: a read that waits gets as many as it asked for.
func (g *gapWorld) add(entries int) {
	g.t.Helper()
	for partition := range g.ids {
		var added []*redis.StringCmd
		_, err := g.client.TxPipelined(g.t.Context(), func(transaction redis.Pipeliner) error {
			for range entries {
				added = append(added, transaction.XAdd(g.t.Context(), &redis.XAddArgs{Stream: g.Stream(partition), Values: []string{"b", "{}"}}))
			}
			return nil
		})
		require.NoError(g.t, err)
		for _, id := range added {
			g.ids[partition] = append(g.ids[partition], id.Val())
		}
	}
}

// awaitPositions waits until each partition's position is that of the last entry that was added.
func (g *gapWorld) awaitPositions() {
	g.t.Helper()
	for partition, ids := range g.ids {
		require.Eventually(g.t, func() bool {
			position, err := g.position(g.t.Context(), partition)
			return err == nil && position == ids[len(ids)-1]
		}, patience, interval, "partition %d", partition)
	}
}

// settles waits for the gaps of each partition to be told, makes sure that they are told once, also when the consumer
// starts again, and that messages go on to come.
func (g *gapWorld) settles(want ...string) {
	g.t.Helper()
	for partition := range want {
		require.Eventually(g.t, func() bool { return len(g.gaps.told(partition)) >= len(want[partition]) }, patience, interval,
			"%s, and not %s", want[partition], g.gaps.told(partition))
	}
	rest(g.t.Context(), lookInterval+time.Second)
	g.restart()
	g.add(1)
	g.awaitPositions()
	rest(g.t.Context(), lookInterval+time.Second)
	for partition := range want {
		assert.Equal(g.t, want[partition], g.gaps.told(partition), "partition %d", partition)
	}
	g.consumer.stop(g.t)
}

// Each partition has something else happen to it, with ten entries done, ten in memory and held, and ten unread.
func TestC9ARealRedisShowsWhatVanishedUnread(t *testing.T) {
	t.Parallel()
	begun := func(id string) func(ctx context.Context, transaction redis.Pipeliner, stream string, _ []string) {
		return func(ctx context.Context, transaction redis.Pipeliner, stream string, _ []string) {
			transaction.Del(ctx, stream)
			transaction.XAdd(ctx, &redis.XAddArgs{Stream: stream, ID: id, Values: []string{"b", "{}"}})
		}
	}
	rows := []struct {
		vanish func(ctx context.Context, transaction redis.Pipeliner, stream string, ids []string)
		gaps   string
	}{
		{func(ctx context.Context, transaction redis.Pipeliner, stream string, _ []string) {
			transaction.XTrimMaxLen(ctx, stream, 3)
		}, "trimmed 7"},
		{func(ctx context.Context, transaction redis.Pipeliner, stream string, _ []string) {
			transaction.XTrimMaxLen(ctx, stream, 0)
		}, "trimmed 10"},
		{func(ctx context.Context, transaction redis.Pipeliner, stream string, _ []string) {
			transaction.XTrimMaxLen(ctx, stream, 10) // what was read, and no more
		}, ""},
		{func(ctx context.Context, transaction redis.Pipeliner, stream string, ids []string) {
			transaction.XTrimMinID(ctx, stream, ids[28])
		}, "trimmed 8"},
		{func(ctx context.Context, transaction redis.Pipeliner, stream string, ids []string) {
			transaction.XDel(ctx, stream, ids[22], ids[23], ids[27])
		}, "deleted 3"},
		{func(ctx context.Context, transaction redis.Pipeliner, stream string, ids []string) {
			transaction.XDel(ctx, stream, ids[29])
		}, "deleted 1"},
		{func(ctx context.Context, transaction redis.Pipeliner, stream string, ids []string) {
			transaction.XDel(ctx, stream, ids[3], ids[15], ids[19]) // of what was read
		}, ""},
		{func(ctx context.Context, transaction redis.Pipeliner, stream string, _ []string) {
			transaction.Del(ctx, stream)
		}, "gone"},
		{begun("*"), "replaced"},
		{begun("1-0"), "ahead"},
	}
	server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	options := clientOptions(server.Addr())
	options.PoolSize = 2 * len(rows)
	g := newGapWorld(t, server.Client(), connectWith(t, options), len(rows))
	g.handler.holds.Store(true)
	g.add(20)
	want := make([]string, len(rows))
	for partition, row := range rows {
		want[partition] = row.gaps
		require.Eventually(t, func() bool { return g.consumer.blocked(partition) != nil }, patience, interval)
	}
	rest(t.Context(), time.Second) // what is read ahead is in memory by then
	for partition, row := range rows {
		_, err := server.Client().TxPipelined(t.Context(), func(transaction redis.Pipeliner) error {
			row.vanish(t.Context(), transaction, g.Stream(partition), g.ids[partition])
			return nil
		})
		require.NoError(t, err)
	}
	rest(t.Context(), lookInterval+time.Second)
	g.handler.holds.Store(false)
	g.settles(want...)
	t.Logf("%d streams: %q", len(rows), want)
}

// A server that was emptied has no positions either. What runs at that moment tells, and stores that it did.
func TestC9AFlushIsToldOnceThoughTheConsumerRestarts(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	g := newGapWorld(t, server.Client(), connect(t, server.Addr()), 1)
	require.NoError(t, server.Client().FlushAll(t.Context()).Err())
	require.Eventually(t, func() bool { return g.gaps.told(0) == "gone" }, patience, interval)
	g.restart()
	g.settles("gone")
	t.Log("10 messages, all gone")
}

// A replica that was promoted although it lacks entries ends below the position.
func TestC9AFailoverToAStaleReplicaIsTold(t *testing.T) {
	t.Parallel()
	primary := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	replica := servers.StartRedis(t, servers.RedisOptions{Fsync: "no", Args: []string{"--replicaof", host, port}})
	var address atomic.Value
	address.Store(primary.Addr())
	options := clientOptions(primary.Addr())
	options.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address.Load().(string))
	}
	client := connectWith(t, options)
	g := newGapWorld(t, client, client, 1)
	require.Eventually(t, func() bool {
		length, err := replica.Client().XLen(t.Context(), g.Stream(0)).Result()
		return err == nil && length == 10
	}, patience, interval)
	require.NoError(t, replica.Client().ReplicaOf(t.Context(), "NO", "ONE").Err())
	g.add(5)
	g.awaitPositions()

	address.Store(replica.Addr())
	require.NoError(t, primary.Kill())
	require.Eventually(t, func() bool { return g.gaps.told(0) != "" }, patience, interval)
	g.settles("ahead")
	require.Equal(t, g.ids[0][14], g.gaps.gaps[0].Position)
	t.Log("15 messages, 5 of them not on the replica")
}

// With GapHold nothing behind the hole is handed over, over a restart too, until an operator says where to go on.
func TestC9AHoleHoldsUntilAReset(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	g := newGapWorld(t, server.Client(), connect(t, server.Addr()), 1)
	g.consumer.stop(t)
	g.options.Gaps = restatestart.GapHold
	g.add(10)
	require.NoError(t, server.Client().XTrimMaxLen(t.Context(), g.Stream(0), 4).Err())
	g.start()
	for range 3 {
		require.Eventually(t, func() bool {
			blocked := g.consumer.blocked(0)
			return blocked != nil && blocked.Cause == "gap" && *blocked.Gap.Lost == 6 && blocked.Gap.First == g.ids[0][16]
		}, patience, interval)
		rest(t.Context(), time.Second)
		g.restart()
	}
	assert.Equal(t, g.ids[0][:10], g.handler.entries())
	require.NoError(t, server.Client().HSet(t.Context(), g.Positions(consumerName), "__reset:0", g.ids[0][9]+"|").Err())
	g.handler.await(t, 14, patience)
	assert.Equal(t, append(g.ids[0][:10:10], g.ids[0][16:]...), g.handler.entries())
	g.settles("trimmed 6")
	t.Log("20 messages, 6 lost")
}

// A publisher that trims to far less than it is ahead, against a consumer that is too slow: what was handed over and what
// was told as lost are all there was.
func TestC9AStormOfTrimmingIsCountedToTheEntry(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	g := newGapWorld(t, server.Client(), connect(t, server.Addr()), 1)
	g.consumer.stop(t)
	g.options.BatchSize = 20
	g.start()
	const entries = 20_000
	began := time.Now()
	for n := 0; n < entries; n += 20 {
		pipeline := server.Client().Pipeline()
		for range 20 {
			pipeline.XAdd(t.Context(), &redis.XAddArgs{Stream: g.Stream(0), MaxLen: 100, Values: []string{"b", "{}"}})
		}
		_, err := pipeline.Exec(t.Context())
		require.NoError(t, err)
		if n%4_000 == 0 {
			g.handler.holds.Store(n%8_000 != 0)
			rest(t.Context(), 200*time.Millisecond)
		}
		if n == entries/2 {
			g.restart()
		}
	}
	g.handler.holds.Store(false)
	require.Eventually(t, func() bool {
		behind, err := g.behind(t.Context())
		return err == nil && len(behind) == 0
	}, patience, interval)
	g.restart() // which tells what there is still to tell
	total := func() int {
		seen := g.handler.entries()
		slices.Sort(seen)
		return len(slices.Compact(seen)) + int(g.gaps.lost())
	}
	require.Eventually(t, func() bool { return total() >= entries+10 }, patience, interval)
	assert.Equal(t, entries+10, total())
	t.Logf("%d messages in %.1f s, %d lost in %d gaps", entries, time.Since(began).Seconds(), g.gaps.lost(), len(g.gaps.gaps))
}

// A user who may neither use transactions nor describe streams reads all the same, and the log says what that costs.
func TestC9WithoutPermissionToLookItReadsAllTheSame(t *testing.T) {
	t.Parallel()
	for _, forbidden := range [][]string{{"multi", "exec"}, {"xinfo|stream"}} {
		server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
		rules := []any{"ACL", "SETUSER", "service", "on", ">secret", "~*", "+@all"}
		for _, command := range forbidden {
			rules = append(rules, "-"+command)
		}
		require.NoError(t, server.Client().Do(t.Context(), rules...).Err())
		options := clientOptions(server.Addr())
		options.Username, options.Password = "service", "secret"
		g := newGapWorld(t, server.Client(), connectWith(t, options), 1)
		g.settles("")
	}
	t.Log("11 messages each, without MULTI and without XINFO")
}
