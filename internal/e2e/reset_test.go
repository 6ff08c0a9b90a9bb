package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/redisstream/admin"
)

func newOperator(t *testing.T, bets *kit.Topic, client redis.UniversalClient) *admin.Client {
	t.Helper()
	positions, err := admin.New(client, bets.Topic, admin.Options{Consumer: kit.ConsumerName})
	require.NoError(t, err)
	return positions
}

// awaitNoReset waits until everything is handled and stored, and no reset is pending.
func awaitNoReset(t *testing.T, positions *admin.Client) {
	t.Helper()
	kit.Await(t, func() bool {
		list, err := positions.Positions(t.Context())
		return err == nil && !slices.ContainsFunc(list, func(at admin.Position) bool {
			return at.Lag == nil || *at.Lag > 0 || at.Pending != nil
		})
	}, "the positions are at the end and no reset is pending")
}

func TestAResetIsHonouredInEveryStateOfTheConsumer(t *testing.T) {
	t.Parallel()
	const entries, at = 10, 5 // the entry that the handler fails on
	// The writer that the original's reset tool uses.
	const originalWriter = "6f72616e-6765-4164-6d69-6e5265736574"
	stopping := redisstream.Options{OnError: redisstream.ErrorStop}
	for name, row := range map[string]struct {
		options  redisstream.Options
		state    redisstream.State // empty: it is not running
		failing  bool
		to       int // resume after this entry; -1 is the beginning
		again    int64
		skipped  int64
		original bool // written as the original's tool does
	}{
		"idle":               {state: redisstream.StateIdle, to: 3, again: 6},
		"idle, original":     {state: redisstream.StateIdle, to: 3, again: 6, original: true},
		"held, forward":      {state: redisstream.StateBlocked, failing: true, to: at, skipped: 1},
		"held, back":         {state: redisstream.StateBlocked, failing: true, to: 1, again: 3},
		"stopped, forward":   {options: stopping, state: redisstream.StateStopped, failing: true, to: at, skipped: 1},
		"stopped, back":      {options: stopping, state: redisstream.StateStopped, failing: true, to: -1, again: 5},
		"not running":        {to: 8, again: 1},
		"not running, to 0":  {to: -1, again: entries, original: true},
		"never run, forward": {failing: true, to: at, skipped: 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, bets := newBets(t, 1, noFsync)
			client := connect(t, server)
			positions := newOperator(t, bets, client)
			ids := bets.AddN(t, entries)
			seen, reached := &handled{}, entries
			if row.failing {
				seen.fails.Store(ids[at])
				reached = at
			}
			row.options.BatchSize, row.options.HoldMin = 1, 20*time.Second // no retry comes by itself
			if strings.HasPrefix(name, "never") {
				reached = 0
			} else {
				consumer := run(t, client, bets, seen, row.options)
				seen.await(t, reached)
				bets.AwaitPosition(t, 0, ids[reached-1])
				if row.state == "" {
					consumer.stop(t)
				} else {
					kit.Await(t, func() bool { return consumer.Status().Partitions[0].State == row.state })
				}
			}

			target, id := admin.ToBeginning(), "0-0"
			if row.to >= 0 {
				id = ids[row.to]
				target = admin.ToID(id)
			}
			preview, err := positions.PreviewReset(t.Context(), 0, target)
			require.NoError(t, err)
			assert.Equal(t, []int64{row.again, row.skipped}, []int64{preview.Redelivered, preview.Skipped})
			assert.False(t, preview.Trimmed)
			seen.fails.Store("")
			began := time.Now()
			if row.original {
				transaction := client.TxPipeline()
				transaction.HSet(t.Context(), bets.Positions(kit.ConsumerName), wire.PositionField(0), id+"|"+originalWriter)
				transaction.HSet(t.Context(), bets.Positions(kit.ConsumerName), wire.ResetField(0), id+"|"+wire.FormatTime(time.Now()))
				_, err = transaction.Exec(t.Context())
				require.NoError(t, err)
			} else {
				done, err := positions.Reset(t.Context(), 0, target)
				require.NoError(t, err)
				assert.Equal(t, preview, done)
			}
			if row.state == "" {
				run(t, client, bets, seen, row.options)
			}
			want := append(slices.Clone(ids[:reached]), ids[row.to+1:]...)
			seen.await(t, len(want))
			took := time.Since(began)
			awaitNoReset(t, positions)
			assert.Equal(t, want, seen.entries(), "the entries behind the target, and no others")
			assert.Less(t, took, 5*time.Second, "at once, not with the next retry of the held batch")
			list, err := positions.Positions(t.Context())
			require.NoError(t, err)
			assert.NotEqual(t, originalWriter, list[0].Writer, "the consumer's own position is stored again")
			t.Logf("%d redelivered, %d skipped, after %s", row.again, row.skipped, took.Round(time.Millisecond))
		})
	}
}

