package restatestart_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/restatetest"
)

func TestS5AttemptsAreCountedAndWaitsDouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.Status(503).Always())
		failed := testkit.OnlyFailure(t, testkit.NewStarter(t, fake, nil, restatestart.Options{}).Handle(t.Context(), testkit.Batch("k")))
		assert.Equal(t, 5, failed.Attempts)
		assert.Equal(t, []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond}, testkit.Waits(fake))
	})
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.Status(503).Times(9))
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxAttempts: 10, RetryMin: time.Second, RetryMax: 5 * time.Second})
		require.NoError(t, starter.Handle(t.Context(), testkit.Batch("k")))
		const s = time.Second
		assert.Equal(t, []time.Duration{s, 2 * s, 4 * s, 5 * s, 5 * s, 5 * s, 5 * s, 5 * s, 5 * s}, testkit.Waits(fake))
	})
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.Status(503).Always())
		failed := testkit.OnlyFailure(t, testkit.NewStarter(t, fake, nil, restatestart.Options{MaxAttempts: 1}).Handle(t.Context(), testkit.Batch("k")))
		assert.Equal(t, 1, failed.Attempts)
	})
}

func TestS5AWaitStaysWithinRetryMinAndRetryMax(t *testing.T) {
	t.Parallel()
	for _, options := range []restatestart.Options{
		{RetryMin: time.Second, RetryMax: 5 * time.Second, Jitter: 0.5},
		{RetryMin: time.Second, RetryMax: 5 * time.Second, Jitter: 1},
		{RetryMin: time.Millisecond, RetryMax: 5 * time.Second, Jitter: 0.2},
		{RetryMin: time.Second, RetryMax: time.Second, Jitter: 0.2},
		{RetryMin: time.Second, RetryMax: 24 * time.Hour, Jitter: 0.2},
	} {
		synctest.Test(t, func(t *testing.T) {
			fake := restatetest.New(t)
			fake.Script("k", restatetest.Status(503).Times(200))
			options.MaxAttempts = 201
			require.NoError(t, testkit.NewStarter(t, fake, nil, options).Handle(t.Context(), testkit.Batch("k")))
			waits := testkit.Waits(fake)
			require.Len(t, waits, 200)
			distinct := map[time.Duration]bool{}
			for _, wait := range waits {
				assert.GreaterOrEqual(t, wait, options.RetryMin)
				assert.LessOrEqual(t, wait, options.RetryMax)
				distinct[wait] = true
			}
			if options.RetryMin < options.RetryMax {
				assert.Greater(t, len(distinct), 50, "jitter spreads")
			}
		})
	}
}

// An attempt's timeout looks like a cancellation of the caller's context, and is none.
func TestS5AnAttemptThatTimesOutIsRepeated(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(*http.Client) restatestart.Options{
		"by the attempt's timeout": func(*http.Client) restatestart.Options {
			return restatestart.Options{AttemptTimeout: 100 * time.Millisecond}
		},
		"by the client's timeout": func(client *http.Client) restatestart.Options {
			client.Timeout = 100 * time.Millisecond
			return restatestart.Options{HTTPClient: client}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := restatetest.New(t)
				fake.Script("k", restatetest.Hang().Times(3))
				starter := testkit.NewStarter(t, fake, nil, options(fake.Client()))
				require.NoError(t, starter.Handle(t.Context(), testkit.Batch("k")))
				assert.Equal(t, 4, fake.Attempts("k"))
				assert.Equal(t, []time.Duration{300 * time.Millisecond, 500 * time.Millisecond, 900 * time.Millisecond}, testkit.Waits(fake))
			})
		})
	}
}

func TestS5AttemptsHaveATimeoutByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.ScriptAll(restatetest.Hang().Always())
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{})
		began := time.Now()
		blocked := testkit.Blocked(t, starter.Handle(t.Context(), testkit.Batch(testkit.Keys(8)...)))
		assert.Len(t, blocked.Failed, 8)
		for _, failed := range blocked.Failed {
			assert.Equal(t, restatestart.ReasonTimeout, failed.Reason)
			assert.Equal(t, 5, failed.Attempts)
		}
		assert.Equal(t, 5*restatestart.DefaultAttemptTimeout+3*time.Second, time.Since(began))
	})
}

