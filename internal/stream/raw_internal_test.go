package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/wire"
)

// A reply that is streamed is not asked for again by the client when its connection turns out to be dead, as all others
// are. The source does that, so that a reader takes no notice.
func TestAReplyThatBreaksOffIsAskedForAgain(t *testing.T) {
	t.Parallel()
	redisServer := miniredis.RunT(t)
	var reads, broken atomic.Int32
	redisServer.Server().SetPreHook(func(peer *server.Peer, command string, _ ...string) bool {
		if command != "EXEC" || reads.Add(1) != 2 {
			return false
		}
		broken.Add(1)
		peer.WriteRaw("*2\r\n*0\r\n*1\r\n*2\r\n$10\r\ns:{bets}:0\r\n*2\r\n*2\r\n$3\r\n1-1") // and no more
		peer.Flush()
		peer.Close()
		return true
	})
	client := redis.NewClient(&redis.Options{Addr: redisServer.Addr(), MaxRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	for n := range 3 {
		_, err := redisServer.XAdd("s:{bets}:0", fmt.Sprintf("1-%d", n+1), []string{"b", "{}"})
		require.NoError(t, err)
	}
	source := NewRedis(client, wire.Keys{Topic: "bets"}, nil)
	for range 3 {
		answer, err := source.Read(t.Context(), 0, Ask{Count: 10, Batch: 2})
		require.NoError(t, err)
		assert.Equal(t, 3, answer.Read())
		assert.Len(t, answer.Pages, 2)
		assert.Equal(t, wire.ID{Ms: 1, Seq: 1}, answer.Pages[0].Entries[0].ID)
	}
	assert.EqualValues(t, 1, broken.Load())

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := source.Read(ended, 0, Ask{Count: 10, Batch: 2})
	require.ErrorIs(t, err, context.Canceled)
	assert.EqualValues(t, 4, reads.Load(), "and not for one who does not want it any more")
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
