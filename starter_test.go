package restatestart_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/restatetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestS1KeepRunsForEveryMessageAndABatchWithNothingKeptMakesNoCall(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	var seen []string
	starter, err := restatestart.New(
		func(message *restatestart.Message[testkit.Claim]) bool {
			seen = append(seen, message.ID)
			return false
		},
		func(*restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
			t.Error("Map was called for a message that is not kept")
			return restatestart.Start{}, nil
		},
		restatestart.Options{Ingress: fake.URL(), HTTPClient: fake.Client()})
	require.NoError(t, err)

	require.NoError(t, starter.Handle(t.Context(), testkit.Batch("a", "b", "c")))
	assert.Equal(t, []string{"1-0", "2-0", "3-0"}, seen)
	assert.Empty(t, fake.Requests())
	assert.Zero(t, fake.Connections())
	require.NoError(t, starter.Handle(t.Context(), nil))
}

func TestS1ANilKeepKeepsEverything(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	starter, err := restatestart.New(nil, testkit.Payout, restatestart.Options{Ingress: fake.URL(), HTTPClient: fake.Client()})
	require.NoError(t, err)
	require.NoError(t, starter.Handle(t.Context(), testkit.Batch("a", "b")))
	fake.ExpectStarted(t, "Payout", "a", "b")
}

func TestS2StartsAreBoundedAndTheBoundIsUsed(t *testing.T) {
	t.Parallel()
	for _, parallelism := range []int{1, 3, 8, 64} {
		synctest.Test(t, func(t *testing.T) {
			fake := restatetest.New(t)
			fake.ScriptAll(restatetest.Delay(time.Second).Always())
			starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxParallelism: parallelism})
			began := time.Now()
			require.NoError(t, starter.Handle(t.Context(), testkit.Batch(testkit.Keys(64)...)))
			assert.Equal(t, parallelism, fake.MaxConcurrent())
			assert.Equal(t, time.Duration((64+parallelism-1)/parallelism)*time.Second, time.Since(began))
		})
	}
}

func TestS2AFailingStartDoesNotCancelItsSiblings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k1", restatetest.Status(400, `{"message":"input validation error"}`))
		fake.ScriptAll(restatetest.Delay(200 * time.Millisecond))
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxParallelism: 4})
		failed := testkit.OnlyFailure(t, starter.Handle(t.Context(), testkit.Batch("k1", "k2", "k3", "k4")))
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
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxParallelism: 1})
		require.NoError(t, starter.Handle(t.Context(), testkit.Batch("k1", "k2")))
		var order []string
		for _, request := range fake.Requests() {
			order = append(order, request.Key)
		}
		assert.Equal(t, []string{"k1", "k1", "k1", "k2"}, order)
	})
}

func TestAStarterIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.ScriptAll(restatetest.Delay(time.Millisecond).Always())
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxParallelism: 2})
		var calls sync.WaitGroup
		for i := range 1000 {
			calls.Go(func() {
				assert.NoError(t, starter.Handle(t.Context(), testkit.Batch(fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("a", i))))
			})
		}
		calls.Wait()
		assert.Len(t, fake.Starts(), 2000)
		assert.Equal(t, 1000, fake.Duplicates())
		assert.Equal(t, 2000, fake.MaxConcurrent())
	})
}

