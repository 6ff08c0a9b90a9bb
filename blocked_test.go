package restatestart_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/restatetest"
)

func TestS8ABlockedErrorNamesEachFailedStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k2", restatetest.Status(503, `{"message":"no leader"}`).Always())
		fake.Script("k4", restatetest.Status(404))
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{})
		began := time.Now()
		err := starter.Handle(t.Context(), testkit.Batch("k1", "k2", "", "k4", "k5"))
		blocked := testkit.Blocked(t, err)
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

func TestS8TheCauseOfAFailedStartIsReachedByErrorsIs(t *testing.T) {
	t.Parallel()
	starter, err := restatestart.New(nil, testkit.Payout, restatestart.Options{
		Ingress: "http://restate", MaxAttempts: 1,
		HTTPClient: &http.Client{Transport: testkit.RoundTripper(func(*http.Request) (*http.Response, error) { return nil, testkit.ErrBoom })},
	})
	require.NoError(t, err)
	err = starter.Handle(t.Context(), testkit.Batch("k1", "k2"))
	require.ErrorIs(t, err, testkit.ErrBoom)
	assert.Equal(t, "2 of 2 starts not accepted; start Payout/k1 (entry 1-0): unreachable after 1 attempt: boom; start Payout/k2 (entry 2-0): unreachable after 1 attempt: boom", err.Error())
}

func TestTheTextOfABlockedErrorIsOneLineThatNamesFiveStarts(t *testing.T) {
	t.Parallel()
	blocked := &restatestart.BlockedError{Accepted: 93}
	for _, key := range testkit.Keys(7) {
		blocked.Failed = append(blocked.Failed, restatestart.FailedStart{
			EntryID: "17-" + key[1:], Workflow: "Payout", Key: key, Reason: restatestart.ReasonServer, Status: 503, Attempts: 5,
			Err: &restatestart.StatusError{Status: 503, Text: "no leader"},
		})
	}
	text := blocked.Error()
	assert.True(t, strings.HasPrefix(text, "7 of 100 starts not accepted; start Payout/k1 (entry 17-1): server after 5 attempts: 503: no leader; "), text)
	assert.Contains(t, text, "Payout/k5")
	assert.NotContains(t, text, "Payout/k6")
	assert.True(t, strings.HasSuffix(text, "; and 2 more"), text)
	assert.Len(t, blocked.Unwrap(), 7)

	odd := &restatestart.BlockedError{ShuttingDown: true, Failed: []restatestart.FailedStart{{
		EntryID: "1-0", Workflow: "W", Key: "a\nb" + strings.Repeat("k", 70000), Reason: restatestart.ReasonMap,
		Err: &restatestart.PanicError{Value: "line one\nline two " + strings.Repeat("x", 5000)},
	}}}
	text = odd.Error()
	assert.True(t, strings.HasPrefix(text, `shutting down: 1 of 1 starts not accepted; start W/"a\nbkkk`), text)
	assert.NotContains(t, text, "\n")
	assert.Less(t, len(text), 1000)
	assert.Equal(t, "1 of 1 starts not accepted; start (entry 1-0): unknown", (&restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "1-0"}}}).Error())
}

func TestReasonsHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for reason := restatestart.ReasonUnknown; reason <= restatestart.ReasonShutdown; reason++ {
		text, err := reason.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, reason.String(), string(text))
		assert.NotEmpty(t, text)
		assert.NotContains(t, string(text), "Reason(")
		seen[string(text)] = true
		var back restatestart.Reason
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, reason, back)
	}
	assert.Len(t, seen, int(restatestart.ReasonShutdown)+1)
	assert.Equal(t, "unknown", restatestart.Reason(0).String())
	require.ErrorContains(t, new(restatestart.Reason).UnmarshalText([]byte("bad luck")), `"bad luck"`)
	assert.Equal(t, "Reason(99)", restatestart.Reason(99).String())
	assert.Equal(t, "Reason(-1)", restatestart.Reason(-1).String())
}

