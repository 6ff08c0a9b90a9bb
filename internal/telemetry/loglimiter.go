package telemetry

import "time"

// LogInterval is the least time between two log lines about the same error.
const LogInterval = 30 * time.Second

// LogLimiter allows one log line per LogInterval. The zero value allows the first at once. It is not safe for
// concurrent use.
type LogLimiter struct{ last time.Time }

// Allow reports whether it is time for another line.
func (l *LogLimiter) Allow() bool {
	now := time.Now()
	if !l.last.IsZero() && now.Sub(l.last) < LogInterval {
		return false
	}
	l.last = now
	return true
}
