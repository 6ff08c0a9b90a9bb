package restatestart_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

// watched is a transport that looks at the contexts of its requests.
type watched struct {
	inner http.RoundTripper
	see   func(ctx context.Context)
}

func (w watched) RoundTrip(request *http.Request) (*http.Response, error) {
	w.see(request.Context())
	return w.inner.RoundTrip(request)
}

// Every attempt has AttemptTimeout for itself, however many a worker makes, one after the other, and whatever became of
// the one before. The fake's client has net/http's own transport, with which they share a context.
func TestS5EveryAttemptHasItsWholeTime(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(http.RoundTripper) http.RoundTripper{
		"net/http's transport": func(inner http.RoundTripper) http.RoundTripper { return inner },
		"another":              func(inner http.RoundTripper) http.RoundTripper { return watched{inner, func(context.Context) {}} },
	} {
		synctest.Test(t, func(t *testing.T) {
			fake := restatetest.New(t)
			fake.ScriptAll(restatetest.Delay(70 * time.Millisecond).Always())
			for _, key := range keysOf(6)[2:4] {
				fake.Script(key, restatetest.Hang(), restatetest.Delay(70*time.Millisecond))
			}
			client := &http.Client{Transport: wrap(fake.Client().Transport)}
			starter := starterOn(t, fake, nil, restatestart.Options{AttemptTimeout: 100 * time.Millisecond, MaxParallelism: 1, HTTPClient: client})
			began := time.Now()
			require.NoError(t, starter.Handle(t.Context(), batchOf(keysOf(6)...)), name)
			for i, key := range keysOf(6) {
				assert.Equal(t, map[bool]int{true: 2, false: 1}[i == 2 || i == 3], fake.Attempts(key), name)
			}
			// Six answers, and twice no answer and the wait after it.
			assert.Equal(t, 6*70*time.Millisecond+2*(100*time.Millisecond+200*time.Millisecond), time.Since(began), name)
		})
	}
}

// The context of a request is what it would be by context.WithTimeout: with a deadline, the nearer one, and what it has
// come to. Net/http's own transport shows it to its Proxy; what another derives from it has come to the same.
func TestTheContextOfARequestTellsItsDeadline(t *testing.T) {
	t.Parallel()
	for name, watch := range map[string]func(inner http.RoundTripper, see func(context.Context)) http.RoundTripper{
		"net/http's transport": func(inner http.RoundTripper, see func(context.Context)) http.RoundTripper {
			transport := inner.(*http.Transport).Clone()
			transport.Proxy = func(request *http.Request) (*url.URL, error) {
				see(request.Context())
				return nil, nil //nolint:nilnil // no proxy
			}
			return transport
		},
		"another": func(inner http.RoundTripper, see func(context.Context)) http.RoundTripper {
			return watched{inner, func(ctx context.Context) {
				derived, cancel := context.WithTimeout(ctx, time.Hour)
				see(derived)
				_ = cancel // its parent ends it
			}}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			fake := restatetest.New(t)
			fake.Script("k1", restatetest.Hang().Times(2))
			var seen []context.Context
			var left []time.Duration
			client := &http.Client{Transport: watch(fake.Client().Transport, func(ctx context.Context) {
				deadline, found := ctx.Deadline()
				assert.True(t, found)
				require.NoError(t, ctx.Err())
				seen, left = append(seen, ctx), append(left, time.Until(deadline))
			})}
			defer client.CloseIdleConnections()
			starter := starterOn(t, fake, nil, restatestart.Options{AttemptTimeout: time.Second, MaxParallelism: 1, HTTPClient: client})
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			require.NoError(t, starter.Handle(ctx, batchOf("k0", "k1")), name)
			require.Len(t, seen, 4, name)
			assert.Equal(t, []time.Duration{time.Second, time.Second, time.Second, 400 * time.Millisecond}, left, "the caller's deadline, where it is nearer")
			if name == "another" {
				require.ErrorIs(t, seen[0].Err(), context.Canceled, "its attempt is over")
			}
			require.ErrorIs(t, seen[1].Err(), context.DeadlineExceeded, name)
			require.ErrorIs(t, seen[2].Err(), context.DeadlineExceeded, name)
		})
	}
}
