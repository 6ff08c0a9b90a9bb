package restatestart_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

func TestC5WhatIsNotParkedIsHeldAsEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, fake := parking(t, "bad", "down", "good")
		fake.Script("bad", restatetest.Status(400).Always())
		fake.Script("down", restatetest.Status(503).For(time.Minute))
		w.run(once(t, fake))
		pass(10 * time.Second)
		assert.Equal(t, []string{"1-0 rejected"}, w.parkedIDs())
		assert.Equal(t, "0-0", w.position(0))
		blocked := w.partition(0).Blocked
		assert.Equal(t, []restatestart.Reason{restatestart.ReasonServer}, reasons(blocked.Failed))
		assert.NotContains(t, blocked.Error, "bad", "what is parked is of no concern any more")
		assert.Equal(t, 2, fake.Attempts("bad"))
		pass(2 * time.Minute)
		assert.Equal(t, "3-0", w.position(0))
		assert.Equal(t, 2, fake.Attempts("bad"))
		assert.Equal(t, 1, fake.Attempts("good"))
		assert.Equal(t, int64(1), w.partition(0).Parked)
		require.NoError(t, w.stop())
	})
}

func TestC5WhileParkingFailsThePositionIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, fake := parking(t, "bad", "good")
		w.source.Add(0, `{"secret`)
		fake.Script("bad", restatetest.Status(400).Always())
		w.parked.fail(errBoom)
		w.run(once(t, fake))
		pass(time.Minute)
		assert.Equal(t, "0-0", w.position(0))
		blocked := w.partition(0).Blocked
		assert.Equal(t, "starts", blocked.Cause)
		assert.Contains(t, blocked.Error, "rejected")
		assert.Contains(t, blocked.Error, "boom", "why it is held")
		assert.Equal(t, []string{"3-0"}, blocked.Malformed)
		assert.Len(t, blocked.Failed, 1)
		assert.Zero(t, w.partition(0).Parked)
		assert.Equal(t, 1, fake.Attempts("good"))
		assert.LessOrEqual(t, w.logged("parking failed, position held"), 3, "once per 30 s")
		assert.Positive(t, w.logged("parking failed, position held"))
		assert.Zero(t, w.logged("secret"))

		w.parked.fail(nil)
		pass(time.Minute)
		assert.Equal(t, "3-0", w.position(0))
		assert.ElementsMatch(t, []string{"1-0 rejected", "3-0 malformed"}, w.parkedIDs())
		assert.Equal(t, int64(2), w.partition(0).Parked)
		require.NoError(t, w.stop())
	})
}

func TestC5WhileRunIsStoppingNothingIsParked(t *testing.T) {
	t.Parallel()
	t.Run("a refusal", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w, _ := parking(t, "a", "b")
			refused := &restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "1-0", Reason: restatestart.ReasonMap}}}
			calls := 0
			w.run(restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error {
				if calls++; calls == 2 {
					w.cancel() // what Map needs is closed by the same signal
				}
				return refused
			}))
			pass(5 * time.Second)
			require.NoError(t, <-w.result)
			assert.Equal(t, 2, calls)
			assert.Zero(t, w.parked.asked(), "nothing was parked, or tried to")
			assert.Equal(t, "0-0", w.position(0))
		})
	})
	t.Run("a malformed entry", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w, _ := parking(t, "a", "b")
			consumer := w.connect(&recorder{}, func([]byte) (claim, error) {
				w.cancel()
				return claim{}, errBoom
			})
			ctx, cancel := context.WithCancel(t.Context())
			w.cancel = cancel
			require.NoError(t, consumer.Run(ctx))
			assert.Zero(t, w.parked.asked())
			assert.Equal(t, "0-0", w.position(0))
		})
	})
	t.Run("a BlockedError that says so itself", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w, _ := parking(t, "a")
			handler := &recorder{fail: func([]restatestart.Message[claim]) error {
				return &restatestart.BlockedError{
					ShuttingDown: true, Failed: []restatestart.FailedStart{{EntryID: "1-0", Reason: restatestart.ReasonMap}},
				}
			}}
			w.run(handler)
			pass(time.Minute)
			assert.Zero(t, w.parked.asked())
			require.NoError(t, w.stop())
		})
	})
}

