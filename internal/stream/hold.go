package stream

import (
	"context"
	"log/slog"
	"time"
)

// holdLog follows one hold: from the first hand-over that did not work out to the one that did. It tells the
// status each time, and the log once on entry, then at most every logInterval, and when it is over.
type holdLog struct {
	attempts int
	since    time.Time
	logged   Seldom
}

func (h *holdLog) blocked(ctx context.Context, p *partition, verdict Verdict, wait time.Duration) {
	now := time.Now()
	if h.attempts == 0 {
		h.since = now
	}
	h.attempts++
	p.status.hold(Blocked{
		Since: h.since, Attempts: h.attempts, Next: now.Add(wait), Cause: verdict.Cause, Err: verdict.Err, Detail: verdict.Detail,
	})
	if h.logged.Now() {
		p.tell(ctx, "blocked", verdict, slog.Int("attempts", h.attempts), slog.Duration("elapsed", now.Sub(h.since)), slog.Duration("next", wait))
	}
}

func (h *holdLog) recovered(p *partition) {
	if h.attempts == 0 {
		return
	}
	p.status.clear()
	p.log.Info("recovered", slog.Int("attempts", h.attempts), slog.Duration("elapsed", time.Since(h.since)))
}
