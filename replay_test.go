package restatestart_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/restatetest"
)

// park puts messages aside, one a key, as a run before this one did, and returns their ids in the parked stream.
func (w *world) park(keys ...string) []string {
	w.t.Helper()
	parkings := make([]parked.Parking, len(keys))
	for i, key := range keys {
		body, err := json.Marshal(claim{Key: key})
		require.NoError(w.t, err)
		parkings[i] = parked.Parking{
			Entry:   wire.Entry{ID: wire.ID{Ms: uint64(i + 1)}, Body: string(body), HasBody: true, Type: "ClaimMade"},
			Failure: parked.Failure{Reason: "rejected", Status: 400, Text: "400: no", Workflow: "Payout", Key: key, At: time.Now()},
		}
	}
	ids, err := w.parked.Memory.Park(w.t.Context(), 0, parkings)
	require.NoError(w.t, err)
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return texts
}

// notDone asserts that an error is a ParkedError about these ids.
func notDone(t *testing.T, err error, ids ...string) *restatestart.ParkedError {
	t.Helper()
	var failed *restatestart.ParkedError
	require.ErrorAs(t, err, &failed)
	named := make([]string, len(failed.Failed))
	for i, one := range failed.Failed {
		named[i] = one.ID
	}
	assert.Equal(t, ids, named)
	return failed
}

func TestC5AReplayedEntryLeavesOnceItIsAcceptedAndNotBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, fake := parking(t)
		fake.Script("b", restatetest.Status(400, "input validation error"))
		w.consumer = w.connect(once(t, fake), restatestart.JSON[claim])
		ids := w.park("a", "b", "c")
		require.Len(t, w.parkedEntries(), 3)

		err := w.consumer.Replay(t.Context(), ids...)
		failed := notDone(t, err, ids[1])
		require.EqualError(t, err, "1 of 3 parked entries not replayed; "+ids[1]+
			": 1 of 1 starts not accepted; start Payout/b (entry 2-0): rejected after 1 attempt: 400: input validation error")
		var blocked *restatestart.BlockedError
		require.ErrorAs(t, failed.Failed[0].Err, &blocked)
		require.ErrorAs(t, err, &blocked)
		assert.Equal(t, []string{"2-0 rejected"}, w.parkedIDs())
		assert.Len(t, fake.Starts(), 2)

		require.NoError(t, w.consumer.Replay(t.Context(), ids[1]))
		assert.Empty(t, w.parkedEntries())
		assert.Len(t, fake.Starts(), 3)
		assert.Zero(t, fake.Duplicates())
		assert.Equal(t, 3, w.logged(`level=INFO msg="parked entry replayed"`))
		assert.Equal(t, 1, w.logged("partition=0 entry=3-0 parked="+ids[2]+" reason=rejected status=400 workflow=Payout key=c"))

		err = w.consumer.Replay(t.Context(), ids[0])
		require.ErrorIs(t, err, restatestart.ErrNotParked)
		assert.Len(t, fake.Starts(), 3, "what is gone is not sent")
	})
}

func TestAReplayHandsOverTheMessageAsItsStreamWould(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		ids, err := w.parked.Memory.Park(t.Context(), 3, []parked.Parking{{Entry: wire.Entry{
			ID: wire.ID{Ms: 17, Seq: 3}, Body: `{"key":"k1"}`, HasBody: true, Type: "ClaimMade", Key: "cust-42", CorrelationID: "corr-1",
			TraceParent: producer, Headers: "5:brand6:orange",
		}}})
		require.NoError(t, err)
		var seen []restatestart.Message[claim]
		consumer := w.connect(restatestart.HandlerFunc[claim](func(_ context.Context, batch []restatestart.Message[claim]) error {
			seen = append(seen, batch...)
			return nil
		}), restatestart.JSON[claim])
		require.NoError(t, consumer.Replay(t.Context(), ids[0].String()))
		headers, err := restatestart.NewHeaders(restatestart.Header{Name: "brand", Value: "orange"})
		require.NoError(t, err)
		assert.Equal(t, []restatestart.Message[claim]{{
			Value: claim{Key: "k1"}, ID: "17-3", Stream: "s:{claims}:3", Partition: 3, Type: "ClaimMade", Key: "cust-42",
			CorrelationID: "corr-1", TraceParent: producer, Headers: headers, Body: []byte(`{"key":"k1"}`),
		}}, seen)
	})
}

