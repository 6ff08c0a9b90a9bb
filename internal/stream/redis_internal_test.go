package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/wire"
)

// newSource is a source on a server with three entries, and with a hook that may answer an EXEC itself, by its number.
func newSource(t *testing.T, client *redis.Options, exec func(number int32, peer *server.Peer) bool) (*miniredis.Miniredis, *Redis, *redis.Client) {
	t.Helper()
	redisServer := miniredis.RunT(t)
	var execs atomic.Int32
	redisServer.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
		return command == "EXEC" && exec(execs.Add(1), peer)
	})
	client.Addr = redisServer.Addr()
	redisClient := redis.NewClient(client)
	t.Cleanup(func() { _ = redisClient.Close() })
	for n := range 3 {
		_, err := redisServer.XAdd("s:{bets}:0", fmt.Sprintf("1-%d", n+1), []string{"b", "{}"})
		require.NoError(t, err)
	}
	return redisServer, NewRedis(redisClient, wire.Keys{Topic: "bets"}, nil), redisClient
}

// Nothing of a truncated reply is left in the pooled buffer.
func TestATruncatedReplyIsDiscarded(t *testing.T) {
	t.Parallel()
	_, source, _ := newSource(t, &redis.Options{}, func(number int32, peer *server.Peer) bool {
		if number != 2 {
			return false
		}
		peer.WriteRaw("*2\r\n*0\r\n*1\r\n*2\r\n$10\r\ns:{bets}:0\r\n*2\r\n*2\r\n$3\r\n1-1") // truncated
		peer.Flush()
		peer.Close()
		return true
	})
	for number := range 3 {
		result, err := source.Read(t.Context(), 0, ReadRequest{Count: 10, Batch: 2})
		if number == 1 {
			require.ErrorContains(t, err, "EOF")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, 3, result.Read())
		assert.Len(t, result.Pages, 2)
		assert.Equal(t, wire.ID{Ms: 1, Seq: 1}, result.Pages[0].Entries[0].ID)
	}
}

// The client does not retry a read that timed out: the loop does, for fewer entries.
func TestAReadThatTimesOutIsMadeOnce(t *testing.T) {
	t.Parallel()
	var execs atomic.Int32
	_, source, _ := newSource(t, &redis.Options{ReadTimeout: 100 * time.Millisecond}, func(int32, *server.Peer) bool {
		execs.Add(1)
		return true // and no answer
	})
	_, err := source.Read(t.Context(), 0, ReadRequest{Count: 10, Batch: 2})
	network, found := errors.AsType[net.Error](err)
	require.True(t, found, err)
	assert.True(t, network.Timeout())
	assert.EqualValues(t, 1, execs.Load())
}

// twice is a client hook that makes each call twice.
type twice struct{}

func (twice) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		_ = next(ctx, commands)
		return next(ctx, commands)
	}
}

// A hook that repeats a call has two replies written into one buffer: the tail would be that of the second, the entries
// those of the first.
func TestTwoRepliesAreRefused(t *testing.T) {
	t.Parallel()
	_, source, client := newSource(t, &redis.Options{}, func(int32, *server.Peer) bool { return false })
	client.AddHook(twice{})
	_, err := source.Read(t.Context(), 0, ReadRequest{Count: 10, Batch: 2})
	require.ErrorIs(t, err, errReply)
}

// The same with a first one truncated within a body, whose length covers the second.
func TestAReplyThatContainsAnotherIsRefused(t *testing.T) {
	t.Parallel()
	second := sent(2, entry("1-1", "b", "{}"), entry("1-2", "b", "{}"), entry("1-3", "b", "{}"))
	_, source, client := newSource(t, &redis.Options{Protocol: 2}, func(number int32, peer *server.Peer) bool {
		if number > 1 {
			return false
		}
		peer.WriteRaw("*2\r\n*0\r\n*1\r\n*2\r\n" + bulk("s:{bets}:0") + "*1\r\n*2\r\n" + bulk("1-1") + "*2\r\n" + bulk("b"))
		peer.WriteRaw(fmt.Sprintf("$%d\r\n", len(second)-2))
		peer.Flush()
		peer.Close()
		return true
	})
	client.AddHook(twice{})
	result, err := source.Read(t.Context(), 0, ReadRequest{Count: 10, Batch: 2})
	require.ErrorIs(t, err, errReply, "%v", result)
}