func TestS5EveryAttemptHasTheWholeBody(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 64 << 10, 2 << 20} {
		synctest.Test(t, func(t *testing.T) {
			fake := restatetest.New(t)
			fake.Script("k", restatetest.Status(503), restatetest.Drop())
			input := make([]byte, size)
			for i := range input {
				input[i] = byte('a' + i%26)
			}
			starter := testkit.NewStarter(t, fake, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
				return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: input}, nil
			}, restatestart.Options{})
			require.NoError(t, starter.Handle(t.Context(), testkit.Batch("k")))
			requests := fake.Requests()
			require.Len(t, requests, 3)
			for _, request := range requests {
				assert.Equal(t, sha256.Sum256(input), sha256.Sum256(request.Body))
				assert.Equal(t, fmt.Sprint(size), request.Header.Get("Content-Length"))
			}
		})
	}
}

// cenkalti/backoff stops after 15 minutes by default.
func TestS5AttemptsEndByTheirNumberNotByTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Down()
		time.AfterFunc(time.Hour, fake.Up)
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxAttempts: 1000, RetryMax: 30 * time.Second})
		began := time.Now()
		require.NoError(t, starter.Handle(t.Context(), testkit.Batch("k")))
		assert.InDelta(t, time.Hour.Seconds(), time.Since(began).Seconds(), 31)
	})
}

// With every value of x-restate-error-source.
func TestS7EveryStatusHasOneClass(t *testing.T) {
	t.Parallel()
	type class struct {
		reason   restatestart.Reason
		attempts int
	}
	classOf := func(status int) class {
		switch {
		case status == 408:
			return class{restatestart.ReasonTimeout, 3}
		case status == 429:
			return class{restatestart.ReasonOverloaded, 3}
		case status == 425, status >= 500 && status < 600:
			return class{restatestart.ReasonServer, 3}
		case status == 404:
			return class{restatestart.ReasonNotFound, 1}
		case status == 401, status == 403, status == 407:
			return class{restatestart.ReasonUnauthorized, 1}
		default:
			return class{restatestart.ReasonRejected, 1}
		}
	}
	for _, source := range []string{"", "ingress", "invocation"} {
		t.Run("source "+source, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := restatetest.New(t)
				var statuses []int
				for status := 200; status < 1000; status++ {
					statuses = append(statuses, status)
				}
				keys := make([]string, len(statuses))
				for i, status := range statuses {
					keys[i] = fmt.Sprint(status)
					step := restatetest.Status(status, "text")
					if source != "" {
						step = step.WithHeader("X-Restate-Error-Source", source)
					}
					if status >= 300 && status < 400 {
						step = step.WithHeader("Location", "/Payout/elsewhere/run/send")
					}
					fake.Script(keys[i], step.Always())
				}
				starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxAttempts: 3, MaxParallelism: 64})
				blocked := testkit.Blocked(t, starter.Handle(t.Context(), testkit.Batch(keys...)))
				assert.Equal(t, 100, blocked.Accepted)
				failed := map[int]class{}
				for _, start := range blocked.Failed {
					assert.Equal(t, fmt.Sprint(start.Status), start.Key)
					failed[start.Status] = class{start.Reason, start.Attempts}
				}
				for _, status := range statuses[100:] {
					assert.Equal(t, classOf(status), failed[status], "status %d", status)
				}
				assert.Zero(t, fake.Attempts("elsewhere"), "no redirect is followed")
			})
		})
	}
}

