package restatestart_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

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
