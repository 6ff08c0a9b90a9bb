// Package backoff has the waits between attempts: exponential ones, by cenkalti/backoff, that never run out.
package backoff

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Backoff yields growing waits. It is not safe for concurrent use: make one for each thing that is retried.
type Backoff struct {
	waits             *backoff.ExponentialBackOff
	shortest, longest time.Duration
}

// New returns waits that begin at shortest and double up to longest, each spread evenly over wait × (1 ± jitter)
// within these bounds. Jitter 0 makes them exact.
func New(shortest, longest time.Duration, jitter float64) Backoff {
	return Backoff{
		waits: backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(shortest),
			backoff.WithMaxInterval(longest),
			backoff.WithMultiplier(2),
			backoff.WithRandomizationFactor(jitter),
			backoff.WithMaxElapsedTime(0), // without this it gives up after 15 minutes
		),
		shortest: shortest, longest: longest,
	}
}

// Next is the wait before the next attempt.
func (b Backoff) Next() time.Duration { return min(max(b.waits.NextBackOff(), b.shortest), b.longest) }

// Reset begins again at the shortest wait.
func (b Backoff) Reset() { b.waits.Reset() }

// Sleep waits. It returns false when the context ended first.
func Sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
