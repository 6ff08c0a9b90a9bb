package restatestart_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

const forever = 24 * time.Hour

func TestS5AttemptsAreCountedAndWaitsDouble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.Status(503).Always())
		failed := onlyFailure(t, starterOn(t, fake, nil, restatestart.Options{}).Handle(t.Context(), batchOf("k")))
		assert.Equal(t, 5, failed.Attempts)
		assert.Equal(t, []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond}, gaps(fake))
	})
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.Status(503).Times(9))
		starter := starterOn(t, fake, nil, restatestart.Options{MaxAttempts: 10, RetryMin: time.Second, RetryMax: 5 * time.Second})
		require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
		const s = time.Second
		assert.Equal(t, []time.Duration{s, 2 * s, 4 * s, 5 * s, 5 * s, 5 * s, 5 * s, 5 * s, 5 * s}, gaps(fake))
	})
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k", restatetest.Status(503).Always())
		failed := onlyFailure(t, starterOn(t, fake, nil, restatestart.Options{MaxAttempts: 1}).Handle(t.Context(), batchOf("k")))
		assert.Equal(t, 1, failed.Attempts)
	})
}

// B51: however long it goes on, a wait stays between its bounds.
func TestS5AWaitIsNeverOutsideItsBounds(t *testing.T) {
	t.Parallel()
	for _, options := range []restatestart.Options{
		{RetryMin: time.Second, RetryMax: 5 * time.Second, Jitter: 0.5},
		{RetryMin: time.Second, RetryMax: 5 * time.Second, Jitter: 1},
		{RetryMin: time.Millisecond, RetryMax: 5 * time.Second, Jitter: 0.2},
		{RetryMin: time.Second, RetryMax: time.Second, Jitter: 0.2},
		{RetryMin: time.Second, RetryMax: forever, Jitter: 0.2},
	} {
		synctest.Test(t, func(t *testing.T) {
			fake := restatetest.New(t)
			fake.Script("k", restatetest.Status(503).Times(200))
			options.MaxAttempts = 201
			require.NoError(t, starterOn(t, fake, nil, options).Handle(t.Context(), batchOf("k")))
			waits := gaps(fake)
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

// B05: an attempt's deadline is not the caller's cancellation, whichever clock rings, and each attempt has its own.
func TestS5AnAttemptThatHangsIsGivenUpAndTriedAgain(t *testing.T) {
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
				starter := starterOn(t, fake, nil, options(fake.Client()))
				require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
				assert.Equal(t, 4, fake.Attempts("k"))
				assert.Equal(t, []time.Duration{300 * time.Millisecond, 500 * time.Millisecond, 900 * time.Millisecond}, gaps(fake))
			})
		})
	}
}

// B16: a server that takes connections and says nothing, and nobody set a timeout.
func TestS5ASilentServerHoldsNobodyLongerThanTheDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.ScriptAll(restatetest.Hang().Always())
		starter := starterOn(t, fake, nil, restatestart.Options{})
		began := time.Now()
		blocked := blockedBy(t, starter.Handle(t.Context(), batchOf(keysOf(8)...)))
		assert.Len(t, blocked.Failed, 8)
		for _, failed := range blocked.Failed {
			assert.Equal(t, restatestart.ReasonTimeout, failed.Reason)
			assert.Equal(t, 5, failed.Attempts)
		}
		assert.Equal(t, 5*restatestart.DefaultAttemptTimeout+3*time.Second, time.Since(began))
	})
}

// B06: every attempt carries the whole body.
func TestS5EveryAttemptCarriesTheSameBody(t *testing.T) {
	t.Parallel()
	for _, size := range []int{2, 64 << 10, 2 << 20} {
		synctest.Test(t, func(t *testing.T) {
			fake := restatetest.New(t)
			fake.Script("k", restatetest.Status(503), restatetest.Drop())
			input := make([]byte, size)
			for i := range input {
				input[i] = byte('a' + i%26)
			}
			starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
				return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: input}, nil
			}, restatestart.Options{})
			require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
			requests := fake.Requests()
			require.Len(t, requests, 3)
			for _, request := range requests {
				assert.Equal(t, sha256.Sum256(input), sha256.Sum256(request.Body))
				assert.Equal(t, fmt.Sprint(size), request.Header.Get("Content-Length"))
			}
		})
	}
}