func TestAFailedStartIsReadBackFromItsJSON(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Second, 1500 * time.Millisecond, math.MaxInt64} {
		before := restatestart.FailedStart{
			EntryID: "1-0", Stream: "s", Workflow: "W", Key: "k", Reason: restatestart.ReasonServer, Status: 503, Attempts: 5,
			RetryAfter: wait, Since: time.Unix(1726000000, 0).UTC(), Err: testkit.ErrBoom,
		}
		encoded, err := json.Marshal(before)
		require.NoError(t, err)
		var after restatestart.FailedStart
		require.NoError(t, json.Unmarshal(encoded, &after))
		assert.InDelta(t, before.RetryAfter.Seconds(), after.RetryAfter.Seconds(), 1e-3, "%s", encoded)
		require.EqualError(t, after.Err, "boom")
		after.RetryAfter, after.Err = before.RetryAfter, before.Err
		assert.Equal(t, before, after)
	}
	_, err := json.Marshal(restatestart.FailedStart{Err: (*url.Error)(nil)}) // whose Error method panics
	require.NoError(t, err)
}

func TestS9APanicIsReachedByErrorsAs(t *testing.T) {
	t.Parallel()
	starter, err := restatestart.New(nil, func(*restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
		panic(testkit.ErrBoom)
	}, restatestart.Options{Ingress: "http://restate"})
	require.NoError(t, err)
	err = starter.Handle(t.Context(), testkit.Batch("k"))
	var panicked *restatestart.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Contains(t, string(panicked.Stack), "blocked_test.go")
	require.ErrorIs(t, err, testkit.ErrBoom)
}

func TestS14NoErrorLogSpanOrMetricHasCredentialsOrBodies(t *testing.T) {
	t.Parallel()
	secrets := []string{"t0psecret", "dXNlcjp0MHBzZWNyZXQ", "iban-DE00"} // the second is user:t0psecret in base64
	fake := restatetest.New(t)
	echo := restatetest.Answer(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, "you sent %v and %s", r.Header, body.String())
	})
	fake.Script("echo", echo.Always())
	fake.Script("drop", restatetest.Drop().Always())
	fake.Script("hang", restatetest.Status(503).Always())

	var reported testkit.Log
	telemetry := testkit.Record()
	for _, options := range []restatestart.Options{
		{Ingress: strings.Replace(fake.URL(), "//", "//user:t0psecret@", 1)},
		{Ingress: fake.URL(), Header: http.Header{"Authorization": {"Bearer t0psecret"}}},
		{Ingress: strings.Replace(fake.URL(), "//", "//t0psecret@", 1)},
	} {
		options.HTTPClient, options.MaxAttempts = fake.Client(), 1
		options.Logger = reported.Logger()
		options.TracerProvider, options.MeterProvider = telemetry.Tracer, telemetry.Meters
		starter, err := restatestart.New(nil, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: map[string]string{"account": "iban-DE00"}}, nil
		}, options)
		require.NoError(t, err)
		err = starter.Handle(t.Context(), testkit.Batch("echo", "drop", "hang"))
		blocked := testkit.Blocked(t, err)
		require.Len(t, blocked.Failed, 3)
		encoded, failure := json.Marshal(blocked.Failed)
		require.NoError(t, failure)
		fmt.Fprintf(&reported, "%s %+v %s", err.Error(), blocked.Failed, encoded)
		for _, cause := range blocked.Unwrap() {
			fmt.Fprintf(&reported, " %v %+v", cause, cause)
		}
	}
	fmt.Fprint(&reported, telemetry.Metrics(t))
	for _, span := range telemetry.Spans.Ended() {
		fmt.Fprintf(&reported, "%s %v %v %v", span.Name(), span.Attributes(), span.Events(), span.Status())
	}
	assert.Contains(t, reported.String(), "you sent")
	assert.Contains(t, reported.String(), "start attempt failed")
	for _, secret := range secrets {
		assert.NotContains(t, reported.String(), secret)
	}
	for _, request := range fake.Requests() {
		assert.NotEmpty(t, request.Header.Get("Authorization"), "the ingress gets it")
	}
}
