package stream

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Ladder are the waits between tries at something that has to work out in the end: the least one, doubling to the
// most, without jitter and without end, as in RedisEvents.
type Ladder struct{ steps *backoff.ExponentialBackOff }

// NewLadder returns a ladder at its first step.
func NewLadder(least, most time.Duration) Ladder {
	return Ladder{backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(least),
		backoff.WithMaxInterval(most),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxElapsedTime(0),
	)}
}

func (c *Config) ladder() Ladder { return NewLadder(c.HoldMin, c.HoldMax) }

// Next is the wait before the next try.
func (l Ladder) Next() time.Duration { return l.steps.NextBackOff() }

// Reset goes back to the first step.
func (l Ladder) Reset() { l.steps.Reset() }

// Sleep waits, and tells whether it was left to wait that long.
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

// Seldom lets something through once per logInterval.
type Seldom struct{ last time.Time }

// Now tells whether it is time again.
func (s *Seldom) Now() bool {
	now := time.Now()
	if !s.last.IsZero() && now.Sub(s.last) < logInterval {
		return false
	}
	s.last = now
	return true
}