// B53: every status, whoever it says it is from, has one class. Only 2xx is success, and what is worth asking
// again is asked again.
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
				starter := starterOn(t, fake, nil, restatestart.Options{MaxAttempts: 3, MaxParallelism: 64})
				blocked := blockedBy(t, starter.Handle(t.Context(), batchOf(keys...)))
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
			failed := onlyFailure(t, starterOn(t, fake, nil, restatestart.Options{}).Handle(t.Context(), batchOf("k1", "k2")))
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
			after(time.Second, fake.Up)
			require.NoError(t, starterOn(t, fake, nil, restatestart.Options{}).Handle(t.Context(), batchOf("k")))
		})
	})
	// B54: a name that does not exist yet is no reason to give up, and the text names it.
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
			starter := starterOn(t, fake, nil, restatestart.Options{HTTPClient: client, MaxAttempts: 2})
			failed := onlyFailure(t, starter.Handle(t.Context(), batchOf("k")))
			assert.Equal(t, restatestart.ReasonUnreachable, failed.Reason)
			require.ErrorContains(t, failed.Err, "restate.default.svc")
			require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
		})
	})
	t.Run("an answer that ends in its headers", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Read(make([]byte, 1<<10))
				_, _ = conn.Write([]byte("HTTP/1.1 202 Acc"))
				_ = conn.Close()
			}
		}()
		defer func() { _ = listener.Close() }()
		starter, err := restatestart.New(nil, payout, restatestart.Options{
			Ingress: "http://" + listener.Addr().String(), MaxAttempts: 2, RetryMin: time.Millisecond,
		})
		require.NoError(t, err)
		failed := onlyFailure(t, starter.Handle(t.Context(), batchOf("k")))
		assert.Equal(t, restatestart.ReasonUnreachable, failed.Reason)
		assert.Equal(t, 2, failed.Attempts)
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
		require.NoError(t, starterOn(t, fake, nil, restatestart.Options{}).Handle(t.Context(), batchOf("k")))
		assert.Equal(t, []time.Duration{3 * time.Second, 400 * time.Millisecond, time.Second, 1600 * time.Millisecond}, gaps(fake))
	})
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		date := time.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat)
		fake.Script("k", restatetest.Status(503).WithHeader("Retry-After", date))
		require.NoError(t, starterOn(t, fake, nil, restatestart.Options{}).Handle(t.Context(), batchOf("k")))
		assert.Equal(t, []time.Duration{4 * time.Second}, gaps(fake))
	})
}

func TestS12ALongRetryAfterIsLeftToTheLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Script("k1", restatetest.Status(503).WithHeader("Retry-After", "6").Always())
		fake.Script("k2", restatetest.Status(429).WithHeader("Retry-After", "99999999999999999999").Always())
		began := time.Now()
		blocked := blockedBy(t, starterOn(t, fake, nil, restatestart.Options{}).Handle(t.Context(), batchOf("k1", "k2", "k3")))
		assert.Zero(t, time.Since(began))
		require.Len(t, blocked.Failed, 2)
		assert.Equal(t, 1, blocked.Failed[0].Attempts)
		assert.Equal(t, 6*time.Second, blocked.Failed[0].RetryAfter)
		assert.Greater(t, blocked.RetryAfter(), forever)
	})
}

// B50: an ingress that takes two at a time is not kept down by those that wait.
func TestAnOverloadedIngressIsGotThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t, restatetest.WithConcurrencyLimit(2))
		fake.ScriptAll(restatetest.Delay(5 * time.Millisecond).Always())
		starter := starterOn(t, fake, nil, restatestart.Options{MaxParallelism: 16, MaxAttempts: 12, Jitter: 0.5})
		require.NoError(t, starter.Handle(t.Context(), batchOf(keysOf(200)...)))
		assert.Len(t, fake.Starts(), 200)
		assert.Less(t, len(fake.Requests()), 3*200)
	})
}

// B27: as many connections as starts are under way, not one a start.
func TestTheDefaultClientKeepsItsConnections(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	starter, err := restatestart.New(nil, payout, restatestart.Options{Ingress: server.URL, MaxParallelism: 16})
	require.NoError(t, err)
	t.Cleanup(starter.CloseIdleConnections)
	for range 20 {
		require.NoError(t, starter.Handle(t.Context(), batchOf(keysOf(100)...)))
	}
	assert.LessOrEqual(t, opened.Load(), int64(2*16), "2000 starts")
}

// B57: a body that is too large is refused for good, and not hammered.
func TestABodyTooLargeIsRejectedOnce(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t, restatetest.WithBodyLimit(1<<10))
	starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: make([]byte, 1<<10+1)}, nil
	}, restatestart.Options{})
	failed := onlyFailure(t, starter.Handle(t.Context(), batchOf("k")))
	assert.Equal(t, http.StatusRequestEntityTooLarge, failed.Status)
	assert.Equal(t, restatestart.ReasonRejected, failed.Reason)
	assert.Equal(t, 1, failed.Attempts)
	require.ErrorContains(t, failed.Err, "length limit exceeded")
}

// B12: the library that makes the waits gives up after 15 minutes unless it is told otherwise.
func TestAttemptsGoOnPastAQuarterOfAnHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.Down()
		after(time.Hour, fake.Up)
		starter := starterOn(t, fake, nil, restatestart.Options{MaxAttempts: 1000, RetryMax: 30 * time.Second})
		began := time.Now()
		require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
		assert.InDelta(t, time.Hour.Seconds(), time.Since(began).Seconds(), 31)
	})
}

// B34: the transport's error is reached through the BlockedError.
func TestTheCauseIsReachedThroughTheError(t *testing.T) {
	t.Parallel()
	starter, err := restatestart.New(nil, payout, restatestart.Options{
		Ingress: "http://restate", MaxAttempts: 1,
		HTTPClient: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) { return nil, errBoom })},
	})
	require.NoError(t, err)
	err = starter.Handle(t.Context(), batchOf("k1", "k2"))
	require.ErrorIs(t, err, errBoom)
	assert.Equal(t, "2 of 2 starts not accepted; start Payout/k1 (entry 1-0): unreachable after 1 attempt: boom; start Payout/k2 (entry 2-0): unreachable after 1 attempt: boom", err.Error())
}