// Resets come while messages flow: the consumer resumes nowhere else than behind a target, and skips no message.
func TestResetsDoNotRaceWithARunningConsumer(t *testing.T) {
	t.Parallel()
	server, bets := newBets(t, 1, noFsync)
	client := connect(t, server)
	positions := newOperator(t, bets, client)
	seen := &handled{}
	consumer := run(t, client, bets, seen, redisstream.Options{BatchSize: 7, Block: 10 * time.Millisecond, PersistInterval: 5 * time.Millisecond})

	var ids []string // read once the publisher has ended
	ctx, stop := context.WithCancel(t.Context())
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			id, err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: bets.Stream(0), Values: []string{"b", `{"betId":"b"}`}}).Result()
			require.NoError(t, err)
			ids = append(ids, id)
			if n%10 == 0 {
				kit.Sleep(ctx, time.Millisecond)
			}
		}
	})
	seen.await(t, 1)
	const resets = 40
	targets := map[string]bool{}
	for range resets {
		kit.Sleep(t.Context(), time.Duration(10+rand.IntN(60))*time.Millisecond)
		before := seen.entries() // so that no reset skips a message
		preview, err := positions.Reset(t.Context(), 0, admin.ToID(before[max(0, len(before)-1-rand.IntN(200))]))
		require.NoError(t, err)
		targets[preview.To] = true
	}
	stop()
	publisher.Wait()
	awaitNoReset(t, positions)
	consumer.stop(t)

	place, missed := make(map[string]int, len(ids)), make(map[string]bool, len(ids))
	for n, id := range ids {
		place[id], missed[id] = n, true
	}
	got, jumps := seen.entries(), 0
	for i, id := range got {
		delete(missed, id)
		if i > 0 && place[id] != place[got[i-1]]+1 {
			jumps++
			assert.True(t, targets[ids[place[id]-1]], "it resumed at %s, behind no target", id)
		}
	}
	assert.Empty(t, missed)
	assert.Equal(t, ids[len(ids)-1], got[len(got)-1])
	assert.Positive(t, jumps)
	t.Logf("%d messages, %d resets, %d jumps, %d delivered", len(ids), resets, jumps, len(got))
}

func TestAResetThatIsCancelledInTimeMovesNothing(t *testing.T) {
	t.Parallel()
	server, bets := newBets(t, 1, noFsync)
	client := connect(t, server)
	positions := newOperator(t, bets, client)
	ids := bets.AddN(t, 3)
	seen, release := &handled{}, make(chan struct{})
	consumer := run(t, client, bets, redisstream.HandlerFunc[kit.Bet](func(ctx context.Context, batch []restatestart.Message[kit.Bet]) error {
		if batch[0].ID == ids[1] {
			<-release
		}
		return seen.Handle(ctx, batch)
	}), redisstream.Options{BatchSize: 1, PersistInterval: 10 * time.Millisecond})
	bets.AwaitPosition(t, 0, ids[0])

	_, err := positions.Reset(t.Context(), 0, admin.ToBeginning())
	require.NoError(t, err)
	kit.Sleep(t.Context(), 200*time.Millisecond) // the consumer has read it, and waits for the batch in flight
	cancelled, err := positions.CancelReset(t.Context(), 0)
	require.NoError(t, err)
	require.True(t, cancelled)
	bets.AwaitPosition(t, 0, ids[0])
	close(release)
	awaitNoReset(t, positions)
	consumer.stop(t)
	assert.Equal(t, ids, seen.entries())
	cancelled, err = positions.CancelReset(t.Context(), 0)
	require.NoError(t, err)
	assert.False(t, cancelled)
}

