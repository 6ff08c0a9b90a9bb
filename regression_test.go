package restatestart_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

// A handler that hands a Starter one message at a time gives up at the first that blocks. What stands behind it was
// never handed to the Starter, and must not pass for done.
func TestC2ABlockedErrorOfAPartOfTheBatchHoldsAllOfIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		fake.Script("b", restatetest.Status(503).Times(7))
		starter := starterOn(t, fake, nil, restatestart.Options{})
		w.publish(0, "a", "b", "c", "d")
		w.run(restatestart.HandlerFunc[claim](func(ctx context.Context, batch []restatestart.Message[claim]) error {
			for i := range batch {
				if err := starter.Handle(ctx, batch[i:i+1]); err != nil {
					return err
				}
			}
			return nil
		}))
		pass(2 * time.Minute)
		fake.ExpectStarted(t, "Payout", "a", "b", "c", "d")
		assert.Equal(t, "4-0", w.position(0))
		require.NoError(t, w.stop())
	})
}

func TestC2JoinedErrorsHoldTheWholeBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		fake.Script("a", restatetest.Status(503).Times(6))
		fake.Script("n-b", restatetest.Status(503).Times(6))
		one := starterOn(t, fake, nil, restatestart.Options{})
		two := starterOn(t, fake, func(m *restatestart.Message[claim]) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "Notify", Key: "n-" + m.Value.Key, Input: m.Value}, nil
		}, restatestart.Options{})
		w.publish(0, "a", "b", "c")
		w.run(restatestart.HandlerFunc[claim](func(ctx context.Context, batch []restatestart.Message[claim]) error {
			return errors.Join(one.Handle(ctx, batch), two.Handle(ctx, batch))
		}))
		pass(2 * time.Minute)
		fake.ExpectStarted(t, "Payout", "a", "b", "c")
		fake.ExpectStarted(t, "Notify", "n-a", "n-b", "n-c")
		require.NoError(t, w.stop())
	})
}

func TestC2ANilBlockedErrorHoldsTheBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.OnError = restatestart.ErrorSkip
		w.publish(0, "a", "b")
		handler := &recorder{fail: func([]restatestart.Message[claim]) error {
			var none *restatestart.BlockedError
			return none
		}}
		w.run(handler)
		pass(2 * time.Second)
		assert.Equal(t, []string{"a b", "a b"}, handler.handed())
		assert.Contains(t, w.partition(0).Blocked.Error, "nil *BlockedError")
		require.NoError(t, w.stop())
	})
}

func TestS9CodeThatEndsItsGoroutineDoesNotPassForAccepted(t *testing.T) {
	t.Parallel()
	starter, err := restatestart.New(nil, payout, restatestart.Options{Ingress: "http://restate", HTTPClient: &http.Client{
		Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			runtime.Goexit()
			return nil, errBoom
		}),
	}})
	require.NoError(t, err)
	blocked := blockedBy(t, starter.Handle(t.Context(), batchOf("a", "a", "b")))
	assert.Zero(t, blocked.Accepted)
	require.Len(t, blocked.Failed, 3)
	assert.Equal(t, restatestart.ReasonPanic, blocked.Failed[0].Reason)
}

// Whoever works on it, a start behind one whose code ended its goroutine is posted.
func TestS9CodeThatEndsItsGoroutineTakesNoOtherStartAlong(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	inner := fake.Client().Transport
	telemetry := record()
	starter := starterOn(t, fake, nil, restatestart.Options{MaxParallelism: 2, MeterProvider: telemetry.meters, HTTPClient: &http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/end/") || strings.Contains(r.URL.Path, "/stop/") {
				runtime.Goexit()
			}
			return inner.RoundTrip(r)
		}),
	}})
	blocked := blockedBy(t, starter.Handle(t.Context(), batchOf("end", "stop", "a", "b", "c")))
	assert.Len(t, blocked.Failed, 2)
	fake.ExpectStarted(t, "Payout", "a", "b", "c")
	assert.Contains(t, telemetry.metrics(t), "restate.start.accepted{restate.start.duplicate=false,workflow=Payout} total 3", "what ended is not told to have been accepted")
}

