package redisstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/redisstream"
)

func TestC9AGapIsReportedByHookLogMetricsAndStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		log := &gapLog{}
		e.options.OnGap = log.onGap
		handler := &recorder{}
		e.publish(0, testkit.Keys(3)...)
		e.run(handler)
		testkit.Pass(5 * time.Second)
		require.NoError(t, e.stop())
		e.publish(0, testkit.Keys(7)...)
		e.source.Trim(0, 2)
		e.run(handler)
		lost := int64(5)
		gap := redisstream.Gap{
			Topic: "claims", Consumer: "payout", Stream: "s:{claims}:0", Partition: 0, Kind: redisstream.GapTrimmed,
			Position: "3-0", First: "9-0", Lost: &lost, At: time.Now(),
		}
		assert.Equal(t, []redisstream.Gap{gap}, log.reported())
		assert.Equal(t, 1, e.log.Count("entries lost"))
		assert.Equal(t, 1, e.log.Count(`stream=s:{claims}:0 kind=trimmed position=3-0 first=9-0 gap="5 entries trimmed unread between 3-0 and 9-0" lost=5`))
		assert.Contains(t, telemetry.Metrics(t), "streams.gaps{consumer=payout,kind=trimmed,partition=0,topic=claims} total 1")
		assert.Contains(t, telemetry.Metrics(t), "streams.lost{cause=vanished,consumer=payout,partition=0,topic=claims} total 5")
		status := e.partition(0)
		assert.Equal(t, int64(1), status.Gaps)
		assert.Equal(t, &gap, status.LastGap)
		assert.Nil(t, status.Blocked)
		assert.Equal(t, []string{"k1 k2 k3", "k6 k7"}, handler.delivered())
	})
}

func TestC9AGapThatHoldsIsInStatusUntilAReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, log := newEnv(t, 1), &gapLog{}
		e.options.OnGap, e.options.Gaps = log.onGap, redisstream.GapHold
		handler := &recorder{}
		e.publish(0, testkit.Keys(3)...)
		e.run(handler)
		testkit.Pass(5 * time.Second)
		require.NoError(t, e.stop())
		e.source.Drop(0)
		e.publish(0, testkit.Keys(2)...)
		e.run(handler)
		testkit.Pass(time.Minute)
		require.NoError(t, e.stop())
		e.run(handler)
		testkit.Pass(time.Minute)
		require.Len(t, log.reported(), 1)
		blocked := e.partition(0).Blocked
		require.NotNil(t, blocked)
		assert.Equal(t, "gap", blocked.Cause)
		assert.Equal(t, log.reported()[0].At, blocked.Since)
		assert.Equal(t, redisstream.GapAhead, blocked.Gap.Kind)
		assert.Equal(t, redisstream.StateBlocked, e.partition(0).State)
		encoded, err := json.Marshal(blocked)
		require.NoError(t, err)
		at := `"` + blocked.Since.Format(time.RFC3339Nano) + `"`
		assert.JSONEq(t, `{"since": `+at+`, "attempts": 1, "cause": "gap",
			"error": "the stream ends below 3-0, up to where it counts as read: an unknown number of entries not read",
			"gap": {"topic": "claims", "consumer": "payout", "stream": "s:{claims}:0", "partition": 0, "kind": "ahead", "position": "3-0", "at": `+at+`}}`,
			string(encoded))
		var read redisstream.Blocked
		require.NoError(t, json.Unmarshal(encoded, &read))
		assert.Equal(t, redisstream.GapAhead, read.Gap.Kind)

		e.positions.RequestReset(0, "0-0")
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"k1 k2 k3", "k1 k2"}, handler.delivered())
		assert.Nil(t, e.partition(0).Blocked)
	})
}