func TestS7TransportErrorsAreRetried(t *testing.T) {
	t.Parallel()
	t.Run("a connection that closes without an answer", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			fake := restatetest.New(t)
			fake.Script("k1", restatetest.Drop().Times(2))
			fake.Script("k2", restatetest.Drop().Always())
			failed := testkit.OnlyFailure(t, testkit.NewStarter(t, fake, nil, restatestart.Options{}).Handle(t.Context(), testkit.Batch("k1", "k2")))
			assert.Equal(t, "k2", failed.Key)
			assert.Equal(t, restatestart.ReasonUnreachable, failed.Reason)
			assert.Equal(t, 5, failed.Attempts)
			assert.Zero(t, failed.Status)
		})
	})
	t.Run("a refused connection, until it is not", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			fake := restatetest.New(t)
			fake.Down()
			time.AfterFunc(time.Second, fake.Up)
			require.NoError(t, testkit.NewStarter(t, fake, nil, restatestart.Options{}).Handle(t.Context(), testkit.Batch("k")))
		})
	})
	t.Run("a host that is not known yet", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			fake := restatetest.New(t)
			dials := 0
			unknown := func(ctx context.Context, network, address string) (net.Conn, error) {
				if dials++; dials < 3 {
					return nil, &net.DNSError{Err: "no such host", Name: "restate.default.svc", IsNotFound: true}
				}
				return fake.Dial(ctx, network, address)
			}
			client := &http.Client{Transport: &http.Transport{DialContext: unknown}}
			defer client.CloseIdleConnections()
			starter := testkit.NewStarter(t, fake, nil, restatestart.Options{HTTPClient: client, MaxAttempts: 2})
			failed := testkit.OnlyFailure(t, starter.Handle(t.Context(), testkit.Batch("k")))
			assert.Equal(t, restatestart.ReasonUnreachable, failed.Reason)
			require.ErrorContains(t, failed.Err, "restate.default.svc")
			require.NoError(t, starter.Handle(t.Context(), testkit.Batch("k")))
		})
	})
}

func TestS7ATransportsOwnErrorAfterTheTimeoutIsATimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		starter, err := restatestart.New(testkit.KeepKeyed, testkit.Payout, restatestart.Options{Ingress: "http://restate", MaxAttempts: 1, HTTPClient: &http.Client{
			Transport: testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, errors.New("gave up")
			}),
		}})
		require.NoError(t, err)
		failed := testkit.OnlyFailure(t, starter.Handle(t.Context(), testkit.Batch("a")))
		assert.Equal(t, restatestart.ReasonTimeout, failed.Reason)
		require.ErrorContains(t, failed.Err, "gave up")
	})
}

func TestS7ABodyTooLargeIsRejectedAtOnce(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t, restatetest.WithBodyLimit(1<<10))
	starter := testkit.NewStarter(t, fake, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
		return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: make([]byte, 1<<10+1)}, nil
	}, restatestart.Options{})
	failed := testkit.OnlyFailure(t, starter.Handle(t.Context(), testkit.Batch("k")))
	assert.Equal(t, http.StatusRequestEntityTooLarge, failed.Status)
	assert.Equal(t, restatestart.ReasonRejected, failed.Reason)
	assert.Equal(t, 1, failed.Attempts)
	require.ErrorContains(t, failed.Err, "length limit exceeded")
}

func TestS7AnOverloadedIngressAcceptsAllInTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t, restatetest.WithConcurrencyLimit(2))
		fake.ScriptAll(restatetest.Delay(5 * time.Millisecond).Always())
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxParallelism: 16, MaxAttempts: 12, Jitter: 0.5})
		require.NoError(t, starter.Handle(t.Context(), testkit.Batch(testkit.Keys(200)...)))
		assert.Len(t, fake.Starts(), 200)
		assert.Less(t, len(fake.Requests()), 3*200)
	})
}

func TestS10ACancelledHandleReturnsAtOnceWithShuttingDownAndPostsNothingMore(t *testing.T) {
	t.Parallel()
	cause := fmt.Errorf("the service is being replaced: %w", testkit.ErrBoom)
	const at = 100 * time.Millisecond
	contexts := map[string]func(context.Context) (context.Context, context.CancelFunc, error){
		"cancel": func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(at, cancel)
			return ctx, cancel, context.Canceled
		},
		"cancel with a cause": func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithCancelCause(ctx)
			time.AfterFunc(at, func() { cancel(cause) })
			return ctx, func() { cancel(nil) }, cause
		},
		"deadline": func(ctx context.Context) (context.Context, context.CancelFunc, error) {
			ctx, cancel := context.WithTimeout(ctx, at)
			return ctx, cancel, context.DeadlineExceeded
		},
	}
	moments := map[string]struct {
		step     restatetest.Step
		wait     time.Duration // before Handle
		attempts int
	}{
		"before Handle":           {restatetest.Pass(), 2 * at, 0},
		"before the answer":       {restatetest.Hang(), 0, 1},
		"after the status":        {restatetest.Status(503).AfterAccept(), 0, 1},
		"asleep between attempts": {restatetest.Status(503).Always(), 0, 1},
		"within the answer's body": {restatetest.Answer(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			<-r.Context().Done()
		}), 0, 1},
	}
	for kind, open := range contexts {
		for moment, row := range moments {
			t.Run(kind+" "+moment, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					fake := restatetest.New(t)
					fake.Script("k1", row.step)
					starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxParallelism: 1})
					ctx, cancel, want := open(t.Context())
					defer cancel()
					testkit.Pass(row.wait)
					began := time.Now()
					blocked := testkit.Blocked(t, starter.Handle(ctx, testkit.Batch("k1", "k2")))
					assert.LessOrEqual(t, time.Since(began), at)
					assert.True(t, blocked.ShuttingDown)
					require.Len(t, blocked.Failed, 2)
					for _, failed := range blocked.Failed {
						assert.Equal(t, restatestart.ReasonShutdown, failed.Reason)
						require.ErrorIs(t, failed.Err, want)
					}
					assert.Equal(t, row.attempts, blocked.Failed[0].Attempts)
					testkit.Pass(time.Hour)
					assert.Len(t, fake.Requests(), row.attempts)
					fake.Close()
				})
			})
		}
	}
}