// Trimming and deleting are where doubles differ from a real Redis.
func TestAPreviewCountsWhatWasTrimmed(t *testing.T) {
	t.Parallel()
	_, bets := newBets(t, 1, noFsync)
	client := bets.Client
	trim := func(entries int) func(string) []any {
		return func(stream string) []any { return []any{"XTRIM", stream, "MAXLEN", entries} }
	}
	remove := func(id string) func(string) []any {
		return func(stream string) []any { return []any{"XDEL", stream, id} }
	}
	recreate := func(stream string) []any {
		return []any{"EVAL", `redis.call('DEL', KEYS[1]); return redis.call('XADD', KEYS[1], '3-0', 'b', '{}')`, 1, stream}
	}
	for n, row := range []struct {
		name    string
		command func(stream string) []any
		stored  string
		target  admin.ResetTarget
		again   int64
		skipped int64
		trimmed bool
		lag     int64
	}{
		{"nothing removed", nil, "5-0", admin.ToBeginning(), 5, 0, false, 5},
		{"before the first, nothing removed", nil, "5-0", admin.ToID("0-7"), 5, 0, false, 5},
		{"trimmed, back behind the first", trim(6), "8-0", admin.ToID("5-0"), 3, 0, false, 2},
		{"trimmed, back before the first", trim(6), "8-0", admin.ToID("3-0"), 4, 0, true, 2},
		{"trimmed, to the one before the first", trim(6), "8-0", admin.ToID("4-0"), 4, 0, true, 2}, // it may be
		{"trimmed, to the beginning", trim(6), "8-0", admin.ToBeginning(), 4, 0, true, 2},
		{"trimmed, to a time", trim(6), "8-0", admin.ToTime(time.UnixMilli(2)), 4, 0, true, 2},
		{"trimmed, position gone too", trim(6), "2-0", admin.ToID("7-0"), 0, 3, false, 6},
		{"deleted in the middle", remove("6-0"), "8-0", admin.ToID("5-0"), 2, 0, false, 2},
		{"deleted behind the position", remove("9-0"), "8-0", admin.ToEnd(), 0, 1, false, 1},
		{"the last deleted", remove("10-0"), "8-0", admin.ToID("10-0"), 0, 1, false, 1},
		{"all trimmed", trim(0), "8-0", admin.ToID("3-0"), 0, 0, true, 0},
		{"all trimmed, to the end", trim(0), "8-0", admin.ToEnd(), 0, 0, false, 0},
		{"recreated", recreate, "8-0", admin.ToBeginning(), 1, 0, false, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			bets := kit.NewTopic(t, client, fmt.Sprintf("bets-%d", n), 1)
			for n := 1; n <= 10; n++ {
				require.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: bets.Stream(0), ID: fmt.Sprintf("%d-0", n), Values: []string{"b", "{}"}}).Err())
			}
			if row.command != nil {
				require.NoError(t, client.Do(t.Context(), row.command(bets.Stream(0))...).Err())
			}
			require.NoError(t, client.HSet(t.Context(), bets.Positions(kit.ConsumerName), "0", row.stored+"|").Err())
			positions := newOperator(t, bets, client)
			preview, err := positions.PreviewReset(t.Context(), 0, row.target)
			require.NoError(t, err)
			assert.Equal(t, row.again, preview.Redelivered, "redelivered")
			assert.Equal(t, row.skipped, preview.Skipped, "skipped")
			assert.Equal(t, row.trimmed, preview.Trimmed, "trimmed")
			list, err := positions.Positions(t.Context())
			require.NoError(t, err)
			require.NotNil(t, list[0].Lag)
			assert.Equal(t, row.lag, *list[0].Lag, "lag")
		})
	}
}

// The server serves others between the steps of a count, for many entries as for large ones.
func TestCountingManyEntriesBlocksTheServerBriefly(t *testing.T) {
	t.Parallel()
	server, _ := newBets(t, 1, noFsync)
	client := server.Client()
	for setting, value := range map[string]string{"slowlog-log-slower-than": "0", "slowlog-max-len": "100000"} {
		require.NoError(t, client.ConfigSet(t.Context(), setting, value).Err())
	}
	for _, row := range []struct{ entries, size, calls int }{{200_000, 100, 80}, {200, 100_000, 7}} {
		bets := kit.NewTopic(t, client, fmt.Sprintf("bets-%d", row.size), 1)
		body := strings.Repeat("x", row.size)
		for first := 0; first < row.entries; first += 1000 {
			pipeline := client.Pipeline()
			for n := first; n < min(first+1000, row.entries); n++ {
				pipeline.XAdd(t.Context(), &redis.XAddArgs{Stream: bets.Stream(0), ID: fmt.Sprintf("%d-0", n+1), Values: []string{"b", body, "t", "BetSettled", "k", "a"}})
			}
			_, err := pipeline.Exec(t.Context())
			require.NoError(t, err)
		}
		require.NoError(t, client.HSet(t.Context(), bets.Positions(kit.ConsumerName), "0", fmt.Sprintf("%d-0|", row.entries)).Err())
		require.NoError(t, client.SlowLogReset(t.Context()).Err())
		began := time.Now()
		preview, err := newOperator(t, bets, client).PreviewReset(t.Context(), 0, admin.ToBeginning())
		require.NoError(t, err)
		took := time.Since(began)
		assert.EqualValues(t, row.entries, preview.Redelivered)
		log, err := client.SlowLogGet(t.Context(), -1).Result()
		require.NoError(t, err)
		calls, longest := 0, time.Duration(0)
		for _, entry := range log {
			if strings.HasPrefix(strings.ToUpper(entry.Args[0]), "EVAL") {
				calls, longest = calls+1, max(longest, entry.Duration)
			}
		}
		assert.GreaterOrEqual(t, calls, row.calls)
		assert.Less(t, longest, time.Second, "on a busy machine; alone it takes milliseconds")
		t.Logf("%d entries of %d bytes in %s and %d calls, the longest of them %s", row.entries, row.size, took.Round(time.Millisecond), calls, longest)
	}
}
