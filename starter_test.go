package restatestart_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

func TestS1KeepRunsForEveryMessageAndABatchWithNothingKeptMakesNoCall(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	var seen []string
	starter, err := restatestart.New(
		func(message *restatestart.Message[claim]) bool {
			seen = append(seen, message.ID)
			return false
		},
		func(*restatestart.Message[claim]) (restatestart.Start, error) {
			t.Error("Map was called for a message that is not kept")
			return restatestart.Start{}, nil
		},
		restatestart.Options{Ingress: fake.URL(), HTTPClient: fake.Client()})
	require.NoError(t, err)

	require.NoError(t, starter.Handle(t.Context(), batchOf("a", "b", "c")))
	assert.Equal(t, []string{"1-0", "2-0", "3-0"}, seen)
	assert.Empty(t, fake.Requests())
	assert.Zero(t, fake.Connections())
	require.NoError(t, starter.Handle(t.Context(), nil))
}

func TestS1ANilKeepKeepsEverything(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	starter, err := restatestart.New(nil, payout, restatestart.Options{Ingress: fake.URL(), HTTPClient: fake.Client()})
	require.NoError(t, err)
	require.NoError(t, starter.Handle(t.Context(), batchOf("a", "b")))
	fake.ExpectStarted(t, "Payout", "a", "b")
}

func TestS2StartsAreBoundedAndTheBoundIsUsed(t *testing.T) {
	t.Parallel()
	for _, parallelism := range []int{1, 3, 8, 64} {
		synctest.Test(t, func(t *testing.T) {
			fake := restatetest.New(t)
			fake.ScriptAll(restatetest.Delay(time.Second).Always())
			starter := starterOn(t, fake, nil, restatestart.Options{MaxParallelism: parallelism})
			began := time.Now()
			require.NoError(t, starter.Handle(t.Context(), batchOf(keysOf(64)...)))
			assert.Equal(t, parallelism, fake.MaxConcurrent())
			assert.Equal(t, time.Duration((64+parallelism-1)/parallelism)*time.Second, time.Since(began))
		})
	}
}

// B24: the sibling that fails at once neither cancels the others nor hides behind a cancellation.
func TestS2AFailingStartDoesNotCancelItsSiblings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k1", restatetest.Status(400, `{"message":"input validation error"}`))
		fake.ScriptAll(restatetest.Delay(200 * time.Millisecond))
		starter := starterOn(t, fake, nil, restatestart.Options{MaxParallelism: 4})
		failed := onlyFailure(t, starter.Handle(t.Context(), batchOf("k1", "k2", "k3", "k4")))
		assert.Equal(t, 400, failed.Status)
		require.NotErrorIs(t, failed.Err, context.Canceled)
		fake.ExpectStarted(t, "Payout", "k2", "k3", "k4")
		assert.Len(t, fake.Requests(), 4)
	})
}

func TestS2ASlotIsHeldAcrossTheRetriesOfAStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k1", restatetest.Status(503).Times(2))
		starter := starterOn(t, fake, nil, restatestart.Options{MaxParallelism: 1})
		require.NoError(t, starter.Handle(t.Context(), batchOf("k1", "k2")))
		var order []string
		for _, request := range fake.Requests() {
			order = append(order, request.Key)
		}
		assert.Equal(t, []string{"k1", "k1", "k1", "k2"}, order)
	})
}

// B44, B48: what Map passes through arrives byte for byte, and nothing arrives as nothing.
func TestS3TheBodyIsTheEncodedInput(t *testing.T) {
	t.Parallel()
	raw := `{"id":9007199254740993,"s":"a<b&c","n":1.10}`
	for name, row := range map[string]struct {
		input       any
		body        string
		contentType string
	}{
		"a value":          {claim{Key: "a<b"}, `{"key":"a\u003cb"}`, "application/json"},
		"bytes":            {[]byte(raw), raw, "application/json"},
		"raw JSON":         {json.RawMessage(raw), raw, "application/json"},
		"a large number":   {map[string]any{"id": int64(9007199254740993)}, `{"id":9007199254740993}`, "application/json"},
		"nil":              {nil, "", ""},
		"empty bytes":      {[]byte{}, "", ""},
		"empty raw JSON":   {json.RawMessage(nil), "", ""},
		"a typed nil":      {(*claim)(nil), "null", "application/json"},
		"an empty string":  {"", `""`, "application/json"},
		"bytes not a JSON": {[]byte("\xff\x00"), "\xff\x00", "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := restatetest.New(t)
			fake.ScriptAll(restatetest.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
			starter := starterOn(t, fake, func(*restatestart.Message[claim]) (restatestart.Start, error) {
				return restatestart.Start{Workflow: "Payout", Key: "k", Input: row.input}, nil
			}, restatestart.Options{})
			require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
			request := fake.Requests()[0]
			assert.Equal(t, row.body, string(request.Body))
			assert.Equal(t, row.contentType, request.Header.Get("Content-Type"))
			assert.Equal(t, row.contentType != "", len(request.Header["Content-Type"]) == 1)
		})
	}
}

