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

// reading is a source on a server that is told what to do about each EXEC, by its number.
func reading(t *testing.T, client *redis.Options, exec func(number int32, peer *server.Peer) bool) (*miniredis.Miniredis, *Redis, *redis.Client) {
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

// Of a reply that breaks off nothing is left when the next one comes.
func TestAReplyThatBreaksOffIsForgotten(t *testing.T) {
	t.Parallel()
	_, source, _ := reading(t, &redis.Options{}, func(number int32, peer *server.Peer) bool {
		if number != 2 {
			return false
		}
		peer.WriteRaw("*2\r\n*0\r\n*1\r\n*2\r\n$10\r\ns:{bets}:0\r\n*2\r\n*2\r\n$3\r\n1-1") // and no more
		peer.Flush()
		peer.Close()
		return true
	})
	for number := range 3 {
		answer, err := source.Read(t.Context(), 0, Ask{Count: 10, Batch: 2})
		if number == 1 {
			require.ErrorContains(t, err, "EOF")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, 3, answer.Read())
		assert.Len(t, answer.Pages, 2)
		assert.Equal(t, wire.ID{Ms: 1, Seq: 1}, answer.Pages[0].Entries[0].ID)
	}
}

// A read that finds no answer in time is not repeated before anybody hears of it: the loop asks for less then.
func TestAReadThatTimesOutIsMadeOnce(t *testing.T) {
	t.Parallel()
	var execs atomic.Int32
	_, source, _ := reading(t, &redis.Options{ReadTimeout: 100 * time.Millisecond}, func(int32, *server.Peer) bool {
		execs.Add(1)
		return true // and no answer
	})
	_, err := source.Read(t.Context(), 0, Ask{Count: 10, Batch: 2})
	network, found := errors.AsType[net.Error](err)
	require.True(t, found, err)
	assert.True(t, network.Timeout())
	assert.EqualValues(t, 1, execs.Load())
}

// twice is a client's hook that makes each call again.
type twice struct{}

func (twice) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (twice) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (twice) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		_ = next(ctx, commands)
		return next(ctx, commands)
	}
}

// A hook that makes a call again has two replies streamed where one is looked for: the stream's description would be of
// the second, and the entries of the first.
func TestTwoRepliesAreNotTakenForOne(t *testing.T) {
	t.Parallel()
	_, source, client := reading(t, &redis.Options{}, func(int32, *server.Peer) bool { return false })
	client.AddHook(twice{})
	_, err := source.Read(t.Context(), 0, Ask{Count: 10, Batch: 2})
	require.ErrorIs(t, err, errReply)
}

// The same with a first one that broke off, in the middle of a body that takes in the second.
func TestAReplyIsNotTakenForTheEndOfAnother(t *testing.T) {
	t.Parallel()
	second := sent(2, entry("1-1", "b", "{}"), entry("1-2", "b", "{}"), entry("1-3", "b", "{}"))
	_, source, client := reading(t, &redis.Options{Protocol: 2}, func(number int32, peer *server.Peer) bool {
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
	answer, err := source.Read(t.Context(), 0, Ask{Count: 10, Batch: 2})
	require.ErrorIs(t, err, errReply, "%v", answer)
}

// What is large is counted by what came, wanted or not: the next read is of as many batches as that allows.
func TestTheSizeOfAnAnswerIsThatOfAllThatCame(t *testing.T) {
	t.Parallel()
	redisServer, source, _ := reading(t, &redis.Options{}, func(int32, *server.Peer) bool { return false })
	_, err := redisServer.XAdd("s:{bets}:0", "2-1", []string{"b", strings.Repeat("x", 30_000), "t", "Other"})
	require.NoError(t, err)
	source.types = map[string]bool{"Wanted": true}
	for _, block := range []time.Duration{0, time.Second} {
		answer, err := source.Read(t.Context(), 0, Ask{Count: 10, Batch: 2, Block: block})
		require.NoError(t, err)
		assert.Equal(t, 4, answer.Read())
		assert.InDelta(t, 30_000, answer.Bytes, 300)
	}
}

// A read that describes the stream takes its reply raw, one that waits has it from go-redis: they make the same pages of it.
func TestBothKindsOfReadMakeTheSamePages(t *testing.T) {
	t.Parallel()
	redisServer, source, _ := reading(t, &redis.Options{}, func(int32, *server.Peer) bool { return false })
	for n := range 12 {
		fields := []string{"b", fmt.Sprintf("{\r\n%d", n), "t", []string{"A", "B", ""}[n%3], "k", "key", "c", "corr", "p", "00-x", "h", "1:a1:b"}
		_, err := redisServer.XAdd("s:{bets}:0", fmt.Sprintf("2-%d", n+1), fields)
		require.NoError(t, err)
	}
	for _, types := range []map[string]bool{nil, {"A": true}, {"A": true, "": true}} {
		source.types = types
		for batch := 1; batch < 6; batch++ {
			raw, err := source.Read(t.Context(), 0, Ask{Count: 14, Batch: batch})
			require.NoError(t, err)
			plain, err := source.Read(t.Context(), 0, Ask{Count: 14, Batch: batch, Block: time.Second})
			require.NoError(t, err)
			assert.Equal(t, plain.Pages, raw.Pages, "%v in batches of %d", types, batch)
			assert.Equal(t, 14, raw.Read())
		}
	}
}

// A reply of great size does not stay for ever in memory that small ones use again and again.
func TestTheMemoryOfALargeReplyIsNotKept(t *testing.T) {
	t.Parallel()
	for range 8 { // of what others put there meanwhile
		large := &rawReply{bytes: make([]byte, 0, maxKept+1)}
		large.release()
		assert.LessOrEqual(t, cap(newRawReply().bytes), maxKept)
	}
}

// What a page holds must not change when the memory of its reply serves another.
func TestAPageOutlivesItsReply(t *testing.T) {
	t.Parallel()
	raw := newRawReply()
	_, err := raw.ReadFrom(iotest.OneByteReader(strings.NewReader(sent(2, entry("1-0", "b", "first", "t", "A")))))
	require.NoError(t, err)
	pages, err := parsePages(raw.bytes, 100, nil)
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

// A budget: a page takes its entries, one string for all that they hold, and little else, however many they are.
func TestAPageAllocatesNothingForEachOfItsEntries(t *testing.T) { //nolint:paralleltest // it counts allocations
	entries := make([]string, 100)
	for n := range entries {
		entries[n] = entry(fmt.Sprintf("1726000000000-%d", n), "b", `{"betId":"b"}`, "t", "BetSettled", "k", "c-1")
	}
	raw := []byte(sent(2, entries...))
	const most = 20 // it is 4 and less; the race detector throws away some of what is to be used again
	for name, types := range map[string]map[string]bool{"all": nil, "none": {"BetPlaced": true}, "those of a type": {"BetSettled": true}} {
		assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, _ = parsePages(raw, 100, types) }), float64(most), name)
	}
}