// Bytes arrive as Map returned them, numbers and escapes included.
func TestS3TheBodyIsTheEncodedInput(t *testing.T) {
	t.Parallel()
	raw := `{"id":9007199254740993,"s":"a<b&c","n":1.10}`
	for name, row := range map[string]struct {
		input       any
		body        string
		contentType string
	}{
		"a value":                {testkit.Claim{Key: "a<b"}, `{"key":"a\u003cb"}`, "application/json"},
		"bytes":                  {[]byte(raw), raw, "application/json"},
		"raw JSON":               {json.RawMessage(raw), raw, "application/json"},
		"a large number":         {map[string]any{"id": int64(9007199254740993)}, `{"id":9007199254740993}`, "application/json"},
		"nil":                    {nil, "", ""},
		"empty bytes":            {[]byte{}, "", ""},
		"empty raw JSON":         {json.RawMessage(nil), "", ""},
		"a typed nil":            {(*testkit.Claim)(nil), "null", "application/json"},
		"an empty string":        {"", `""`, "application/json"},
		"bytes that are no JSON": {[]byte("\xff\x00"), "\xff\x00", "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := restatetest.New(t)
			fake.ScriptAll(restatetest.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
			starter := testkit.NewStarter(t, fake, func(*restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
				return restatestart.Start{Workflow: "Payout", Key: "k", Input: row.input}, nil
			}, restatestart.Options{})
			require.NoError(t, starter.Handle(t.Context(), testkit.Batch("k")))
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
	starter := testkit.NewStarter(t, fake, nil, restatestart.Options{
		Encode: func(input any) ([]byte, error) { return fmt.Appendf(nil, "%v", input), nil },
		Header: http.Header{"content-type": {"application/octet-stream"}},
	})
	require.NoError(t, starter.Handle(t.Context(), testkit.Batch("k")))
	assert.Equal(t, "{k}", string(fake.Starts()[0].Body))
}

func TestS3AHandlerWithoutInputGetsNeitherBodyNorType(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t, restatetest.WithInput("Payout", "run", restatetest.InputNone))
	starter := testkit.NewStarter(t, fake, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
		return restatestart.Start{Workflow: "Payout", Key: message.Value.Key}, nil
	}, restatestart.Options{})
	require.NoError(t, starter.Handle(t.Context(), testkit.Batch("k")))
	fake.ExpectStarted(t, "Payout", "k")
}

func TestS4AnIdempotencyKeyIsNeverSent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Idempotency-Key", "idempotency-key", "X-Idempotency-Key"} {
		_, err := restatestart.New(nil, testkit.Payout, restatestart.Options{Ingress: "http://restate", Header: http.Header{name: {"x"}}})
		require.ErrorContains(t, err, "Options.Header")
		require.ErrorContains(t, err, "Idempotency-Key")
	}
	fake := restatetest.New(t)
	starter := testkit.NewStarter(t, fake, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
		start, err := testkit.Payout(message)
		if start.Key == "k2" {
			start.Header = http.Header{"Idempotency-Key": {""}}
		}
		return start, err
	}, restatestart.Options{})
	failed := testkit.OnlyFailure(t, starter.Handle(t.Context(), testkit.Batch("k1", "k2")))
	assert.Equal(t, restatestart.ReasonInvalid, failed.Reason)
	requests := fake.Requests()
	require.Len(t, requests, 1)
	for name := range requests[0].Header {
		assert.NotContains(t, strings.ToLower(name), "idempotency")
	}
}

func TestS6Any2xxIsAccepted(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	answer := func(status int, body string) restatetest.Step { return restatetest.Status(status, body) }
	fake.Script("k1", answer(202, `{"invocationId":"inv_1","status":"Accepted"}`))
	fake.Script("k2", answer(202, `{"invocationId":"inv_1","status":"PreviouslyAccepted"}`))
	fake.Script("k3", answer(200, `{"status":"PreviouslyAccepted"}`))
	fake.Script("k4", answer(202, `{"status":"Accepted","later":{"versions":["may","say","more"]}}`))
	fake.Script("k5", answer(204, ""))
	fake.Script("k6", answer(299, "not JSON"))
	starter := testkit.NewStarter(t, fake, nil, restatestart.Options{})
	require.NoError(t, starter.Handle(t.Context(), testkit.Batch(testkit.Keys(6)...)))
	assert.Len(t, fake.Requests(), 6)
}

func TestS6AStartWhoseAnswerWasLostIsPreviouslyAccepted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.DropAfterAccept())
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{})
		require.NoError(t, starter.Handle(t.Context(), testkit.Batch("k")))
		assert.Equal(t, 2, fake.Attempts("k"))
		assert.Equal(t, 1, fake.Duplicates())
		assert.Len(t, fake.Starts(), 1)
	})
}