func TestS3EncodeAndContentTypeCanBeChosen(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t, restatetest.WithInput("Payout", "run", restatetest.InputBytes))
	starter := starterOn(t, fake, nil, restatestart.Options{
		Encode: func(input any) ([]byte, error) { return fmt.Appendf(nil, "%v", input), nil },
		Header: http.Header{"content-type": {"application/octet-stream"}},
	})
	require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
	assert.Equal(t, "{k}", string(fake.Starts()[0].Body))
}

func TestS3AHandlerWithoutInputGetsNeitherBodyNorType(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t, restatetest.WithInput("Payout", "run", restatetest.InputNone))
	starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		return restatestart.Start{Workflow: "Payout", Key: message.Value.Key}, nil
	}, restatestart.Options{})
	require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
	fake.ExpectStarted(t, "Payout", "k")
}

func TestS4AnIdempotencyKeyIsNeverSent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Idempotency-Key", "idempotency-key", "X-Idempotency-Key"} {
		_, err := restatestart.New(nil, payout, restatestart.Options{Ingress: "http://restate", Header: http.Header{name: {"x"}}})
		require.ErrorContains(t, err, "Options.Header")
		require.ErrorContains(t, err, "Idempotency-Key")
	}
	fake := restatetest.New(t)
	starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		start, err := payout(message)
		if start.Key == "k2" {
			start.Header = http.Header{"Idempotency-Key": {""}}
		}
		return start, err
	}, restatestart.Options{})
	failed := onlyFailure(t, starter.Handle(t.Context(), batchOf("k1", "k2")))
	assert.Equal(t, restatestart.ReasonInvalid, failed.Reason)
	requests := fake.Requests()
	require.Len(t, requests, 1)
	for name := range requests[0].Header {
		assert.NotContains(t, strings.ToLower(name), "idempotency")
	}
}

func TestS6AnyAnswerOfSuccessIsAccepted(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	answer := func(status int, body string) restatetest.Step { return restatetest.Status(status, body) }
	fake.Script("k1", answer(202, `{"invocationId":"inv_1","status":"Accepted"}`))
	fake.Script("k2", answer(202, `{"invocationId":"inv_1","status":"PreviouslyAccepted"}`))
	fake.Script("k3", answer(200, `{"status":"PreviouslyAccepted"}`))
	fake.Script("k4", answer(202, `{"status":"Accepted","later":{"versions":["may","say","more"]}}`))
	fake.Script("k5", answer(204, ""))
	fake.Script("k6", answer(299, "not JSON"))
	starter := starterOn(t, fake, nil, restatestart.Options{})
	require.NoError(t, starter.Handle(t.Context(), batchOf(keysOf(6)...)))
	assert.Len(t, fake.Requests(), 6)
}

func TestS6ALostAnswerIsMetWithPreviouslyAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.DropAfterAccept())
		starter := starterOn(t, fake, nil, restatestart.Options{})
		require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
		assert.Equal(t, 2, fake.Attempts("k"))
		assert.Equal(t, 1, fake.Duplicates())
		assert.Len(t, fake.Starts(), 1)
	})
}

func TestS8WhatWasNotAcceptedIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k2", restatetest.Status(503, `{"message":"no leader"}`).Always())
		fake.Script("k4", restatetest.Status(404))
		starter := starterOn(t, fake, nil, restatestart.Options{})
		began := time.Now()
		err := starter.Handle(t.Context(), batchOf("k1", "k2", "", "k4", "k5"))
		blocked := blockedBy(t, err)
		assert.Equal(t, 2, blocked.Accepted)
		assert.False(t, blocked.ShuttingDown)
		require.Len(t, blocked.Failed, 2)
		server := blocked.Failed[0]
		assert.Equal(t, restatestart.FailedStart{
			EntryID: "2-0", Stream: "s:{claims}:0", Workflow: "Payout", Key: "k2", Reason: restatestart.ReasonServer,
			Status: 503, Attempts: 5, Since: began, Err: server.Err,
		}, server)
		var status *restatestart.StatusError
		require.ErrorAs(t, err, &status)
		assert.Equal(t, restatestart.StatusError{Status: 503, Text: "no leader"}, *status)
		assert.Equal(t, "4-0", blocked.Failed[1].EntryID)
		assert.Equal(t, restatestart.ReasonNotFound, blocked.Failed[1].Reason)
		assert.Equal(t, 1, blocked.Failed[1].Attempts)
		fake.ExpectStarted(t, "Payout", "k1", "k5")
	})
}

