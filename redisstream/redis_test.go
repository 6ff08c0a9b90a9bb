package redisstream_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/redisstream"
)

func TestAnEntryReachesTheHandlerWithEveryField(t *testing.T) {
	t.Parallel()
	for _, protocol := range []int{2, 3} {
		server, client := redisEnv(t, &redis.Options{Protocol: protocol})
		_, err := server.XAdd("dev:re:s:{claims}:0", "17-3", []string{
			"b", `{"key":"k1"}`, "t", "ClaimMade", "k", "cust-42", "c", "corr-1", "p", testkit.Producer, "h", "5:brand6:orange",
		})
		require.NoError(t, err)
		seen := consume(t, client, 1, redisstream.Options{KeyPrefix: "dev:re:"})
		headers, err := restatestart.NewHeaders(restatestart.Header{Name: "brand", Value: "orange"})
		require.NoError(t, err)
		assert.Equal(t, claimMessage{
			Value: testkit.Claim{Key: "k1"}, ID: "17-3", Stream: "dev:re:s:{claims}:0", Type: "ClaimMade", Key: "cust-42",
			CorrelationID: "corr-1", TraceParent: testkit.Producer, Headers: headers, Body: []byte(`{"key":"k1"}`),
		}, seen[0])
		assert.True(t, strings.HasPrefix(server.HGet("dev:re:p:{claims}:payout", "0"), "17-3|"), "the position was written when it stopped")
	}
}

func TestTypesAreComparedExactlyBeforeTheBodyIsDecoded(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	for i, fields := range [][]string{
		{"b", "not JSON", "t", "Other"},
		{"b", `{"key":"a"}`, "t", "ClaimMade"},
		{"b", `{"key":"b"}`, "t", "claimmade"},
		{"b", `{"key":"c"}`},
		{"t", "Other"},
		{"b", `{"key":"d"}`, "t", "ClaimPaid"},
		{"b", "x", "t", ""},
	} {
		add(t, server, fmt.Sprintf("1-%d", i+1), fields...)
	}
	seen := consume(t, client, 2, redisstream.Options{Types: []string{"ClaimMade", "ClaimPaid"}})
	assert.Equal(t, []string{"a", "d"}, keysOf(seen))
	assert.True(t, strings.HasPrefix(server.HGet("p:{claims}:payout", "0"), "1-7|"), "entries of other types count as done")
}

func TestTheMetaHashAndTheInstanceDecideWhatIsRead(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	server.HSet("m:{claims}", "partitions", "4", "v", "1")
	for partition, key := range []string{"a", "b", "c", "d"} {
		_, err := server.XAdd(fmt.Sprintf("s:{claims}:%d", partition), "1-1", []string{"b", `{"key":"` + key + `"}`})
		require.NoError(t, err)
	}
	second := 1
	partitions := map[string]int{}
	for _, message := range consume(t, client, 2, redisstream.Options{InstanceCount: 2, InstanceIndex: &second}) {
		partitions[message.Value.Key] = message.Partition
	}
	assert.Equal(t, map[string]int{"c": 2, "d": 3}, partitions)
	fields, err := server.HKeys("p:{claims}:payout")
	require.NoError(t, err)
	assert.Equal(t, []string{"2", "3"}, fields)
}

func TestAPoolThatIsTooSmallEndsTheRun(t *testing.T) {
	t.Parallel()
	handler := claimHandler(accept)
	for _, options := range []*redis.Options{{PoolSize: 4}, {PoolSize: 100, MaxActiveConns: 4}} {
		_, client := redisEnv(t, options)
		consumer, err := redisstream.NewConsumer(client, redisstream.Topic("claims"), decodeClaim, handler,
			redisstream.Options{Consumer: "payout", Partitions: 4})
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
		_, err := redisstream.NewConsumer(client, redisstream.Topic("claims"), decodeClaim, handler, redisstream.Options{Consumer: "payout"})
		require.NoError(t, err, "no I/O yet")
		assert.Equal(t, 2, redisstream.PoolSize(client))
	}
}

func TestRunNeverClosesTheClientAndEndsWhenItIsClosed(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	add(t, server, "*", "b", `{}`)
	consume(t, client, 1, redisstream.Options{})
	require.NoError(t, client.Ping(t.Context()).Err())

	consumer, err := redisstream.NewConsumer(client, redisstream.Topic("claims"), decodeClaim, claimHandler(accept), redisstream.Options{Consumer: "payout"})
	require.NoError(t, err)
	require.NoError(t, client.Close())
	require.ErrorIs(t, consumer.Run(t.Context()), redis.ErrClosed)
}

// An entry is a list of fields, of which go-redis makes a map: a field may be there twice or have no name.
func TestTheLastOfTwoFieldsOfOneNameCounts(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	add(t, server, "1-1", "b", `{"key":"first"}`, "b", `{"key":"last"}`, "", "no name", "t", "A", "t", "B")
	seen := consume(t, client, 1, redisstream.Options{Types: []string{"B"}})
	assert.Equal(t, "last", seen[0].Value.Key)
	assert.Equal(t, "B", seen[0].Type)
}

// Never all there is, and never from `$`, which would miss what is published between two reads.
func TestEveryReadIsBoundedAndNamesAnID(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	reads := &commands{name: "xread"}
	client.AddHook(reads)
	for _, id := range []string{"1-1", "1-2", "1-3"} {
		add(t, server, id, "b", `{"key":"k"}`)
	}
	var last sync.WaitGroup
	last.Go(func() {
		assert.Eventually(t, func() bool { return reads.count() > 2 }, 20*time.Second, time.Millisecond)
		_, err := server.XAdd("s:{claims}:0", "1-4", []string{"b", `{"key":"k"}`})
		assert.NoError(t, err)
	})
	consume(t, client, 4, redisstream.Options{BatchSize: 2})
	last.Wait()
	reads.mu.Lock()
	defer reads.mu.Unlock()
	require.GreaterOrEqual(t, len(reads.seen), 3)
	// While it is behind, it does not block, and reads several batches at once: as many as ReadAhead has room for.
	assert.Equal(t, []any{"xread", "count", 2, "streams", "s:{claims}:0", "0-0"}, reads.seen[0])
	assert.Contains(t, []any{6, 8}, reads.seen[1][2])
	assert.Equal(t, []any{"xread", "count", reads.seen[1][2], "streams", "s:{claims}:0", "1-2"}, reads.seen[1])
	assert.Equal(t, []any{"xread", "count", int64(2), "block", int64(10), "streams", "s:{claims}:0", "1-3"}, reads.seen[2])
}

// commands is a hook that records the commands of one name.
type commands struct {
	name string

	mu   sync.Mutex
	seen [][]any
}

func (c *commands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, pipeline []redis.Cmder) error {
		for _, command := range pipeline {
			c.record(command)
		}
		return next(ctx, pipeline)
	}
}

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		c.record(command)
		return next(ctx, command)
	}
}

func (c *commands) record(command redis.Cmder) {
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

// A stream that was evicted, or lost in a restart without persistence, begins again.
func TestADeletedStreamIsReadOnceItIsBack(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	add(t, server, "5-1", "b", `{"key":"before"}`)
	first := consume(t, client, 1, redisstream.Options{})
	server.Del("s:{claims}:0")
	add(t, server, "6-1", "b", `{"key":"after"}`)
	second := consume(t, client, 1, redisstream.Options{})
	assert.Equal(t, "before after", first[0].Value.Key+" "+second[0].Value.Key)
}
