package restatestart_test

import (
	"context"
	"net/http"
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

func (panickingMarshaler) MarshalJSON() ([]byte, error) { panic("marshal") }

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
