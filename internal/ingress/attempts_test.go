package ingress_test

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/ingress"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/restatetest"
)

const attemptTimeout = 100 * time.Millisecond

// attemptsOn makes attempts at a fake, by net/http's transport, with which they share their deadlines, or by another.
func attemptsOn(ctx context.Context, t *testing.T, fake *restatetest.Server, shares bool) *ingress.Attempts {
	t.Helper()
	transport := fake.Client().Transport
	if !shares {
		transport = testkit.RoundTripper(transport.RoundTrip)
	}
	return open(t, ingress.Config{URL: fake.URL(), HTTP: &http.Client{Transport: transport}, Timeout: attemptTimeout}).Attempts(ctx)
}

func send(key string) *ingress.Send {
	return &ingress.Send{Workflow: "W", Key: key, Handler: "run", Body: []byte("{}")}
}

// countingContext counts the contexts that are derived from it, and those that were released.
type countingContext struct {
	context.Context //nolint:containedctx // a context

	done              chan struct{}
	derived, released atomic.Int64
}

func (c *countingContext) Done() <-chan struct{} { return c.done }

// AfterFunc is what package context calls of a parent that it does not know.
func (c *countingContext) AfterFunc(func()) func() bool {
	c.derived.Add(1)
	return sync.OnceValue(func() bool { c.released.Add(1); return true })
}

func TestS5EachAttemptHasItsWholeTimeout(t *testing.T) {
	t.Parallel()
	for name, shares := range map[string]bool{"net/http's transport": true, "another transport": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := restatetest.New(t)
				fake.ScriptAll(restatetest.Delay(70 * time.Millisecond).Always())
				fake.Script("hangs", restatetest.Hang().Always())
				parent := &countingContext{Context: context.Background(), done: make(chan struct{})}
				attempts := attemptsOn(parent, t, fake, shares)
				for _, key := range []string{"a", "b", "hangs", "hangs", "c", "d"} {
					began := time.Now()
					answer, err := attempts.Post(send(key))
					if key == "hangs" {
						require.ErrorIs(t, err, context.DeadlineExceeded)
						require.ErrorContains(t, err, "no answer within 100ms")
						assert.Equal(t, attemptTimeout, time.Since(began))
						continue
					}
					require.NoError(t, err)
					assert.True(t, answer.Accepted())
					assert.Equal(t, 70*time.Millisecond, time.Since(began))
				}
				if shares {
					assert.Equal(t, int64(3), parent.derived.Load(), "one for a, b and the first timeout, one for the second, one for c and d")
				} else {
					assert.Equal(t, int64(6), parent.derived.Load())
				}
				attempts.Close()
				assert.Equal(t, parent.derived.Load(), parent.released.Load())
			})
		})
	}
}

func TestATimeoutOfOneAttemptEndsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.ScriptAll(restatetest.Delay(90 * time.Millisecond).Always())
		fake.Script("hangs", restatetest.Hang().Always())
		parent := &countingContext{Context: context.Background(), done: make(chan struct{})}
		attempts := attemptsOn(parent, t, fake, true)
		for range 3 {
			var posts sync.WaitGroup
			for i := range 20 {
				posts.Go(func() {
					testkit.Pass(time.Duration(i) * 10 * time.Millisecond) // so that some are in flight at each timeout
					if i%4 == 0 {
						_, err := attempts.Post(send("hangs"))
						assert.ErrorIs(t, err, context.DeadlineExceeded)
						return
					}
					answer, err := attempts.Post(send("a"))
					require.NoError(t, err)
					assert.True(t, answer.Accepted())
				})
			}
			posts.Wait()
		}
		assert.Less(t, parent.derived.Load(), int64(3*20/2), "those that end in time are reused")
		attempts.Close()
		assert.Equal(t, parent.derived.Load(), parent.released.Load())
	})
}

// The context of a request is what context.WithTimeout would make. net/http's transport shows it to its Proxy.
func TestTheContextOfAnAttemptHasTheNearerDeadline(t *testing.T) {
	t.Parallel()
	for name, shares := range map[string]bool{"net/http's transport": true, "another transport": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := restatetest.New(t)
				fake.Script("hangs", restatetest.Hang().Always())
				var seen []context.Context
				var left []time.Duration
				see := func(ctx context.Context) {
					deadline, found := ctx.Deadline()
					assert.True(t, found)
					require.NoError(t, ctx.Err())
					seen, left = append(seen, ctx), append(left, time.Until(deadline))
				}
				standard := fake.Client().Transport.(*http.Transport).Clone()
				defer standard.CloseIdleConnections()
				client := &http.Client{Transport: standard}
				if shares {
					standard.Proxy = func(request *http.Request) (*url.URL, error) {
						see(request.Context())
						return nil, nil //nolint:nilnil // no proxy
					}
				} else {
					client.Transport = testkit.RoundTripper(func(request *http.Request) (*http.Response, error) {
						derived, cancel := context.WithTimeout(request.Context(), time.Hour)
						see(derived)
						_ = cancel // its parent ends it
						return standard.RoundTrip(request)
					})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 240*time.Millisecond)
				defer cancel()
				attempts := open(t, ingress.Config{URL: fake.URL(), HTTP: client, Timeout: attemptTimeout}).Attempts(ctx)
				defer attempts.Close()
				for _, key := range []string{"a", "hangs", "hangs", "hangs"} {
					_, _ = attempts.Post(send(key))
				}
				assert.Equal(t, []time.Duration{attemptTimeout, attemptTimeout, attemptTimeout, 40 * time.Millisecond}, left)
				if !shares {
					require.ErrorIs(t, seen[0].Err(), context.Canceled, "its attempt is over")
				}
				for _, ended := range seen[1:] {
					require.ErrorIs(t, ended.Err(), context.DeadlineExceeded)
				}
			})
		})
	}
}