// Everything that can go wrong with one message becomes its failed start, and the others are posted.
func TestS9NothingButABlockedErrorLeavesHandle(t *testing.T) {
	t.Parallel()
	panicking := func(value any) func(string) (restatestart.Start, error) {
		return func(string) (restatestart.Start, error) { panic(value) }
	}
	var nilMap map[string]int
	for name, row := range map[string]struct {
		keep   func() bool
		start  func(key string) (restatestart.Start, error)
		reason restatestart.Reason
		text   string
	}{
		"Keep panics":             {keep: func() bool { panic("keep") }, reason: restatestart.ReasonPanic, text: "panic: keep"},
		"Map panics with text":    {start: panicking("map"), reason: restatestart.ReasonPanic, text: "panic: map"},
		"Map panics with error":   {start: panicking(errBoom), reason: restatestart.ReasonPanic, text: "panic: boom"},
		"Map panics with nil":     {start: panicking(nil), reason: restatestart.ReasonPanic, text: "panic"},
		"Map writes to a nil map": {start: func(string) (restatestart.Start, error) { nilMap["x"] = 1; return restatestart.Start{}, nil }, reason: restatestart.ReasonPanic, text: "nil map"},
		"Map returns an error":    {start: func(string) (restatestart.Start, error) { return restatestart.Start{}, errBoom }, reason: restatestart.ReasonMap, text: "boom"},
		"empty workflow":          {start: func(key string) (restatestart.Start, error) { return restatestart.Start{Key: key}, nil }, reason: restatestart.ReasonInvalid, text: "empty workflow"},
		"empty key":               {start: func(string) (restatestart.Start, error) { return restatestart.Start{Workflow: "W"}, nil }, reason: restatestart.ReasonInvalid, text: "empty key"},
		"key not UTF-8":           {start: func(string) (restatestart.Start, error) { return restatestart.Start{Workflow: "W", Key: "\xff"}, nil }, reason: restatestart.ReasonInvalid, text: "key is not valid UTF-8"},
		"reserved workflow": {start: func(key string) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "restate", Key: key}, nil
		}, reason: restatestart.ReasonInvalid, text: "reserved"},
		"negative delay": {start: func(key string) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "W", Key: key, Delay: -time.Second}, nil
		}, reason: restatestart.ReasonInvalid, text: "negative delay"},
		"a header Restate refuses": {start: func(key string) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "W", Key: key, Header: http.Header{"X-Name": {"caf\u00e9"}}}, nil
		}, reason: restatestart.ReasonInvalid, text: "X-Name"},
		"not a number": {start: func(key string) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "W", Key: key, Input: math.NaN()}, nil
		}, reason: restatestart.ReasonEncode, text: "NaN"},
		"a channel": {start: func(key string) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "W", Key: key, Input: make(chan int)}, nil
		}, reason: restatestart.ReasonEncode, text: "chan int"},
		"a marshaler that panics": {start: func(key string) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "W", Key: key, Input: panickingMarshaler{}}, nil
		}, reason: restatestart.ReasonPanic, text: "marshal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := restatetest.New(t)
			starter, err := restatestart.New(
				func(message *restatestart.Message[claim]) bool {
					return message.Value.Key != "bad" || row.keep == nil || row.keep()
				},
				func(message *restatestart.Message[claim]) (restatestart.Start, error) {
					if message.Value.Key == "bad" {
						return row.start(message.Value.Key)
					}
					return payout(message)
				}, restatestart.Options{Ingress: fake.URL(), HTTPClient: fake.Client()})
			require.NoError(t, err)
			failed := onlyFailure(t, starter.Handle(t.Context(), batchOf("k1", "bad", "k3")))
			assert.Equal(t, "2-0", failed.EntryID)
			assert.Equal(t, row.reason, failed.Reason)
			require.ErrorContains(t, failed.Err, row.text)
			assert.Zero(t, failed.Attempts)
			fake.ExpectStarted(t, "Payout", "k1", "k3")
			assert.Len(t, fake.Requests(), 2)
		})
	}
}

type panickingMarshaler struct{}