// Whatever the first one of a key failed of, the second one must not run in its place.
func TestS11WhateverFailsKeepsItsPlaceInTheOrder(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*restatestart.Start){
		"a negative delay":      func(s *restatestart.Start) { s.Delay = -1 },
		"a header":              func(s *restatestart.Start) { s.Header = http.Header{"Host": {"x"}} },
		"a panic while encoded": func(s *restatestart.Start) { s.Input = panickingMarshaler{} },
		"not encodable":         func(s *restatestart.Start) { s.Input = math.NaN() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := restatetest.New(t)
			starter := starterOn(t, fake, func(m *restatestart.Message[claim]) (restatestart.Start, error) {
				start, err := payout(m)
				if m.ID == "1-0" {
					spoil(&start)
				}
				return start, err
			}, restatestart.Options{})
			blocked := blockedBy(t, starter.Handle(t.Context(), batchOf("a", "a", "b")))
			require.Len(t, blocked.Failed, 2)
			assert.Equal(t, restatestart.ReasonPredecessor, blocked.Failed[1].Reason)
			fake.ExpectStarted(t, "Payout", "b")
		})
	}
}

// nilError is an error of a kind that does not stand being nil.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestAnErrorWithoutATextIsLivedWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		w.publish(0, "a")
		w.run(starterOn(t, fake, func(*restatestart.Message[claim]) (restatestart.Start, error) {
			var none *nilError
			return restatestart.Start{}, none
		}, restatestart.Options{}))
		pass(time.Second)
		assert.Contains(t, w.partition(0).Blocked.Error, "an error of type *restatestart_test.nilError that has no text")
		require.NoError(t, w.stop())
	})
}

// Redis that hangs, and a client that hangs with it, do not keep Run from returning.
func TestC6ARedisThatHangsIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		hang := make(chan struct{})
		consumer, err := restatestart.NewConsumerOn(restatestart.Backend{Source: w.source, Store: w.store, Meta: func(context.Context) (string, string, error) {
			<-hang
			return "1", "1", nil
		}}, "claims", restatestart.JSON[claim], restatestart.Handler[claim](&recorder{}), w.options)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		after(time.Second, cancel)
		began := time.Now()
		require.NoError(t, consumer.Run(ctx))
		assert.LessOrEqual(t, time.Since(began), time.Second+restatestart.DefaultDrainTimeout+time.Second)
		close(hang)
		time.Sleep(time.Hour)
	})
}

// A decoder may work in place: what is handed over again is decoded from what the producer wrote.
func TestADecoderThatWorksInPlaceSpoilsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.publish(0, "a")
		tries := 0
		consumer, err := restatestart.NewConsumerOn(restatestart.Backend{Source: w.source, Store: w.store, Meta: w.meta}, "claims",
			func(body []byte) (claim, error) {
				value, err := restatestart.JSON[claim](body)
				clear(body)
				return value, err
			}, restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error {
				if tries++; tries < 3 {
					return &restatestart.BlockedError{}
				}
				return nil
			}), w.options)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, consumer.Run(ctx))
		assert.Equal(t, 3, tries)
		assert.Equal(t, "1-0", w.position(0))
	})
}

// What is skipped is counted once: it is the number that somebody alerts on.
func TestWhatIsSkippedIsCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.OnMalformed = restatestart.MalformedSkip
		w.source.AddMalformed(0)
		w.publish(0, "a")
		w.run(&recorder{fail: func([]restatestart.Message[claim]) error { return errBoom }})
		pass(time.Minute)
		assert.Equal(t, int64(1), w.partition(0).Skipped)
		assert.Equal(t, 1, w.logged("malformed entry skipped"))
		require.NoError(t, w.stop())
	})
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.OnMalformed, w.options.OnError = restatestart.MalformedSkip, restatestart.ErrorSkip
		w.source.AddMalformed(0)
		w.publish(0, "a")
		w.run(&recorder{fail: func([]restatestart.Message[claim]) error { return errBoom }})
		pass(time.Minute)
		assert.Equal(t, int64(2), w.partition(0).Skipped)
		assert.Equal(t, int64(2), w.partition(0).Passed)
		require.NoError(t, w.stop())
	})
}

func TestAPartitionThatStoppedGoesOnWithAReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.OnError, w.options.BatchSize = restatestart.ErrorStop, 1
		w.publish(0, "a", "bad", "b")
		handler := &recorder{fail: func(batch []restatestart.Message[claim]) error {
			if batch[0].Value.Key == "bad" {
				return errBoom
			}
			return nil
		}}
		w.run(handler)
		pass(time.Minute)
		require.Equal(t, restatestart.StateStopped, w.partition(0).State)
		w.store.RequestReset(0, "2-0")
		pass(5 * time.Second)
		assert.Equal(t, []string{"a", "bad", "b"}, handler.handed())
		assert.Equal(t, "3-0", w.position(0))
		assert.Equal(t, restatestart.StateIdle, w.partition(0).State)
		assert.Empty(t, w.partition(0).Error)
		require.NoError(t, w.stop())
	})
}