func TestAStartHasItsOwnHandlerDelayAndHeader(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t, restatetest.WithWorkflow("Payout", "Run", "run"))
	mapStart := func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
		start := restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: 1, Delay: time.Hour, Header: http.Header{"x-tenant": {"own"}}}
		if message.Value.Key == "named" {
			start.Handler = "run"
		}
		return start, nil
	}
	options := restatestart.Options{Handler: "Run", Header: http.Header{"X-Tenant": {"all"}, "X-Site": {"a"}}}
	require.NoError(t, testkit.NewStarter(t, fake, mapStart, options).Handle(t.Context(), testkit.Batch("a/b", "named")))
	options.PathStyle = restatestart.PathRestateSend
	require.NoError(t, testkit.NewStarter(t, fake, mapStart, options).Handle(t.Context(), testkit.Batch("a/b")))

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

func TestHeadersAreReadUpToAFault(t *testing.T) {
	t.Parallel()
	headers, err := restatestart.NewHeaders(restatestart.Header{Name: "a", Value: "1"}, restatestart.Header{Name: "a", Value: "2"})
	require.NoError(t, err)
	headers += "junk"
	value, found, err := headers.Lookup("a")
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, "1", value)
	_, _, err = headers.Lookup("b")
	require.Error(t, err)
	var values []string
	for header, failure := range headers.All() {
		if err = failure; err == nil {
			values = append(values, header.Value)
		}
	}
	require.Error(t, err)
	assert.Equal(t, []string{"1", "2"}, values)
	_, err = restatestart.NewHeaders(make([]restatestart.Header, 65)...)
	require.Error(t, err)
}

func TestS9WhatFailsForOneMessageIsItsFailedStartAndTheOthersArePosted(t *testing.T) {
	t.Parallel()
	panicking := func(value any) func() error { return func() error { panic(value) } }
	var nilMap map[string]int
	for name, row := range map[string]struct {
		keep   func() error // may panic
		mapped func() error
		start  restatestart.Start
		reason restatestart.Reason
		text   string
	}{
		"Keep panics":              {keep: panicking("keep"), reason: restatestart.ReasonPanic, text: "panic: keep"},
		"Map panics with text":     {mapped: panicking("map"), reason: restatestart.ReasonPanic, text: "panic: map"},
		"Map panics with error":    {mapped: panicking(testkit.ErrBoom), reason: restatestart.ReasonPanic, text: "panic: boom"},
		"Map panics with nil":      {mapped: panicking(nil), reason: restatestart.ReasonPanic, text: "panic"},
		"Map writes to a nil map":  {mapped: func() error { nilMap["x"] = 1; return nil }, reason: restatestart.ReasonPanic, text: "nil map"},
		"Map returns an error":     {mapped: func() error { return testkit.ErrBoom }, reason: restatestart.ReasonMap, text: "boom"},
		"empty workflow":           {start: restatestart.Start{Key: "k"}, reason: restatestart.ReasonInvalid, text: "empty workflow"},
		"empty key":                {start: restatestart.Start{Workflow: "W"}, reason: restatestart.ReasonInvalid, text: "empty key"},
		"key not UTF-8":            {start: restatestart.Start{Workflow: "W", Key: "\xff"}, reason: restatestart.ReasonInvalid, text: "key is not valid UTF-8"},
		"reserved workflow":        {start: restatestart.Start{Workflow: "restate", Key: "k"}, reason: restatestart.ReasonInvalid, text: "reserved"},
		"negative delay":           {start: restatestart.Start{Workflow: "W", Key: "k", Delay: -time.Second}, reason: restatestart.ReasonInvalid, text: "negative delay"},
		"a header Restate refuses": {start: restatestart.Start{Workflow: "W", Key: "k", Header: http.Header{"X-Name": {"caf\u00e9"}}}, reason: restatestart.ReasonInvalid, text: "X-Name"},
		"not a number":             {start: restatestart.Start{Workflow: "W", Key: "k", Input: math.NaN()}, reason: restatestart.ReasonEncode, text: "NaN"},
		"a channel":                {start: restatestart.Start{Workflow: "W", Key: "k", Input: make(chan int)}, reason: restatestart.ReasonEncode, text: "chan int"},
		"a marshaler that panics":  {start: restatestart.Start{Workflow: "W", Key: "k", Input: panickingMarshaler{}}, reason: restatestart.ReasonPanic, text: "marshal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := restatetest.New(t)
			call := func(function func() error, message *restatestart.Message[testkit.Claim]) error {
				if function == nil || message.Value.Key != "bad" {
					return nil
				}
				return function()
			}
			starter, err := restatestart.New(
				func(message *restatestart.Message[testkit.Claim]) bool { return call(row.keep, message) == nil },
				func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
					if message.Value.Key == "bad" {
						return row.start, call(row.mapped, message)
					}
					return testkit.Payout(message)
				}, restatestart.Options{Ingress: fake.URL(), HTTPClient: fake.Client()})
			require.NoError(t, err)
			failed := testkit.OnlyFailure(t, starter.Handle(t.Context(), testkit.Batch("k1", "bad", "k3")))
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

func TestS9AnHTTPClientThatPanicsBlocksItsStartOnly(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	inner := fake.Client().Transport
	starter := testkit.NewStarter(t, fake, nil, restatestart.Options{HTTPClient: &http.Client{
		Transport: testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/bad/") {
				panic("transport")
			}
			return inner.RoundTrip(r)
		}),
	}})
	failed := testkit.OnlyFailure(t, starter.Handle(t.Context(), testkit.Batch("k1", "bad", "k3")))
	assert.Equal(t, restatestart.ReasonPanic, failed.Reason)
	fake.ExpectStarted(t, "Payout", "k1", "k3")
}

