package redisstream_test

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/redisstream/admin"
	"github.com/redisevents/restatestart/restatetest"
)

func TestC5AReplayedEntryIsRemovedOnceItIsAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := parking(t)
		fake.Script("b", restatetest.Status(400, "input validation error"))
		e.connect(once(t, fake))
		ids := e.park("a", "b", "c")

		err := e.consumer.Replay(t.Context(), ids...)
		notReplayed(t, err, ids[1])
		require.EqualError(t, err, "1 of 3 parked entries not replayed; "+ids[1]+
			": 1 of 1 starts not accepted; start Payout/b (entry 2-0): rejected after 1 attempt: 400: input validation error")
		require.ErrorAs(t, err, new(*restatestart.BlockedError))
		assert.Equal(t, []string{"2-0 rejected"}, e.parkedIDs())
		assert.Len(t, fake.Starts(), 2)

		require.NoError(t, e.consumer.Replay(t.Context(), ids[1]))
		assert.Empty(t, e.parkedEntries())
		assert.Len(t, fake.Starts(), 3)
		assert.Zero(t, fake.Duplicates())
		assert.Equal(t, 3, e.log.Count(`level=INFO msg="parked entry replayed"`))
		assert.Equal(t, 1, e.log.Count("partition=0 entry=3-0 parked="+ids[2]+" reason=rejected status=400 workflow=Payout key=c"))

		require.ErrorIs(t, e.consumer.Replay(t.Context(), ids[0]), admin.ErrNotParked)
		assert.Len(t, fake.Starts(), 3)
	})
}

// notReplayed asserts that an error is an admin.ParkedError about these ids.
func notReplayed(t *testing.T, err error, ids ...string) {
	t.Helper()
	var failed *admin.ParkedError
	require.ErrorAs(t, err, &failed)
	named := make([]string, len(failed.Failed))
	for i, entry := range failed.Failed {
		named[i] = entry.ID
	}
	assert.Equal(t, ids, named)
}

func TestAReplayDeliversTheOriginalMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 4)
		ids, err := e.parked.Memory.Park(t.Context(), 3, []parked.Parking{{Entry: wire.Entry{
			ID: wire.ID{Ms: 17, Seq: 3}, Body: `{"key":"k1"}`, HasBody: true, Type: "ClaimMade", Key: "cust-42", CorrelationID: "corr-1",
			TraceParent: testkit.Producer, Headers: "5:brand6:orange",
		}}})
		require.NoError(t, err)
		var seen []claimMessage
		e.connect(&recorder{fail: func(batch []claimMessage) error {
			seen = append(seen, batch...)
			return nil
		}})
		require.NoError(t, e.consumer.Replay(t.Context(), ids[0].String()))
		assert.Equal(t, []claimMessage{{
			Value: testkit.Claim{Key: "k1"}, ID: "17-3", Stream: "s:{claims}:3", Partition: 3, Type: "ClaimMade", Key: "cust-42",
			CorrelationID: "corr-1", TraceParent: testkit.Producer, Headers: "5:brand6:orange", Body: []byte(`{"key":"k1"}`),
		}}, seen)
	})
}

func TestAnEntryWhoseReplayFailsStaysParked(t *testing.T) {
	t.Parallel()
	undecodable := func([]byte) (testkit.Claim, error) { return testkit.Claim{}, testkit.ErrBoom }
	for name, row := range map[string]struct {
		handle func([]claimMessage) error
		decode func([]byte) (testkit.Claim, error)
		cause  error
		text   string
	}{
		"still malformed":         {nil, undecodable, redisstream.ErrMalformed, "malformed entry: boom"},
		"an error of the handler": {boom, decodeClaim, testkit.ErrBoom, "boom"},
		"a panic of the handler":  {func([]claimMessage) error { panic(testkit.ErrBoom) }, decodeClaim, testkit.ErrBoom, "panic: boom"},
		"a nil *BlockedError":     {func([]claimMessage) error { return (*restatestart.BlockedError)(nil) }, decodeClaim, nil, "nil *BlockedError"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t, 1)
			e.decode = row.decode
			e.connect(&recorder{fail: row.handle})
			ids := e.park("a", "b")
			err := e.consumer.Replay(t.Context(), ids...)
			notReplayed(t, err, ids...)
			require.ErrorContains(t, err, "2 of 2 parked entries not replayed", name)
			require.Regexp(t, "; "+ids[1]+": .*"+regexp.QuoteMeta(row.text), err.Error(), name)
			if row.cause != nil {
				require.ErrorIs(t, err, row.cause, name)
			}
			assert.Len(t, e.parkedEntries(), 2, name)
			assert.Zero(t, e.log.Count("replayed"), name)
		})
	}
}

func TestAReplayEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		handler := &recorder{fail: func([]claimMessage) error {
			cancel()
			return nil
		}}
		e.connect(handler)
		e.parked.beforeRemove = func(ctx context.Context) { assert.NoError(t, ctx.Err(), "an accepted entry is removed nevertheless") }
		ids := e.park("a", "b", "c")
		err := e.consumer.Replay(ctx, ids...)
		notReplayed(t, err, ids[1], ids[2])
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, []string{"a"}, handler.delivered())
		assert.Equal(t, []string{"2-0 rejected", "3-0 rejected"}, e.parkedIDs())
	})
}

func TestAReplayEndsWithAnErrorOfRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, handler := newEnv(t, 1), &recorder{}
		e.connect(handler)
		ids := e.park("a", "b", "c")
		e.parked.fail(testkit.ErrBoom)
		err := e.consumer.Replay(t.Context(), ids...)
		require.ErrorIs(t, err, testkit.ErrBoom)
		notReplayed(t, err, ids...)
		assert.Equal(t, 1, e.parked.called(), "the others are not tried")
		assert.Empty(t, handler.delivered())

		e.parked.fail(nil)
		e.parked.beforeRemove = func(context.Context) { e.parked.fail(testkit.ErrBoom) }
		err = e.consumer.Replay(t.Context(), ids...)
		require.ErrorContains(t, err, "accepted, and not removed from the parked stream: boom")
		notReplayed(t, err, ids...)
		assert.Equal(t, []string{"a"}, handler.delivered())
		assert.Zero(t, e.log.Count("replayed"))
		assert.Len(t, e.parkedEntries(), 3)
	})
}

func TestConcurrentReplaysStartOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := parking(t)
		fake.Script("a", restatetest.Delay(time.Second).Always())
		e.connect(once(t, fake))
		ids := e.park("a")
		errs := make(chan error)
		for range 2 {
			go func() { errs <- e.consumer.Replay(context.Background(), ids...) }()
		}
		require.NoError(t, errors.Join(<-errs, <-errs))
		assert.Empty(t, e.parkedEntries())
		assert.Len(t, fake.Starts(), 1)
		assert.Equal(t, 1, fake.Duplicates())
	})
}

func TestAReplayMayRunDuringARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := parking(t, "bad", "down")
		fake.Script("bad", restatetest.Status(400).Times(2))
		fake.Script("down", restatetest.Status(503).For(time.Minute))
		e.run(once(t, fake))
		testkit.Pass(5 * time.Second)
		entries := e.parkedEntries()
		require.Len(t, entries, 1)
		require.NoError(t, e.consumer.Replay(t.Context(), entries[0].ID.String()), "its partition is held")
		assert.Equal(t, "0-0", e.position(0))
		assert.Empty(t, e.parkedEntries())
		testkit.Pass(2 * time.Minute)
		assert.Equal(t, "2-0", e.position(0))
		assert.Len(t, fake.Starts(), 2)
		assert.Zero(t, fake.Duplicates())
	})
}

func TestAReplayRefusesInvalidIDsBeforeDoingAnything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, handler := newEnv(t, 1), &recorder{}
		e.connect(handler)
		ids := e.park("a")
		for _, bad := range []string{"", "17", "*", "+", "-", "17-x", "17-0 ", "s:{claims}:0"} {
			require.EqualError(t, e.consumer.Replay(t.Context(), ids[0], bad),
				"redisstream: id of a parked entry: "+strconv.Quote(bad)+": not a stream id of the form <ms>-<seq>")
		}
		require.NoError(t, e.consumer.Replay(t.Context()))
		assert.Zero(t, e.parked.called(), "Redis was not asked")
		assert.Empty(t, handler.delivered())
	})
}