// What a handler does beside a Starter is done for the whole batch or not at all.
func TestC2AStarterWithinAHandlerHoldsTheWholeBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		fake.Script("b", restatetest.Status(503).Times(6))
		payouts := starterOn(t, fake, nil, restatestart.Options{})
		notify := starterOn(t, fake, func(m *restatestart.Message[claim]) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "Notify", Key: "n-" + m.Value.Key, Input: m.Value}, nil
		}, restatestart.Options{})
		w.publish(0, "a", "b", "c")
		w.run(restatestart.HandlerFunc[claim](func(ctx context.Context, batch []restatestart.Message[claim]) error {
			if err := payouts.Handle(ctx, batch); err != nil {
				return err
			}
			return notify.Handle(ctx, batch)
		}))
		pass(2 * time.Minute)
		fake.ExpectStarted(t, "Payout", "a", "b", "c")
		fake.ExpectStarted(t, "Notify", "n-a", "n-b", "n-c")
		require.NoError(t, w.stop())
	})
}

func TestC2ABlockedErrorOfOnesOwnNamesWhatComesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.publish(0, "a", "b", "c")
		first := true
		handler := &recorder{fail: func([]restatestart.Message[claim]) error {
			if first {
				first = false
				return &restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "2-0"}}}
			}
			return nil
		}}
		w.run(handler)
		pass(10 * time.Second)
		assert.Equal(t, []string{"a b c", "b"}, handler.handed())
		require.NoError(t, w.stop())
	})
}

// A cause without a text costs neither the hold nor the status its meaning.
func TestC2ACauseWithoutATextHoldsAllTheSame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.OnError = restatestart.ErrorSkip
		w.publish(0, "a")
		starter, err := restatestart.New(nil, payout, restatestart.Options{Ingress: "http://restate", MaxAttempts: 1, HTTPClient: &http.Client{
			Transport: roundTripper(func(*http.Request) (*http.Response, error) {
				var none *nilError
				return nil, none
			}),
		}})
		require.NoError(t, err)
		w.run(starter)
		pass(10 * time.Second)
		assert.Equal(t, "0-0", w.position(0))
		assert.Zero(t, w.partition(0).Skipped)
		_, err = json.Marshal(w.consumer.Status())
		require.NoError(t, err)
		_, err = json.Marshal(restatestart.FailedStart{Err: (*nilError)(nil)})
		require.NoError(t, err)
		require.NoError(t, w.stop())
	})
}

func TestAStatusIsReadBackFromItsJSON(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Second, 1500 * time.Millisecond, math.MaxInt64} {
		before := restatestart.FailedStart{EntryID: "1-0", Stream: "s", Workflow: "W", Key: "k", Reason: restatestart.ReasonServer, Status: 503, Attempts: 5, RetryAfter: wait, Err: errBoom}
		encoded, err := json.Marshal(before)
		require.NoError(t, err)
		var after restatestart.FailedStart
		require.NoError(t, json.Unmarshal(encoded, &after))
		assert.InDelta(t, before.RetryAfter.Seconds(), after.RetryAfter.Seconds(), 1e-3, "%s", encoded)
		require.EqualError(t, after.Err, "boom")
		after.RetryAfter, after.Err = before.RetryAfter, before.Err
		assert.Equal(t, before, after)
	}
}

func TestAFailedRunReturnsThoughRedisHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.OnError = restatestart.ErrorFail
		hang, asked := make(chan struct{}), 0
		consumer, err := restatestart.NewConsumerOn(restatestart.Backend{Source: w.source, Store: w.store, Meta: func(context.Context) (string, string, error) {
			if asked++; asked > 1 {
				<-hang
			}
			return "1", "1", nil
		}}, "claims", restatestart.JSON[claim], restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error { return errBoom }), w.options)
		require.NoError(t, err)
		after(10*time.Second, func() { w.publish(0, "a") })
		began := time.Now()
		require.ErrorIs(t, consumer.Run(t.Context()), errBoom)
		assert.LessOrEqual(t, time.Since(began), 12*time.Second)
		close(hang)
		time.Sleep(time.Hour)
	})
}

func TestC2ABlockedErrorBesideOthersHoldsTheWholeBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.publish(0, "a", "b", "c")
		first := true
		handler := &recorder{fail: func([]restatestart.Message[claim]) error {
			if first {
				first = false
				return errors.Join(&restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "2-0"}}}, errBoom)
			}
			return nil
		}}
		w.run(handler)
		pass(10 * time.Second)
		assert.Equal(t, []string{"a b c", "a b c"}, handler.handed())
		require.NoError(t, w.stop())
	})
}