// Map runs on Handle's own goroutine, which nothing can keep from ending.
func TestS9AMapThatCallsGoexitLeavesTheStarterUsable(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	starter := testkit.NewStarter(t, fake, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
		if message.Value.Key == "bad" {
			runtime.Goexit()
		}
		return testkit.Payout(message)
	}, restatestart.Options{})
	var ended sync.WaitGroup
	ended.Go(func() { _ = starter.Handle(t.Context(), testkit.Batch("k1", "bad")) })
	ended.Wait()
	require.NoError(t, starter.Handle(t.Context(), testkit.Batch("k3")))
	fake.ExpectStarted(t, "Payout", "k3")
}

// The HTTP client runs on a goroutine of its start's chain.
func TestS9AnHTTPClientThatCallsGoexitFailsItsChainOnly(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	inner := fake.Client().Transport
	telemetry := testkit.Record()
	starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxParallelism: 2, MeterProvider: telemetry.Meters, HTTPClient: &http.Client{
		Transport: testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "/exit") {
				runtime.Goexit()
			}
			return inner.RoundTrip(r)
		}),
	}})
	blocked := testkit.Blocked(t, starter.Handle(t.Context(), testkit.Batch("exit1", "exit2", "exit1", "a", "b", "c")))
	assert.Equal(t, 3, blocked.Accepted)
	require.Len(t, blocked.Failed, 3)
	for _, failed := range blocked.Failed {
		assert.Equal(t, restatestart.ReasonPanic, failed.Reason)
	}
	fake.ExpectStarted(t, "Payout", "a", "b", "c")
	assert.Contains(t, telemetry.Metrics(t), "restate.start.accepted{restate.start.duplicate=false,workflow=Payout} total 3")
}

func TestS11MessagesOfOneKeyArePostedInStreamOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("a", restatetest.Delay(time.Second), restatetest.Delay(time.Millisecond))
		fake.Script("b", restatetest.Status(503), restatetest.Pass())
		starter := testkit.NewStarter(t, fake, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: message.ID}, nil
		}, restatestart.Options{})
		require.NoError(t, starter.Handle(t.Context(), testkit.Batch("a", "b", "a", "b", "a", "c")))
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
		starter := testkit.NewStarter(t, fake, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
			start := restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: message.ID}
			switch message.ID {
			case "4-0":
				start.Input = math.Inf(1) // cannot be encoded
			case "6-0":
				start.Workflow = "Other" // the same key of another workflow is another start
			}
			return start, nil
		}, restatestart.Options{})
		batch := testkit.Batch("a", "b", "a", "x", "x", "x")
		blocked := testkit.Blocked(t, starter.Handle(t.Context(), batch))
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

		retried := testkit.Blocked(t, starter.Handle(t.Context(), batch))
		require.Len(t, retried.Failed, 2)
		assert.Equal(t, "a", fake.Starts()[2].Key)
		assert.Equal(t, `"1-0"`, string(fake.Starts()[2].Body), "the first one's input is the one that runs")
	})
}

