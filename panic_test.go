package restatestart_test

import (
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

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

func TestS9APanicIsReachedByErrorsAs(t *testing.T) {
	t.Parallel()
	starter, err := restatestart.New(nil, func(*restatestart.Message[claim]) (restatestart.Start, error) {
		panic(errBoom)
	}, restatestart.Options{Ingress: "http://restate"})
	require.NoError(t, err)
	err = starter.Handle(t.Context(), batchOf("k"))
	var panicked *restatestart.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Contains(t, string(panicked.Stack), "panic_test.go")
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