func (panickingMarshaler) MarshalJSON() ([]byte, error) { panic("marshal") }

func TestS9APanicIsReachedByErrorsAs(t *testing.T) {
	t.Parallel()
	starter, err := restatestart.New(nil, func(*restatestart.Message[claim]) (restatestart.Start, error) {
		panic(errBoom)
	}, restatestart.Options{Ingress: "http://restate"})
	require.NoError(t, err)
	err = starter.Handle(t.Context(), batchOf("k"))
	var panicked *restatestart.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Contains(t, string(panicked.Stack), "starter_test.go")
	require.ErrorIs(t, err, errBoom)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestS9AnHTTPClientThatPanicsBlocksItsStartOnly(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	inner := fake.Client().Transport
	starter := starterOn(t, fake, nil, restatestart.Options{HTTPClient: &http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/bad/") {
				panic("transport")
			}
			return inner.RoundTrip(r)
		}),
	}})
	failed := onlyFailure(t, starter.Handle(t.Context(), batchOf("k1", "bad", "k3")))
	assert.Equal(t, restatestart.ReasonPanic, failed.Reason)
	fake.ExpectStarted(t, "Payout", "k1", "k3")
}

// Goexit cannot be stopped, but what it leaves behind must not hang.
func TestS9AMapThatEndsItsGoroutineHarmsNoOtherCall(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		if message.Value.Key == "bad" {
			runtime.Goexit()
		}
		return payout(message)
	}, restatestart.Options{})
	var ended sync.WaitGroup
	ended.Go(func() { _ = starter.Handle(t.Context(), batchOf("k1", "bad")) })
	ended.Wait()
	require.NoError(t, starter.Handle(t.Context(), batchOf("k3")))
	fake.ExpectStarted(t, "Payout", "k3")
}

func TestS10ACancellationThatComesTooLateToMatterIsNoError(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	inner := fake.Client().Transport
	starter := starterOn(t, fake, nil, restatestart.Options{HTTPClient: &http.Client{
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := inner.RoundTrip(r)
			cancel() // the answer is there
			return response, err
		}),
	}})
	require.NoError(t, starter.Handle(ctx, batchOf("k1")))
	require.Error(t, ctx.Err())
	require.NoError(t, starter.Handle(ctx, batchOf("", "")), "nothing kept is nothing to accept")
}

func TestS10CancelledBeforeAllWereAcceptedIsShuttingDown(t *testing.T) {
	t.Parallel()
	cause := errors.New("the service is being replaced")
	for name, row := range map[string]struct {
		script   restatetest.Step
		requests int
		context  func(context.Context) (context.Context, context.CancelFunc)
		cause    error
	}{
		"before": {restatetest.Pass(), 0, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, context.Canceled},
		"during the answer": {restatetest.Hang(), 1, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			after(100*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled},
		"during the answer, with a cause": {restatetest.Hang(), 1, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			after(100*time.Millisecond, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }
		}, cause},
		"during the answer, by deadline": {restatetest.Hang(), 1, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		}, context.DeadlineExceeded},
		"asleep between attempts": {restatetest.Status(503).Always(), 1, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			after(100*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled},
		"asleep, by deadline": {restatetest.Status(503).Always(), 1, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := restatetest.New(t)
				fake.Script("k1", row.script)
				starter := starterOn(t, fake, nil, restatestart.Options{MaxParallelism: 1})
				ctx, cancel := row.context(t.Context())
				defer cancel()
				began := time.Now()
				blocked := blockedBy(t, starter.Handle(ctx, batchOf("k1", "k2")))
				assert.LessOrEqual(t, time.Since(began), 100*time.Millisecond, "B26: it returns at once")
				assert.True(t, blocked.ShuttingDown)
				require.Len(t, blocked.Failed, 2)
				for _, failed := range blocked.Failed {
					assert.Equal(t, restatestart.ReasonShutdown, failed.Reason)
					require.ErrorIs(t, failed.Err, row.cause)
				}
				assert.Equal(t, row.requests, blocked.Failed[0].Attempts)
				time.Sleep(time.Hour)
				assert.Len(t, fake.Requests(), row.requests, "no request after the cancellation")
			})
		})
	}
}

func TestS10AShutdownKeepsTheLastAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.Status(503, `{"message":"no leader"}`).Always())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		failed := onlyFailure(t, starterOn(t, fake, nil, restatestart.Options{}).Handle(ctx, batchOf("k")))
		assert.Equal(t, 503, failed.Status)
		require.ErrorContains(t, failed.Err, "no leader")
	})
}