func TestS11AStartThatCannotBeSentHoldsTheNextOneOfItsKey(t *testing.T) {
	t.Parallel()
	spoil := map[string]func(*restatestart.Start){
		"delay":  func(s *restatestart.Start) { s.Delay = -1 },
		"header": func(s *restatestart.Start) { s.Header = http.Header{"Host": {"x"}} },
		"panic":  func(s *restatestart.Start) { s.Input = panickingMarshaler{} },
		"encode": func(s *restatestart.Start) { s.Input = math.NaN() },
	}
	fake := restatetest.New(t)
	starter := testkit.NewStarter(t, fake, func(m *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
		start, err := testkit.Payout(m)
		if m.ID < "5" {
			spoil[start.Key](&start)
		}
		return start, err
	}, restatestart.Options{})
	blocked := testkit.Blocked(t, starter.Handle(t.Context(), testkit.Batch("delay", "header", "panic", "encode", "delay", "header", "panic", "encode", "fine")))
	require.Len(t, blocked.Failed, 8)
	for i, failed := range blocked.Failed {
		assert.Equal(t, i >= 4, failed.Reason == restatestart.ReasonPredecessor, failed)
	}
	fake.ExpectStarted(t, "Payout", "fine")
	assert.Len(t, fake.Requests(), 1)
}

func TestAStartAllocatesAtMostOneMoreThanItsRequestByABareClient(t *testing.T) {
	client := &http.Client{Transport: testkit.RoundTripper(testkit.Accept)}
	starter, err := restatestart.New(testkit.KeepKeyed, testkit.Payout, restatestart.Options{Ingress: "http://restate:8080", HTTPClient: client})
	require.NoError(t, err)
	const size = 1000
	kept, filtered := testkit.Batch(testkit.Keys(size)...), testkit.Batch(make([]string, size)...)
	handle := func(batch []restatestart.Message[testkit.Claim]) float64 {
		return testing.AllocsPerRun(5, func() { _ = starter.Handle(t.Context(), batch) }) / size
	}
	request := testing.AllocsPerRun(100, func() { bare(t, client, "k17") })
	assert.LessOrEqual(t, handle(kept), request+1)
	assert.Zero(t, handle(filtered))
}

// A batch of 100 kept messages against 100 requests of a bare http.Client: x-bare is the ratio of the times.
func BenchmarkHandle(b *testing.B) {
	client := &http.Client{Transport: testkit.RoundTripper(testkit.Accept)}
	starter, err := restatestart.New(testkit.KeepKeyed, testkit.Payout, restatestart.Options{Ingress: "http://restate:8080", HTTPClient: client})
	require.NoError(b, err)
	batch := testkit.Batch(testkit.Keys(100)...)

	b.ReportAllocs()
	for b.Loop() {
		if err := starter.Handle(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	handled := b.Elapsed()
	rounds := b.N

	began := time.Now()
	for range rounds {
		for _, message := range batch {
			bare(b, client, message.Value.Key)
		}
	}
	b.ReportMetric(float64(handled)/float64(time.Since(began)), "x-bare")
	b.ReportMetric(float64(handled.Nanoseconds())/float64(rounds*len(batch)), "ns/start")
}

func bare(b testing.TB, client *http.Client, key string) {
	b.Helper()
	body := bytes.NewReader([]byte(`{"key":"` + key + `"}`))
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://restate:8080/Payout/"+key+"/run/send", body)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
}

// A batch of 100 messages of which none is kept.
func BenchmarkHandleNothingKept(b *testing.B) {
	starter, err := restatestart.New(testkit.KeepKeyed, testkit.Payout, restatestart.Options{Ingress: "http://restate:8080"})
	require.NoError(b, err)
	batch := testkit.Batch(make([]string, 100)...)
	b.ReportAllocs()
	for b.Loop() {
		if err := starter.Handle(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
