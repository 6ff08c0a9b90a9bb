package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/redisevents/restatestart/internal/telemetry"
)

// outage counts consecutive failures and decides when to log them. The limit applies across outages, so that a
// flapping server is not logged each time.
type outage struct {
	attempts int
	since    time.Time
	logged   bool // this outage was
	limiter  telemetry.LogLimiter
}

func (o *outage) failed() (log bool) {
	if o.attempts == 0 {
		o.since = time.Now()
	}
	o.attempts++
	log = o.limiter.Allow()
	o.logged = o.logged || log
	return log
}

// recovered ends the outage. It reports whether there was one, and logs the event if the outage was logged.
func (o *outage) recovered(ctx context.Context, log *slog.Logger, event string) bool {
	if o.attempts == 0 {
		return false
	}
	if o.logged {
		log.InfoContext(ctx, event, slog.Int("attempts", o.attempts), slog.Duration("elapsed", time.Since(o.since)))
	}
	*o = outage{limiter: o.limiter}
	return true
}
