package restatestart_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

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

func (l *gapLog) told() []restatestart.Gap {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]restatestart.Gap{}, l.gaps...)
}

func TestC9EntriesThatVanishUnreadAreToldByHookLogAndStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		told := &gapLog{}
		w.options.OnGap = told.onGap
		seen := &recorder{}
		w.publish(0, keysOf(3)...)
		w.run(seen)
		pass(5 * time.Second)
		require.NoError(t, w.stop())
		w.publish(0, keysOf(7)...)
		w.source.Trim(0, 2)
		w.run(seen)
		lost := int64(5)
		gap := restatestart.Gap{
			Topic: "claims", Consumer: "payout", Stream: "s:{claims}:0", Partition: 0, Kind: restatestart.GapTrimmed,
			Position: "3-0", First: "9-0", Lost: &lost, At: time.Now(),
		}
		assert.Equal(t, []restatestart.Gap{gap}, told.told())
		assert.Equal(t, 1, w.logged("entries lost"))
		assert.Equal(t, 1, w.logged(`stream=s:{claims}:0 kind=trimmed position=3-0 first=9-0 gap="5 entries trimmed unread between 3-0 and 9-0" lost=5`))
		assert.Contains(t, telemetry.metrics(t), "streams.gaps{consumer=payout,kind=trimmed,partition=0,topic=claims} total 1")
		assert.Contains(t, telemetry.metrics(t), "streams.lost{cause=vanished,consumer=payout,partition=0,topic=claims} total 5")
		status := w.partition(0)
		assert.Equal(t, int64(1), status.Gaps)
		assert.Equal(t, &gap, status.LastGap)
		assert.Nil(t, status.Blocked)
		assert.Equal(t, []string{"k1 k2 k3", "k6 k7"}, seen.handed())
		require.NoError(t, w.stop())
	})
}

func TestC9WithGapHoldTheHoleIsInStatusUntilAReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, told := newWorld(t, 1), &gapLog{}
		w.options.OnGap, w.options.Gaps = told.onGap, restatestart.GapHold
		seen := &recorder{}
		w.publish(0, keysOf(3)...)
		w.run(seen)
		pass(5 * time.Second)
		require.NoError(t, w.stop())
		w.source.Drop(0)
		w.publish(0, keysOf(2)...)
		w.run(seen)
		pass(time.Minute)
		require.NoError(t, w.stop())
		w.run(seen)
		pass(time.Minute)
		require.Len(t, told.told(), 1)
		blocked := w.partition(0).Blocked
		require.NotNil(t, blocked)
		assert.Equal(t, "gap", blocked.Cause)
		assert.Equal(t, told.told()[0].At, blocked.Since)
		assert.Equal(t, restatestart.GapAhead, blocked.Gap.Kind)
		assert.Equal(t, restatestart.StateBlocked, w.partition(0).State)
		encoded, err := json.Marshal(blocked)
		require.NoError(t, err)
		at := `"` + blocked.Since.Format(time.RFC3339Nano) + `"`
		assert.JSONEq(t, `{"since": `+at+`, "attempts": 1, "cause": "gap",
			"error": "the stream ends below 3-0, up to where it counts as read: an unknown number of entries not read",
			"gap": {"topic": "claims", "consumer": "payout", "stream": "s:{claims}:0", "partition": 0, "kind": "ahead", "position": "3-0", "at": `+at+`}}`,
			string(encoded))
		var read restatestart.Blocked
		require.NoError(t, json.Unmarshal(encoded, &read))
		assert.Equal(t, restatestart.GapAhead, read.Gap.Kind)

		w.store.RequestReset(0, "0-0")
		pass(10 * time.Second)
		assert.Equal(t, []string{"k1 k2 k3", "k1 k2"}, seen.handed())
		assert.Nil(t, w.partition(0).Blocked)
		require.NoError(t, w.stop())
	})
}

func TestC9AHookThatPanicsUndoesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, calls := newWorld(t, 1), 0
		w.options.OnGap = func(context.Context, restatestart.Gap) {
			calls++
			panic("boom")
		}
		seen := &recorder{}
		w.publish(0, "a")
		w.run(seen)
		pass(5 * time.Second)
		w.source.Drop(0)
		pass(10 * time.Second)
		w.publish(0, "b", "c")
		pass(10 * time.Second)
		assert.Equal(t, []string{"a", "c"}, seen.handed(), "the next one took the id that was read")
		assert.Equal(t, 2, calls, "gone, and one that is not read")
		assert.Equal(t, 2, w.logged("OnGap panicked"))
		require.NoError(t, w.stop())
		w.run(seen)
		pass(time.Minute)
		assert.Equal(t, 2, calls)
		require.NoError(t, w.stop())
	})
}

// A hook may look at the status, as any alarm would.
func TestC9AHookMayAskForStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		var gaps int64
		w.options.OnGap = func(context.Context, restatestart.Gap) { gaps = w.partition(0).Gaps }
		w.publish(0, "a")
		w.run(&recorder{})
		pass(5 * time.Second)
		w.source.Drop(0)
		pass(10 * time.Second)
		assert.Equal(t, int64(1), gaps)
		require.NoError(t, w.stop())
	})
}

func TestC9StatusTellsWhenTrimmingReachesAHeldPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		seen := &recorder{fail: func([]restatestart.Message[claim]) error { return errBoom }}
		w.publish(0, keysOf(100)...)
		w.run(seen)
		for range 120 {
			w.publish(0, "x", "y")
			w.source.Trim(0, 1000)
			pass(time.Second)
		}
		assert.Nil(t, w.partition(0).TrimIn, "not trimmed yet")
		for range 60 {
			w.publish(0, keysOf(20)...)
			w.source.Trim(0, 1000)
			pass(time.Second)
		}
		require.NotNil(t, w.partition(0).TrimIn)
		assert.Zero(t, *w.partition(0).TrimIn, "it has reached it")
		assert.Positive(t, w.logged("trimming comes near the position"))
		require.NoError(t, w.stop())
	})
}

// The double does not describe streams as Redis does: it is read all the same, and the log says what that costs.
func TestC9ARedisThatDescribesNoStreamIsReadAllTheSame(t *testing.T) {
	t.Parallel()
	server, client := redisWorld(t, &redis.Options{})
	_, err := server.XAdd("s:{claims}:0", "5-1", []string{"b", `{"key":"k"}`})
	require.NoError(t, err)
	var log bytes.Buffer
	consume(t, client, 1, restatestart.ConsumerOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	assert.Equal(t, 1, strings.Count(log.String(), "entries that vanish unread are not noticed"), log.String())
}

func TestKindsOfGapsAreWords(t *testing.T) {
	t.Parallel()
	for kind, word := range map[restatestart.GapKind]string{
		restatestart.GapUnknown: "unknown", restatestart.GapTrimmed: "trimmed", restatestart.GapDeleted: "deleted",
		restatestart.GapGone: "gone", restatestart.GapReplaced: "replaced", restatestart.GapAhead: "ahead",
	} {
		assert.Equal(t, word, kind.String())
		text, err := kind.MarshalText()
		require.NoError(t, err)
		var read restatestart.GapKind
		require.NoError(t, read.UnmarshalText(text))
		assert.Equal(t, kind, read)
	}
	assert.Equal(t, "GapKind(6)", restatestart.GapKind(6).String())
	assert.Equal(t, "GapKind(-1)", restatestart.GapKind(-1).String())
	require.Error(t, new(restatestart.GapKind).UnmarshalText([]byte("lost")))
}
