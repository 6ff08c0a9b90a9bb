// Package backoff has the waits between attempts: exponential, by cenkalti/backoff, without an end.
package backoff

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Backoff yields growing waits. It is not safe for concurrent use: make one for each item that is retried.
type Backoff struct {
	waits             *backoff.ExponentialBackOff
	shortest, longest time.Duration
}

// New returns a Backoff from shortest, doubling up to longest, each wait spread evenly over wait × (1 ± jitter) within these
// bounds. Jitter 0 makes the waits exact.
func New(shortest, longest time.Duration, jitter float64) Backoff {
	return Backoff{
		waits: backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(shortest),
			backoff.WithMaxInterval(longest),
			backoff.WithMultiplier(2),
			backoff.WithRandomizationFactor(jitter),
			backoff.WithMaxElapsedTime(0), // the default ends after 15 minutes
		),
		shortest: shortest, longest: longest,
	}
}

// Next returns the wait before the next attempt.
func (b Backoff) Next() time.Duration { return min(max(b.waits.NextBackOff(), b.shortest), b.longest) }

// Reset returns to the shortest wait.
func (b Backoff) Reset() { b.waits.Reset() }

// Sleep waits, and returns false when the context ended first.
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