func TestS10ATimeoutOfOnesOwnIsNoShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.Hang().Always())
		starter := starterOn(t, fake, nil, restatestart.Options{AttemptTimeout: time.Second, MaxAttempts: 2})
		blocked := blockedBy(t, starter.Handle(t.Context(), batchOf("k")))
		assert.False(t, blocked.ShuttingDown)
		assert.Equal(t, restatestart.ReasonTimeout, blocked.Failed[0].Reason)
	})
}

func TestS11MessagesOfOneKeyArePostedInStreamOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("a", restatetest.Delay(time.Second), restatetest.Delay(time.Millisecond))
		fake.Script("b", restatetest.Status(503), restatetest.Pass())
		starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: message.ID}, nil
		}, restatestart.Options{})
		require.NoError(t, starter.Handle(t.Context(), batchOf("a", "b", "a", "b", "a", "c")))
		bodies := map[string][]string{}
		for _, request := range fake.Requests() {
			bodies[request.Key] = append(bodies[request.Key], string(request.Body))
		}
		assert.Equal(t, map[string][]string{
			"a": {`"1-0"`, `"3-0"`, `"5-0"`}, "b": {`"2-0"`, `"2-0"`, `"4-0"`}, "c": {`"6-0"`},
		}, bodies)
		for _, started := range fake.Starts() {
			assert.Equal(t, map[string]string{"a": `"1-0"`, "b": `"2-0"`, "c": `"6-0"`}[started.Key], string(started.Body))
		}
	})
}

func TestS11NothingOvertakesAFailedStartOfItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("a", restatetest.Status(503).Times(5))
		starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
			start := restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: message.ID}
			switch message.ID {
			case "4-0":
				start.Input = math.Inf(1) // cannot be encoded
			case "6-0":
				start.Workflow = "Other" // the same key of another workflow is another start
			}
			return start, nil
		}, restatestart.Options{})
		batch := batchOf("a", "b", "a", "x", "x", "x")
		blocked := blockedBy(t, starter.Handle(t.Context(), batch))
		assert.Equal(t, 2, blocked.Accepted)
		reasons := map[string]restatestart.Reason{}
		for _, failed := range blocked.Failed {
			reasons[failed.EntryID] = failed.Reason
		}
		assert.Equal(t, map[string]restatestart.Reason{
			"1-0": restatestart.ReasonServer, "3-0": restatestart.ReasonPredecessor,
			"4-0": restatestart.ReasonEncode, "5-0": restatestart.ReasonPredecessor,
		}, reasons)
		assert.Equal(t, 5, fake.Attempts("a"))
		fake.ExpectStarted(t, "Payout", "b")
		fake.ExpectStarted(t, "Other", "x")

		retried := blockedBy(t, starter.Handle(t.Context(), batch))
		require.Len(t, retried.Failed, 2)
		assert.Equal(t, "a", fake.Starts()[2].Key)
		assert.Equal(t, `"1-0"`, string(fake.Starts()[2].Body), "the first one's input is the one that runs")
	})
}

func TestHandlerPathStyleDelayAndHeaderOfAStart(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t, restatetest.WithWorkflow("Payout", "Run", "run"))
	mapStart := func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		start := restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: 1, Delay: time.Hour, Header: http.Header{"x-tenant": {"own"}}}
		if message.Value.Key == "named" {
			start.Handler = "run"
		}
		return start, nil
	}
	options := restatestart.Options{Handler: "Run", Header: http.Header{"X-Tenant": {"all"}, "X-Site": {"a"}}}
	require.NoError(t, starterOn(t, fake, mapStart, options).Handle(t.Context(), batchOf("a/b", "named")))
	options.PathStyle = restatestart.PathRestateSend
	require.NoError(t, starterOn(t, fake, mapStart, options).Handle(t.Context(), batchOf("a/b")))

	targets := map[string]bool{}
	for _, request := range fake.Requests() {
		targets[request.RequestURI] = true
		assert.Equal(t, []string{"own"}, request.Header["X-Tenant"])
		assert.Equal(t, []string{"a"}, request.Header["X-Site"])
	}
	assert.Equal(t, map[string]bool{
		"/Payout/a%2Fb/Run/send?delay=3600000ms": true, "/Payout/named/run/send?delay=3600000ms": true,
		"/restate/send/Payout/a%2Fb/Run?delay=3600000ms": true,
	}, targets)
	assert.Equal(t, 1, fake.Duplicates(), "both paths start the same workflow")
	assert.Equal(t, time.Hour, fake.Starts()[0].Delay)
}