// The size bounds the next read, so entries of other types count too.
func TestTheSizeOfAResultIncludesUnwantedEntries(t *testing.T) {
	t.Parallel()
	redisServer, source, _ := newSource(t, &redis.Options{}, func(int32, *server.Peer) bool { return false })
	_, err := redisServer.XAdd("s:{bets}:0", "2-1", []string{"b", strings.Repeat("x", 30_000), "t", "Other"})
	require.NoError(t, err)
	source.types = map[string]bool{"Wanted": true}
	for _, block := range []time.Duration{0, time.Second} {
		result, err := source.Read(t.Context(), 0, ReadRequest{Count: 10, Batch: 2, Block: block})
		require.NoError(t, err)
		assert.Equal(t, 4, result.Read())
		assert.InDelta(t, 30_000, result.Bytes, 300)
	}
}

// One that does not wait uses the decoder of this package, one that waits that of go-redis.
func TestBothKindsOfReadReturnTheSamePages(t *testing.T) {
	t.Parallel()
	redisServer, source, _ := newSource(t, &redis.Options{}, func(int32, *server.Peer) bool { return false })
	for n := range 12 {
		fields := []string{"b", fmt.Sprintf("{\r\n%d", n), "t", []string{"A", "B", ""}[n%3], "k", "key", "c", "corr", "p", "00-x", "h", "1:a1:b"}
		_, err := redisServer.XAdd("s:{bets}:0", fmt.Sprintf("2-%d", n+1), fields)
		require.NoError(t, err)
	}
	for _, types := range []map[string]bool{nil, {"A": true}, {"A": true, "": true}} {
		source.types = types
		for batch := 1; batch < 6; batch++ {
			raw, err := source.Read(t.Context(), 0, ReadRequest{Count: 14, Batch: batch})
			require.NoError(t, err)
			plain, err := source.Read(t.Context(), 0, ReadRequest{Count: 14, Batch: batch, Block: time.Second})
			require.NoError(t, err)
			assert.Equal(t, plain.Pages, raw.Pages, "%v in batches of %d", types, batch)
			assert.Equal(t, 14, raw.Read())
		}
	}
}

// Small replies would otherwise keep it in use forever.
func TestTheMemoryOfALargeReplyIsNotPooled(t *testing.T) {
	t.Parallel()
	for range 8 { // other tests use the pool too
		large := &rawReply{bytes: make([]byte, 0, maxPooled+1)}
		large.release()
		assert.LessOrEqual(t, cap(newRawReply().bytes), maxPooled)
	}
}

// Its texts must not change when the buffer of its reply is used again.
func TestAPageOutlivesItsReply(t *testing.T) {
	t.Parallel()
	raw := newRawReply()
	_, err := raw.ReadFrom(iotest.OneByteReader(strings.NewReader(sent(2, entry("1-0", "b", "first", "t", "A")))))
	require.NoError(t, err)
	pages, err := decodePages(raw.bytes, 100, nil)
	require.NoError(t, err)
	for i := range raw.bytes {
		raw.bytes[i] = '!'
	}
	raw.release()
	assert.Equal(t, []wire.Entry{{ID: wire.ID{Ms: 1}, Name: "1-0", Body: "first", HasBody: true, Type: "A"}}, pages[0].Entries)

	broken := errors.New("reset")
	_, err = newRawReply().ReadFrom(io.MultiReader(strings.NewReader("*1"), iotest.ErrReader(broken)))
	require.ErrorIs(t, err, broken)
}

// A page allocates its entries, one string for all their texts, and little else.
func TestAPageAllocatesNothingPerEntry(t *testing.T) { //nolint:paralleltest // it counts allocations
	entries := make([]string, 100)
	for n := range entries {
		entries[n] = entry(fmt.Sprintf("1726000000000-%d", n), "b", `{"betId":"b"}`, "t", "BetSettled", "k", "c-1")
	}
	raw := []byte(sent(2, entries...))
	const most = 20 // 4 or less, but the race detector drops some pooled buffers
	for name, types := range map[string]map[string]bool{"all": nil, "none": {"BetPlaced": true}, "those of a type": {"BetSettled": true}} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = decodePages(raw, 100, types) }), float64(most), name)
	}
}
