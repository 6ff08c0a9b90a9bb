package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/redisstream"
)

// gapLog is an OnGap that records the gaps.
type gapLog struct {
	mu   sync.Mutex
	gaps []redisstream.Gap
}

func (l *gapLog) onGap(_ context.Context, gap redisstream.Gap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gaps = append(l.gaps, gap)
}

// of returns the gaps of a partition so far, such as "trimmed 7, deleted 1".
func (l *gapLog) of(partition int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var reported []string
	for _, gap := range l.gaps {
		if gap.Partition != partition {
			continue
		}
		text := gap.Kind.String()
		if gap.Lost != nil {
			text += fmt.Sprint(" ", *gap.Lost)
		}
		reported = append(reported, text)
	}
	return strings.Join(reported, ", ")
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

// checkInterval is how often a consumer that is idle or held checks for gaps.
const checkInterval = 5 * time.Second

// gapEnv is a consumer that has read ten entries of each partition.
type gapEnv struct {
	*kit.Topic

	t        *testing.T
	reader   redis.UniversalClient
	handler  *handled
	gaps     *gapLog
	options  redisstream.Options
	consumer *running
	ids      [][]string // of each partition
}

func newGapEnv(t *testing.T, bets *kit.Topic, reader redis.UniversalClient) *gapEnv {
	t.Helper()
	g := &gapEnv{t: t, Topic: bets, reader: reader, handler: &handled{}, gaps: &gapLog{}, ids: make([][]string, bets.Partitions)}
	g.options = redisstream.Options{
		BatchSize: 5, ReadAhead: 2, HoldMin: 10 * time.Millisecond, HoldMax: 100 * time.Millisecond, PersistInterval: 50 * time.Millisecond,
		OnGap: g.gaps.onGap,
	}
	g.start()
	g.add(10)
	g.awaitPositions()
	return g
}

func (g *gapEnv) start() { g.consumer = run(g.t, g.reader, g.Topic, g.handler, g.options) }

func (g *gapEnv) restart() {
	g.consumer.stop(g.t)
	g.start()
}

// add adds entries to each partition in one transaction: a read that waits gets as many as it asked for.
func (g *gapEnv) add(entries int) {
	g.t.Helper()
	for partition := range g.ids {
		var added []*redis.StringCmd
		_, err := g.Client.TxPipelined(g.t.Context(), func(transaction redis.Pipeliner) error {
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
func (g *gapEnv) awaitPositions() {
	g.t.Helper()
	for partition, ids := range g.ids {
		g.AwaitPosition(g.t, partition, ids[len(ids)-1])
	}
}

// assertReportedOnce waits for the gaps of each partition, and asserts that they are reported once, also over a restart of the
// consumer, and that messages are delivered afterwards.
func (g *gapEnv) assertReportedOnce(want ...string) {
	g.t.Helper()
	for partition := range want {
		kit.Await(g.t, func() bool { return len(g.gaps.of(partition)) >= len(want[partition]) }, "partition %d: %s", partition, want[partition])
	}
	kit.Sleep(g.t.Context(), checkInterval+time.Second)
	g.restart()
	g.add(1)
	g.awaitPositions()
	kit.Sleep(g.t.Context(), checkInterval+time.Second)
	for partition := range want {
		assert.Equal(g.t, want[partition], g.gaps.of(partition), "partition %d", partition)
	}
	g.consumer.stop(g.t)
}

// Each partition loses entries in another way, with ten entries done, ten in memory and held, and ten unread.
func TestC9ARealRedisShowsWhatVanishedUnread(t *testing.T) {
	t.Parallel()
	recreate := func(id string) func(context.Context, redis.Pipeliner, string, []string) {
		return func(ctx context.Context, transaction redis.Pipeliner, stream string, _ []string) {
			transaction.Del(ctx, stream)
			transaction.XAdd(ctx, &redis.XAddArgs{Stream: stream, ID: id, Values: []string{"b", "{}"}})
		}
	}
	keep := func(entries int64) func(context.Context, redis.Pipeliner, string, []string) {
		return func(ctx context.Context, transaction redis.Pipeliner, stream string, _ []string) {
			transaction.XTrimMaxLen(ctx, stream, entries)
		}
	}
	remove := func(numbers ...int) func(context.Context, redis.Pipeliner, string, []string) {
		return func(ctx context.Context, transaction redis.Pipeliner, stream string, ids []string) {
			for _, n := range numbers {
				transaction.XDel(ctx, stream, ids[n])
			}
		}
	}
	rows := []struct {
		vanish func(ctx context.Context, transaction redis.Pipeliner, stream string, ids []string)
		gaps   string
	}{
		{keep(3), "trimmed 7"},
		{keep(0), "trimmed 10"},
		{keep(10), ""}, // what was read, and no more
		{func(ctx context.Context, transaction redis.Pipeliner, stream string, ids []string) {
			transaction.XTrimMinID(ctx, stream, ids[28])
		}, "trimmed 8"},
		{remove(22, 23, 27), "deleted 3"},
		{remove(29), "deleted 1"},
		{remove(3, 15, 19), ""}, // of what was read
		{func(ctx context.Context, transaction redis.Pipeliner, stream string, _ []string) {
			transaction.Del(ctx, stream)
		}, "gone"},
		{recreate("*"), "replaced"},
		{recreate("1-0"), "ahead"},
	}
	server, bets := newBets(t, len(rows), noFsync)
	options := kit.ClientOptions(server.Addr())
	options.PoolSize = 2 * len(rows)
	g := newGapEnv(t, bets, kit.Connect(t, options))
	g.handler.fails.Store("all")
	g.add(20)
	want := make([]string, len(rows))
	for partition, row := range rows {
		want[partition] = row.gaps
		g.consumer.awaitBlocked(t, partition)
	}
	kit.Sleep(t.Context(), time.Second) // until what is read ahead is in memory
	for partition, row := range rows {
		_, err := bets.Client.TxPipelined(t.Context(), func(transaction redis.Pipeliner) error {
			row.vanish(t.Context(), transaction, g.Stream(partition), g.ids[partition])
			return nil
		})
		require.NoError(t, err)
	}
	kit.Sleep(t.Context(), checkInterval+time.Second)
	g.handler.fails.Store("")
	g.assertReportedOnce(want...)
	t.Logf("%d streams: %q", len(rows), want)
}

// A flush deletes the positions too. The running consumer reports it, and stores that it did.
func TestC9AFlushIsReportedOnceOverRestarts(t *testing.T) {
	t.Parallel()
	server, bets := newBets(t, 1, noFsync)
	g := newGapEnv(t, bets, connect(t, server))
	require.NoError(t, bets.Client.FlushAll(t.Context()).Err())
	kit.Await(t, func() bool { return g.gaps.of(0) == "gone" })
	g.restart()
	g.assertReportedOnce("gone")
}

// A replica that was promoted although it lacks entries ends below the position.
func TestC9AFailoverToAStaleReplicaIsReported(t *testing.T) {
	t.Parallel()
	p := newReplicated(t)
	g := newGapEnv(t, kit.NewTopic(t, p.client, "bets_settled", 1), p.client)
	kit.Await(t, func() bool {
		length, err := p.replica.Client().XLen(t.Context(), g.Stream(0)).Result()
		return err == nil && length == 10
	})
	p.promote(t)
	g.add(5)
	g.awaitPositions()
	p.failOver(t)
	kit.Await(t, func() bool { return g.gaps.of(0) != "" })
	g.assertReportedOnce("ahead")
	require.Equal(t, g.ids[0][14], g.gaps.gaps[0].Position)
}

// With GapHold nothing behind the gap is delivered, over restarts too, until a reset.
func TestC9AGapHoldsUntilAReset(t *testing.T) {
	t.Parallel()
	server, bets := newBets(t, 1, noFsync)
	g := newGapEnv(t, bets, connect(t, server))
	g.consumer.stop(t)
	g.options.Gaps = redisstream.GapHold
	g.add(10)
	require.NoError(t, bets.Client.XTrimMaxLen(t.Context(), g.Stream(0), 4).Err())
	g.start()
	for range 3 {
		kit.Await(t, func() bool {
			blocked := g.consumer.blocked(0)
			return blocked != nil && blocked.Cause == "gap" && *blocked.Gap.Lost == 6 && blocked.Gap.First == g.ids[0][16]
		})
		kit.Sleep(t.Context(), time.Second)
		g.restart()
	}
	assert.Equal(t, g.ids[0][:10], g.handler.entries())
	require.NoError(t, bets.Client.HSet(t.Context(), g.Positions(kit.ConsumerName), "__reset:0", g.ids[0][9]+"|").Err())
	g.handler.await(t, 14)
	assert.Equal(t, append(g.ids[0][:10:10], g.ids[0][16:]...), g.handler.entries())
	g.assertReportedOnce("trimmed 6")
}

// A publisher that trims the stream to a hundred entries, against a consumer that is too slow: what was delivered and what was
// reported as lost add up to all entries.
func TestC9AStormOfTrimmingIsCountedToTheEntry(t *testing.T) {
	t.Parallel()
	server, bets := newBets(t, 1, noFsync)
	g := newGapEnv(t, bets, connect(t, server))
	g.consumer.stop(t)
	g.options.BatchSize = 20
	g.start()
	const entries = 20_000
	began := time.Now()
	for n := 0; n < entries; n += 20 {
		pipeline := bets.Client.Pipeline()
		for range 20 {
			pipeline.XAdd(t.Context(), &redis.XAddArgs{Stream: g.Stream(0), MaxLen: 100, Values: []string{"b", "{}"}})
		}
		_, err := pipeline.Exec(t.Context())
		require.NoError(t, err)
		if n%4_000 == 0 {
			g.handler.fails.Store([]string{"", "all"}[n/4_000%2])
			kit.Sleep(t.Context(), 200*time.Millisecond)
		}
		if n == entries/2 {
			g.restart()
		}
	}
	g.handler.fails.Store("")
	g.AwaitEnd(t)
	g.restart() // it reports what is left to report
	total := func() int {
		seen := g.handler.entries()
		slices.Sort(seen)
		return len(slices.Compact(seen)) + int(g.gaps.lost())
	}
	kit.Await(t, func() bool { return total() >= entries+10 })
	assert.Equal(t, entries+10, total())
	t.Logf("%d messages in %.1f s, %d lost in %d gaps", entries, time.Since(began).Seconds(), g.gaps.lost(), len(g.gaps.gaps))
}

// A user who may use no transactions, or may not describe streams, reads all the same.
func TestC9WithoutPermissionToCheckItReadsAllTheSame(t *testing.T) {
	t.Parallel()
	for _, forbidden := range [][]string{{"-multi", "-exec"}, {"-xinfo|stream"}} {
		t.Run(forbidden[0], func(t *testing.T) {
			t.Parallel()
			server, bets := newBets(t, 1, noFsync)
			newGapEnv(t, bets, connectAs(t, server, "service", append([]string{"~*", "+@all"}, forbidden...)...)).assertReportedOnce("")
		})
	}
}
