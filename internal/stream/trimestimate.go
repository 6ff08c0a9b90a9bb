package stream

import (
	"time"

	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/wire"
)

const (
	// rateWindow is the time over which the publish rate is measured.
	rateWindow = time.Minute
	// trimWindow is how long after its last removal a stream still counts as being trimmed: `MAXLEN ~` removes about a
	// hundred entries at a time.
	trimWindow = 10 * time.Minute
	// trimAlarm is how long before trimming reaches a position the log warns.
	trimAlarm = 10 * time.Minute
)

// trimEstimate estimates when trimming reaches a position that does not move.
type trimEstimate struct {
	samples  []trimSample // of the last rateWindow, oldest first
	trimmed  time.Time    // when entries were last found removed
	position wire.ID      // at the last sample
	logged   telemetry.LogLimiter
}

type trimSample struct {
	at            time.Time
	added, length int64
}

// sampled adds a sample of the tail. It reports whether the position has moved since the last one.
func (e *trimEstimate) sampled(tail Tail, position wire.ID) (moved bool) {
	now := trimSample{time.Now(), tail.Added, tail.Length}
	if n := len(e.samples); n > 0 {
		switch last := e.samples[n-1]; {
		case now.added < last.added:
			*e = trimEstimate{logged: e.logged} // another stream
		case now.added-now.length > last.added-last.length:
			e.trimmed = now.at
		}
	}
	for len(e.samples) > 1 && now.at.Sub(e.samples[1].at) >= rateWindow {
		e.samples = e.samples[1:]
	}
	e.samples = append(e.samples, now)
	moved = position != e.position
	e.position = position
	return moved
}

// estimate is how long it takes at the current rate until trimming reaches a position with so many entries behind it:
// each added entry removes one of those before it. It is unknown when nothing is added or nothing is removed.
func (e *trimEstimate) estimate(behind int64) (in time.Duration, known bool) {
	first, last := e.samples[0], e.samples[len(e.samples)-1]
	published := last.added - first.added
	if first.added < 0 || published <= 0 || e.trimmed.IsZero() || last.at.Sub(e.trimmed) > trimWindow {
		return 0, false
	}
	before := max(0, last.length-behind)
	return time.Duration(float64(last.at.Sub(first.at)) * float64(before) / float64(published)), true
}