func TestWhatAReplayCannotDoStaysParkedWithItsReason(t *testing.T) {
	t.Parallel()
	panics := restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error { panic("handler") })
	fails := restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error { return errBoom })
	refuses := func([]byte) (claim, error) { return claim{}, errBoom }
	for name, test := range map[string]struct {
		handler restatestart.Handler[claim]
		decode  func([]byte) (claim, error)
		cause   error
		text    string
	}{
		"still malformed":         {fails, refuses, restatestart.ErrMalformed, "malformed entry: boom"},
		"an error of the handler": {fails, restatestart.JSON[claim], errBoom, "boom"},
		"a panic of the handler":  {panics, restatestart.JSON[claim], nil, "panic: handler"},
		"a nil *BlockedError":     {restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error { return (*restatestart.BlockedError)(nil) }), restatestart.JSON[claim], nil, "nil *BlockedError"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.consumer = w.connect(test.handler, test.decode)
			ids := w.park("a", "b")
			err := w.consumer.Replay(t.Context(), ids...)
			failed := notDone(t, err, ids...)
			require.ErrorContains(t, err, "2 of 2 parked entries not replayed", name)
			require.ErrorContains(t, failed.Failed[1].Err, test.text, name)
			if test.cause != nil {
				require.ErrorIs(t, err, test.cause, name)
			}
			assert.Len(t, w.parkedEntries(), 2, name)
			assert.Zero(t, w.logged("replayed"), name)
		})
	}
}

func TestAReplayEndsWithItsContextAndWithRedis(t *testing.T) {
	t.Parallel()
	t.Run("the context", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			ctx, cancel := context.WithCancel(t.Context())
			calls := 0
			w.consumer = w.connect(restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error {
				calls++
				cancel()
				return nil // it was accepted before that
			}), restatestart.JSON[claim])
			w.parked.removes = func(ctx context.Context) {
				require.NoError(t, ctx.Err(), "what was accepted is taken out all the same")
			}
			ids := w.park("a", "b", "c")
			err := w.consumer.Replay(ctx, ids...)
			_ = notDone(t, err, ids[1], ids[2])
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, 1, calls)
			assert.Equal(t, []string{"2-0 rejected", "3-0 rejected"}, w.parkedIDs())
			_ = notDone(t, w.consumer.Discard(ctx, ids[1]), ids[1])
		})
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			handler := &recorder{}
			w.consumer = w.connect(handler, restatestart.JSON[claim])
			ids := w.park("a", "b", "c")
			w.parked.fail(errBoom)
			for _, do := range []func(context.Context, ...string) error{w.consumer.Replay, w.consumer.Discard} {
				before := w.parked.asked()
				err := do(t.Context(), ids...)
				require.ErrorIs(t, err, errBoom)
				_ = notDone(t, err, ids...)
				assert.Equal(t, 1, w.parked.asked()-before, "the others are not tried")
			}
			_, err := w.consumer.Parked(t.Context(), restatestart.ParkedPage{})
			require.EqualError(t, err, "restatestart: list parked entries: boom")
			assert.Empty(t, handler.handed())
			w.parked.fail(nil)
			assert.Len(t, w.parkedEntries(), 3)
		})
	})
	t.Run("redis, once it was accepted", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			handler := &recorder{}
			w.consumer = w.connect(handler, restatestart.JSON[claim])
			ids := w.park("a", "b")
			w.parked.removes = func(context.Context) { w.parked.fail(errBoom) }
			err := w.consumer.Replay(t.Context(), ids...)
			require.ErrorContains(t, err, "accepted, and not taken out of the parked stream: boom")
			_ = notDone(t, err, ids...)
			assert.Equal(t, []string{"a"}, handler.handed())
			assert.Zero(t, w.logged("replayed"))
		})
	})
}

func TestTwoReplaysAtOnceDoNoHarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, fake := parking(t)
		fake.Script("a", restatetest.Delay(time.Second).Always())
		w.consumer = w.connect(once(t, fake), restatestart.JSON[claim])
		ids := w.park("a")
		errs := make(chan error)
		for range 2 {
			go func() { errs <- w.consumer.Replay(context.Background(), ids...) }()
		}
		require.NoError(t, errors.Join(<-errs, <-errs))
		assert.Empty(t, w.parkedEntries())
		assert.Len(t, fake.Starts(), 1)
		assert.Equal(t, 1, fake.Duplicates())
	})
}

func TestAReplayRunsBesideTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, fake := parking(t, "bad", "down")
		fake.Script("bad", restatetest.Status(400).Times(2))
		fake.Script("down", restatetest.Status(503).For(time.Minute))
		w.run(once(t, fake))
		pass(5 * time.Second)
		entries := w.parkedEntries()
		require.Len(t, entries, 1)
		require.NoError(t, w.consumer.Replay(t.Context(), entries[0].ID), "while its partition is held")
		assert.Equal(t, "0-0", w.position(0))
		assert.Empty(t, w.parkedEntries())
		pass(2 * time.Minute)
		assert.Equal(t, "2-0", w.position(0))
		assert.Len(t, fake.Starts(), 2)
		assert.Zero(t, fake.Duplicates())
		require.NoError(t, w.stop())
	})
}

func TestADiscardedEntryIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		handler := &recorder{}
		w.consumer = w.connect(handler, restatestart.JSON[claim])
		ids := w.park("a", "b", "c")
		require.NoError(t, w.consumer.Discard(t.Context(), ids[0], ids[2], ids[0]))
		assert.Equal(t, []string{"2-0 rejected"}, w.parkedIDs())
		assert.Equal(t, 2, w.logged(`level=WARN msg="parked entry discarded"`))
		err := w.consumer.Discard(t.Context(), ids...)
		require.EqualError(t, err, fmt.Sprintf("2 of 3 parked entries not discarded; %s: %s; %s: %s",
			ids[0], restatestart.ErrNotParked, ids[2], restatestart.ErrNotParked))
		assert.Empty(t, w.parkedEntries())
		assert.Empty(t, handler.handed())
	})
}

func TestIDsThatAreNoneAreRefusedBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		handler := &recorder{}
		w.consumer = w.connect(handler, restatestart.JSON[claim])
		ids := w.park("a")
		before := w.parked.asked()
		for _, bad := range []string{"", "17", "*", "+", "-", "17-x", "17-0 ", "s:{claims}:0"} {
			for _, do := range []func(context.Context, ...string) error{w.consumer.Replay, w.consumer.Discard} {
				err := do(t.Context(), ids[0], bad)
				require.EqualError(t, err, "restatestart: id of a parked entry: "+strconv.Quote(bad)+": not a stream id of the form <ms>-<seq>")
			}
		}
		_, err := w.consumer.Parked(t.Context(), restatestart.ParkedPage{After: "17"})
		require.ErrorContains(t, err, `restatestart: ParkedPage.After: "17": not a stream id`)
		_, err = w.consumer.Parked(t.Context(), restatestart.ParkedPage{Limit: -1})
		require.ErrorContains(t, err, "restatestart: ParkedPage.Limit: ")
		assert.Equal(t, before, w.parked.asked(), "Redis was not asked")
		assert.Empty(t, handler.handed())
		require.NoError(t, w.consumer.Replay(t.Context()))
		require.NoError(t, w.consumer.Discard(t.Context()))
	})
}

func TestParkedEntriesArePaged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.consumer = w.connect(&recorder{}, restatestart.JSON[claim])
		ids := w.park(keysOf(restatestart.DefaultParkedLimit + 5)...)
		page, err := w.consumer.Parked(t.Context(), restatestart.ParkedPage{})
		require.NoError(t, err)
		assert.Len(t, page, restatestart.DefaultParkedLimit)
		assert.Equal(t, ids[0], page[0].ID)
		rest, err := w.consumer.Parked(t.Context(), restatestart.ParkedPage{After: page[len(page)-1].ID})
		require.NoError(t, err)
		assert.Len(t, rest, 5)
		assert.Equal(t, ids[len(ids)-1], rest[4].ID)
		few, err := w.consumer.Parked(t.Context(), restatestart.ParkedPage{After: ids[1], Limit: 2})
		require.NoError(t, err)
		assert.Equal(t, []string{ids[2], ids[3]}, []string{few[0].ID, few[1].ID})
	})
}

func TestS14AParkedEntryShowsItsBodyOnlyToThoseWhoAsk(t *testing.T) {
	t.Parallel()
	entry := restatestart.ParkedEntry{
		ID: "20-0", Stream: "s:{claims}:3", Partition: 3, EntryID: "17-3", Reason: restatestart.ReasonRejected, Status: 400,
		Text: "400: no", Workflow: "Payout", Key: "c\n1", ParkedAt: time.UnixMilli(20).UTC(),
		Fields: []restatestart.EntryField{{Name: "b", Value: "secret 1"}, {Name: "t", Value: "secret 2"}, {Name: "b", Value: "secret 3"}},
	}
	encoded, err := json.Marshal(entry)
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"20-0","stream":"s:{claims}:3","partition":3,"entryId":"17-3","reason":"rejected","status":400,"text":"400: no",
		"workflow":"Payout","key":"c\n1","parkedAt":"1970-01-01T00:00:00.02Z"}`, string(encoded))
	assert.Equal(t, `20-0: entry 17-3 of s:{claims}:3: start Payout/"c\n1": rejected: 400: no`, entry.String())
	assert.NotContains(t, fmt.Sprintf("%v %+v %s", entry, entry, entry), "secret")
	body, found := entry.Body()
	assert.True(t, found)
	assert.Equal(t, "secret 3", string(body))
	assert.Equal(t, "21-0: not parked by this package", restatestart.ParkedEntry{ID: "21-0", Foreign: true}.String())
	assert.Equal(t, "22-0: entry 1-0 of s: malformed",
		restatestart.ParkedEntry{ID: "22-0", EntryID: "1-0", Stream: "s", Reason: restatestart.ReasonMalformed}.String())
}

func TestAParkedErrorNamesFive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.consumer = w.connect(&recorder{}, restatestart.JSON[claim])
		ids := []string{"1-0", "2-0", "3-0", "4-0", "5-0", "6-0", "7-0"}
		err := w.consumer.Discard(t.Context(), ids...)
		require.ErrorContains(t, err, "7 of 7 parked entries not discarded; 1-0: no parked entry has this id; 2-0: ")
		require.ErrorContains(t, err, "5-0: no parked entry has this id; and 2 more")
		assert.NotContains(t, err.Error(), "6-0")
	})
}
