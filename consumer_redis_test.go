package restatestart_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

// redisWorld is a Redis double and a client of it. What needs the real thing is tested end to end.
func redisWorld(t *testing.T, options *redis.Options) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	server := miniredis.RunT(t)
	options.Addr = server.Addr()
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

// consume runs a consumer until the handler has seen n messages, and returns them.
func consume(t *testing.T, client redis.UniversalClient, n int, options restatestart.ConsumerOptions) []restatestart.Message[claim] {
	t.Helper()
	options.Consumer = "payout"
	options.Block = 10 * time.Millisecond
	var mu sync.Mutex // of partitions that are handled at once
	var seen []restatestart.Message[claim]
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	consumer, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim],
		restatestart.HandlerFunc[claim](func(_ context.Context, batch []restatestart.Message[claim]) error {
			mu.Lock()
			defer mu.Unlock()
			if seen = append(seen, batch...); len(seen) >= n {
				cancel()
			}
			return nil
		}), options)
	require.NoError(t, err)
	require.NoError(t, consumer.Run(ctx))
	require.Len(t, seen, n)
	return seen
}

func TestEntriesOfRedisEventsReachTheHandlerWhole(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		server, client := redisWorld(t, &redis.Options{Protocol: protocol})
		_, err := server.XAdd("dev:re:s:{claims}:0", "17-3", []string{
			"b", `{"key":"k1"}`, "t", "ClaimMade", "k", "cust-42", "c", "corr-1", "p", producer, "h", "5:brand6:orange",
		})
		require.NoError(t, err)
		seen := consume(t, client, 1, restatestart.ConsumerOptions{KeyPrefix: "dev:re:"})
		headers, err := restatestart.NewHeaders(restatestart.Header{Name: "brand", Value: "orange"})
		require.NoError(t, err)
		assert.Equal(t, restatestart.Message[claim]{
			Value: claim{Key: "k1"}, ID: "17-3", Stream: "dev:re:s:{claims}:0", Type: "ClaimMade", Key: "cust-42",
			CorrelationID: "corr-1", TraceParent: producer, Headers: headers, Body: []byte(`{"key":"k1"}`),
		}, seen[0])
		assert.True(t, strings.HasPrefix(server.HGet("dev:re:p:{claims}:payout", "0"), "17-3|"), "the position was written on the way out")
	}
}

func TestTypesAreTakenToTheLetterBeforeTheBodyIsDecoded(t *testing.T) {
	t.Parallel()
	server, client := redisWorld(t, &redis.Options{})
	for _, fields := range [][]string{
		{"b", "not JSON", "t", "Other"},
		{"b", `{"key":"a"}`, "t", "ClaimMade"},
		{"b", `{"key":"b"}`, "t", "claimmade"},
		{"b", `{"key":"c"}`},
		{"t", "Other"},
		{"b", `{"key":"d"}`, "t", "ClaimPaid"},
		{"b", "x", "t", ""},
	} {
		_, err := server.XAdd("s:{claims}:0", "*", fields)
		require.NoError(t, err)
	}
	seen := consume(t, client, 2, restatestart.ConsumerOptions{Types: []string{"ClaimMade", "ClaimPaid"}})
	assert.Equal(t, "a", seen[0].Value.Key)
	assert.Equal(t, "d", seen[1].Value.Key)
	entries, err := client.XRange(t.Context(), "s:{claims}:0", "-", "+").Result()
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(server.HGet("p:{claims}:payout", "0"), entries[6].ID+"|"), "what no type wants counts as done")
}

func TestMetaAndInstancesDecideWhatIsRead(t *testing.T) {
	t.Parallel()
	server, client := redisWorld(t, &redis.Options{})
	server.HSet("m:{claims}", "partitions", "4", "v", "1")
	for partition, key := range []string{"a", "b", "c", "d"} {
		_, err := server.XAdd("s:{claims}:"+string(rune('0'+partition)), "1-1", []string{"b", `{"key":"` + key + `"}`})
		require.NoError(t, err)
	}
	second := 1
	seen := consume(t, client, 2, restatestart.ConsumerOptions{InstanceCount: 2, InstanceIndex: &second})
	keys := []string{seen[0].Value.Key, seen[1].Value.Key}
	assert.ElementsMatch(t, []string{"c", "d"}, keys)
	assert.Equal(t, []int{3, 2}[map[string]int{"d": 0, "c": 1}[seen[0].Value.Key]], seen[0].Partition)
	fields, err := server.HKeys("p:{claims}:payout")
	require.NoError(t, err)
	assert.Equal(t, []string{"2", "3"}, fields)
}

func TestAPoolTooSmallForTheReadsIsRefusedAtStart(t *testing.T) {
	t.Parallel()
	handler := restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error { return nil })
	for _, options := range []*redis.Options{{PoolSize: 4}, {PoolSize: 100, MaxActiveConns: 4}} {
		_, client := redisWorld(t, options)
		consumer, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], handler,
			restatestart.ConsumerOptions{Consumer: "payout", Partitions: 4})
		require.NoError(t, err)
		err = consumer.Run(t.Context())
		require.ErrorContains(t, err, "pool of 4 connections is too small: the reads of 4 partitions hold one each")
		require.ErrorContains(t, err, "at least 5")
	}
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}, PoolSize: 2})
	t.Cleanup(func() { _ = cluster.Close() })
	ring := redis.NewRing(&redis.RingOptions{PoolSize: 2})
	t.Cleanup(func() { _ = ring.Close() })
	for _, client := range []redis.UniversalClient{cluster, ring} {
		_, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], handler, restatestart.ConsumerOptions{Consumer: "payout"})
		require.NoError(t, err, "no I/O yet")
		assert.Equal(t, 2, restatestart.PoolSize(client))
	}
}