func TestC9APanicOfTheHookIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, calls := newEnv(t, 1), 0
		e.options.OnGap = func(context.Context, redisstream.Gap) {
			calls++
			panic("boom")
		}
		handler := &recorder{}
		e.publish(0, "a")
		e.run(handler)
		testkit.Pass(5 * time.Second)
		e.source.Drop(0)
		testkit.Pass(10 * time.Second)
		e.publish(0, "b", "c")
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"a", "c"}, handler.delivered(), "b has an id that was read already")
		assert.Equal(t, 2, calls, "the stream is gone, and b is not read")
		assert.Equal(t, 2, e.log.Count("OnGap panicked"))
		require.NoError(t, e.stop())
		e.run(handler)
		testkit.Pass(time.Minute)
		assert.Equal(t, 2, calls)
	})
}

func TestC9TheHookMayCallStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		var gaps int64
		e.options.OnGap = func(context.Context, redisstream.Gap) { gaps = e.partition(0).Gaps }
		e.publish(0, "a")
		e.run(&recorder{})
		testkit.Pass(5 * time.Second)
		e.source.Drop(0)
		testkit.Pass(10 * time.Second)
		assert.Equal(t, int64(1), gaps)
	})
}

func TestC9StatusEstimatesWhenTrimmingReachesAHeldPosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, handler := newEnv(t, 1), &recorder{fail: boom}
		e.publish(0, testkit.Keys(100)...)
		e.run(handler)
		for range 120 {
			e.publish(0, "x", "y")
			e.source.Trim(0, 1000)
			testkit.Pass(time.Second)
		}
		assert.Nil(t, e.partition(0).TrimIn, "not trimmed yet")
		for range 60 {
			e.publish(0, testkit.Keys(20)...)
			e.source.Trim(0, 1000)
			testkit.Pass(time.Second)
		}
		require.NotNil(t, e.partition(0).TrimIn)
		assert.Zero(t, *e.partition(0).TrimIn, "trimming has reached it")
		assert.Positive(t, e.log.Count("trimming close to the position"))
	})
}

func TestC9AnOutageLeavesNoTrimmingEstimate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		e.options.BatchSize, e.options.ReadAhead = 1, 1
		e.publish(0, "a")
		e.run(&recorder{fail: boom})
		testkit.Pass(6 * time.Second)
		for range 20 {
			e.publish(0, testkit.Keys(20)...)
			e.source.Trim(0, 300)
			testkit.Pass(2 * time.Second)
		}
		require.NotNil(t, e.partition(0).TrimIn)
		e.source.Fail(0, errors.New("gone"))
		testkit.Pass(time.Minute)
		assert.Nil(t, e.partition(0).TrimIn)
	})
}

// The double does not answer XINFO as Redis does.
func TestC9WithoutGapDetectionStreamsAreStillRead(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	add(t, server, "5-1", "b", `{"key":"k"}`)
	var log testkit.Log
	consume(t, client, 1, redisstream.Options{Logger: log.Logger()})
	assert.Equal(t, 1, log.Count("gap detection unavailable"), log.String())
}

func TestGapKindsAreEncodedAsText(t *testing.T) {
	t.Parallel()
	for kind, word := range map[redisstream.GapKind]string{
		redisstream.GapUnknown: "unknown", redisstream.GapTrimmed: "trimmed", redisstream.GapDeleted: "deleted",
		redisstream.GapGone: "gone", redisstream.GapReplaced: "replaced", redisstream.GapAhead: "ahead",
	} {
		assert.Equal(t, word, kind.String())
		text, err := kind.MarshalText()
		require.NoError(t, err)
		var read redisstream.GapKind
		require.NoError(t, read.UnmarshalText(text))
		assert.Equal(t, kind, read)
	}
	assert.Equal(t, "GapKind(6)", redisstream.GapKind(6).String())
	assert.Equal(t, "GapKind(-1)", redisstream.GapKind(-1).String())
	require.Error(t, new(redisstream.GapKind).UnmarshalText([]byte("lost")))
}

// gapLog keeps the gaps that OnGap is called with.
type gapLog struct {
	mu   sync.Mutex
	gaps []redisstream.Gap
}

func (l *gapLog) onGap(_ context.Context, gap redisstream.Gap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gaps = append(l.gaps, gap)
}

func (l *gapLog) reported() []redisstream.Gap {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]redisstream.Gap{}, l.gaps...)
}