func TestC5OnlyAListThatSpeaksForTheBatchIsParkedBy(t *testing.T) {
	t.Parallel()
	rejected := func(ids ...string) *restatestart.BlockedError {
		blocked := &restatestart.BlockedError{}
		for _, id := range ids {
			blocked.Failed = append(blocked.Failed, restatestart.FailedStart{EntryID: id, Reason: restatestart.ReasonRejected, Status: 400})
		}
		return blocked
	}
	twice := rejected("2-0")
	twice.Failed = append(twice.Failed, restatestart.FailedStart{EntryID: "2-0", Reason: restatestart.ReasonServer, Status: 503})
	reversed := &restatestart.BlockedError{Failed: []restatestart.FailedStart{twice.Failed[1], twice.Failed[0]}}
	for name, test := range map[string]struct {
		err    error
		parked []string
	}{
		"of the handler's own making":        {rejected("2-0"), []string{"2-0 rejected"}},
		"the same, wrapped":                  {fmt.Errorf("wrapped: %w", rejected("2-0")), []string{"2-0 rejected"}},
		"several of them":                    {rejected("1-0", "3-0"), []string{"1-0 rejected", "3-0 rejected"}},
		"beside another error":               {errors.Join(rejected("2-0"), errBoom), []string{}},
		"with one that was not handed over":  {rejected("2-0", "9-9"), []string{}},
		"with two starts of a message":       {rejected("2-0", "2-0"), []string{"2-0 rejected"}},
		"with two, one of which may yet run": {twice, []string{}},
		"with two, the other way round":      {reversed, []string{}},
		"without a reason":                   {&restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "2-0"}}}, []string{}},
		"without anything":                   {&restatestart.BlockedError{}, []string{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := parking(t, "a", "b", "c")
			w.run(&recorder{fail: func([]restatestart.Message[claim]) error { return test.err }})
			pass(time.Minute)
			assert.Equal(t, test.parked, w.parkedIDs(), name)
			if len(test.parked) > 0 {
				assert.Equal(t, "3-0", w.position(0), name)
			} else {
				assert.Equal(t, "0-0", w.position(0), name)
			}
			require.NoError(t, w.stop())
		})
	}
}

// A handler that calls a Starter has more to do than its starts: what the Starter says is not about the batch.
func TestC5AHandlerThatCallsAStarterParksNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, fake := parking(t, "bad")
		fake.Script("bad", restatetest.Status(400).Always())
		starter := once(t, fake)
		w.run(restatestart.HandlerFunc[claim](starter.Handle))
		pass(time.Minute)
		assert.Empty(t, w.parkedIDs())
		assert.Equal(t, "0-0", w.position(0))
		require.NoError(t, w.stop())
	})
}

func TestC5WhatWasParkedBeforeACrashIsNotParkedAgain(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(*world){
		"still parked": func(*world) {},
		"discarded meanwhile": func(w *world) {
			for _, entry := range w.parkedEntries() {
				require.NoError(w.t, w.consumer.Discard(w.t.Context(), entry.ID))
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, fake := parking(t, "bad")
			w.source.AddMalformed(0)
			fake.Script("bad", restatetest.Status(400).Always())
			w.options.PersistInterval = time.Hour // so that a position is lost
			w.run(once(t, fake))
			pass(5 * time.Second)
			require.Equal(t, []string{"2-0 malformed", "1-0 rejected"}, w.parkedIDs())
			require.Equal(t, "0-0", w.position(0))
			meanwhile(w)
			left := w.parkedIDs()

			next := newWorld(t, 1) // another process, of which the first one's last write is not seen
			next.options, next.source, next.parked = w.options, w.source, w.parked
			next.run(once(t, fake))
			pass(5 * time.Second)
			assert.Equal(t, left, next.parkedIDs(), name)
			assert.Equal(t, 2, next.logged(`level=INFO msg="entry parked before"`), name)
			assert.Equal(t, int64(2), next.partition(0).Parked, name)
			require.NoError(t, next.stop())
			assert.Equal(t, "2-0", next.position(0), name)
			require.NoError(t, w.stop())
		})
	}
}

func TestAPolicyOfTheHandlersErrorsLeavesParkedEntriesBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := parking(t, "a")
		w.options.OnError = restatestart.ErrorSkip
		w.source.AddMalformed(0)
		handler := &recorder{fail: func([]restatestart.Message[claim]) error { return errBoom }}
		w.run(handler)
		pass(5 * time.Second)
		assert.Equal(t, []string{"a"}, handler.handed())
		assert.Equal(t, "2-0", w.position(0))
		status := w.partition(0)
		assert.Equal(t, []int64{1, 1}, []int64{status.Skipped, status.Parked})
		require.NoError(t, w.stop())
	})
}
