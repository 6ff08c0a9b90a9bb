package stream

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// ladder are the waits between tries at something that has to work out in the end: HoldMin, doubling to HoldMax,
// without jitter and without end, as in RedisEvents.
type ladder struct{ steps *backoff.ExponentialBackOff }

func (c *Config) ladder() ladder {
	return ladder{backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(c.HoldMin),
		backoff.WithMaxInterval(c.HoldMax),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxElapsedTime(0),
	)}
}

func (l ladder) next() time.Duration { return l.steps.NextBackOff() }

func (l ladder) reset() { l.steps.Reset() }

// sleep waits, and tells whether it was left to wait that long.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// seldom lets something through once per logInterval.
type seldom struct{ last time.Time }

func (s *seldom) now() bool {
	now := time.Now()
	if !s.last.IsZero() && now.Sub(s.last) < logInterval {
		return false
	}
	s.last = now
	return true
}