func TestTheClientIsLeftOpenAndAClosedOneEndsTheRun(t *testing.T) {
	t.Parallel()
	server, client := redisWorld(t, &redis.Options{})
	_, err := server.XAdd("s:{claims}:0", "*", []string{"b", `{}`})
	require.NoError(t, err)
	consume(t, client, 1, restatestart.ConsumerOptions{})
	require.NoError(t, client.Ping(t.Context()).Err())

	handler := restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error { return nil })
	consumer, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim], handler, restatestart.ConsumerOptions{Consumer: "payout"})
	require.NoError(t, err)
	require.NoError(t, client.Close())
	require.ErrorIs(t, consumer.Run(t.Context()), redis.ErrClosed)
}

func TestALogLineSaysWhatIsReadFromWhere(t *testing.T) {
	t.Parallel()
	server, client := redisWorld(t, &redis.Options{})
	_, err := server.XAdd("s:{claims}:0", "*", []string{"b", `{}`})
	require.NoError(t, err)
	w := newWorld(t, 1)
	consume(t, client, 1, restatestart.ConsumerOptions{Logger: w.logger(), Partitions: 2})
	assert.Equal(t, 1, w.logged(`msg=consuming topic=claims consumer=payout key_prefix="" partitions=2 owned="[0 1]" instance_index=0 instance_count=1 start_from=stored connections=3`))
	assert.Equal(t, 2, w.logged("no stored position, starting from the beginning"))
}

// B46: an entry is a list and may hold a field twice, or one without a name. go-redis makes a map of it.
func TestOfAFieldThatStandsTwiceTheLastOneCounts(t *testing.T) {
	t.Parallel()
	server, client := redisWorld(t, &redis.Options{})
	_, err := server.XAdd("s:{claims}:0", "1-1", []string{"b", `{"key":"first"}`, "b", `{"key":"last"}`, "", "no name", "t", "A", "t", "B"})
	require.NoError(t, err)
	seen := consume(t, client, 1, restatestart.ConsumerOptions{Types: []string{"B"}})
	assert.Equal(t, "last", seen[0].Value.Key)
	assert.Equal(t, "B", seen[0].Type)
}

// commands is a hook that notes the commands of one name.
type commands struct {
	name string

	mu   sync.Mutex
	seen [][]any
}

func (c *commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, pipeline []redis.Cmder) error {
		for _, command := range pipeline {
			c.note(command)
		}
		return next(ctx, pipeline)
	}
}

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		c.note(command)
		return next(ctx, command)
	}
}

func (c *commands) note(command redis.Cmder) {
	if command.Name() == c.name {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen = append(c.seen, command.Args())
	}
}

func (c *commands) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen)
}

// B58, B22: a read always says how much it wants, and from which id on: never all there is, and never `$`.
func TestEveryReadNamesItsCountAndItsID(t *testing.T) {
	t.Parallel()
	server, client := redisWorld(t, &redis.Options{})
	reads := &commands{name: "xread"}
	client.AddHook(reads)
	for _, id := range []string{"1-1", "1-2", "1-3"} {
		_, err := server.XAdd("s:{claims}:0", id, []string{"b", `{"key":"k"}`})
		require.NoError(t, err)
	}
	var last sync.WaitGroup
	last.Go(func() {
		assert.Eventually(t, func() bool { return reads.count() > 2 }, 20*time.Second, time.Millisecond)
		_, err := server.XAdd("s:{claims}:0", "1-4", []string{"b", `{"key":"k"}`})
		assert.NoError(t, err)
	})
	consume(t, client, 4, restatestart.ConsumerOptions{BatchSize: 2})
	last.Wait()
	reads.mu.Lock()
	defer reads.mu.Unlock()
	require.GreaterOrEqual(t, len(reads.seen), 3)
	// Behind, it does not wait, looks for holes, and asks for several batches. The handler may be done with the first by then.
	assert.Equal(t, []any{"xread", "count", 2, "streams", "s:{claims}:0", "0-0"}, reads.seen[0])
	assert.Contains(t, []any{6, 8}, reads.seen[1][2])
	assert.Equal(t, []any{"xread", "count", reads.seen[1][2], "streams", "s:{claims}:0", "1-2"}, reads.seen[1])
	assert.Equal(t, []any{"xread", "count", int64(2), "block", int64(10), "streams", "s:{claims}:0", "1-3"}, reads.seen[2])
}

// B60: a stream that was evicted, or lost by a restart without persistence, begins again; what comes is delivered.
func TestAStreamThatWasDeletedIsReadOnFromItsNextEntry(t *testing.T) {
	t.Parallel()
	server, client := redisWorld(t, &redis.Options{})
	_, err := server.XAdd("s:{claims}:0", "5-1", []string{"b", `{"key":"before"}`})
	require.NoError(t, err)
	first := consume(t, client, 1, restatestart.ConsumerOptions{})
	server.Del("s:{claims}:0")
	_, err = server.XAdd("s:{claims}:0", "6-1", []string{"b", `{"key":"after"}`})
	require.NoError(t, err)
	second := consume(t, client, 1, restatestart.ConsumerOptions{})
	assert.Equal(t, "before after", first[0].Value.Key+" "+second[0].Value.Key)
}