func TestS10ACancellationAfterTheLastAcceptanceIsNoError(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	inner := fake.Client().Transport
	starter := testkit.NewStarter(t, fake, nil, restatestart.Options{HTTPClient: &http.Client{
		Transport: testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
			response, err := inner.RoundTrip(r)
			cancel() // the answer is there
			return response, err
		}),
	}})
	require.NoError(t, starter.Handle(ctx, testkit.Batch("k1")))
	require.Error(t, ctx.Err())
	require.NoError(t, starter.Handle(ctx, testkit.Batch("", "")), "nothing kept is nothing to accept")
}

func TestS10AShutdownErrorHasTheLastAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.Status(503, `{"message":"no leader"}`).Always())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		failed := testkit.OnlyFailure(t, testkit.NewStarter(t, fake, nil, restatestart.Options{}).Handle(ctx, testkit.Batch("k")))
		assert.Equal(t, 503, failed.Status)
		require.ErrorContains(t, failed.Err, "no leader")
	})
}

func TestS10AnAttemptTimeoutIsNoShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.Hang().Always())
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{AttemptTimeout: time.Second, MaxAttempts: 2})
		blocked := testkit.Blocked(t, starter.Handle(t.Context(), testkit.Batch("k")))
		assert.False(t, blocked.ShuttingDown)
		assert.Equal(t, restatestart.ReasonTimeout, blocked.Failed[0].Reason)
	})
}

func TestS12ARetryAfterRaisesAWaitAndNeverLowersIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		asking := func(seconds string) restatetest.Step {
			return restatetest.Status(429).WithHeader("Retry-After", seconds)
		}
		fake.Script("k", asking("3"), asking("0"), asking("1"), asking("soon"))
		require.NoError(t, testkit.NewStarter(t, fake, nil, restatestart.Options{}).Handle(t.Context(), testkit.Batch("k")))
		assert.Equal(t, []time.Duration{3 * time.Second, 400 * time.Millisecond, time.Second, 1600 * time.Millisecond}, testkit.Waits(fake))
	})
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		date := time.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat)
		fake.Script("k", restatetest.Status(503).WithHeader("Retry-After", date))
		require.NoError(t, testkit.NewStarter(t, fake, nil, restatestart.Options{}).Handle(t.Context(), testkit.Batch("k")))
		assert.Equal(t, []time.Duration{4 * time.Second}, testkit.Waits(fake))
	})
}

func TestS12ARetryAfterBeyondRetryMaxEndsTheAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k1", restatetest.Status(503).WithHeader("Retry-After", "6").Always())
		fake.Script("k2", restatetest.Status(429).WithHeader("Retry-After", "99999999999999999999").Always())
		began := time.Now()
		blocked := testkit.Blocked(t, testkit.NewStarter(t, fake, nil, restatestart.Options{}).Handle(t.Context(), testkit.Batch("k1", "k2", "k3")))
		assert.Zero(t, time.Since(began))
		require.Len(t, blocked.Failed, 2)
		assert.Equal(t, 1, blocked.Failed[0].Attempts)
		assert.Equal(t, 6*time.Second, blocked.Failed[0].RetryAfter)
		assert.Greater(t, blocked.RetryAfter(), 24*time.Hour)
	})
}
