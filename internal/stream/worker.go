package stream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redisevents/restatestart/internal/backoff"
	"github.com/redisevents/restatestart/internal/telemetry"
)

// worker is the delivering half of a session.
type worker struct{ *partition }

// run delivers page after page, in order, until reading ends or the partition stops.
func (w worker) run(reading, working context.Context, slots <-chan struct{}, pages <-chan Page) {
	for reading.Err() == nil { // a page that waits must not begin after that
		select {
		case <-reading.Done():
			return
		case page := <-pages:
			if !w.process(reading, working, page) {
				return
			}
			<-slots
		}
	}
}

// process delivers a page until it is done. It reports whether the position has advanced; if not, the session is over.
func (w worker) process(reading, working context.Context, page Page) (advanced bool) {
	if page.gap != nil {
		w.holdAtGap(reading)
		return false
	}
	if len(page.Entries) == 0 {
		w.logNoneWanted()
		return w.advance(reading, page, Unprocessed{})
	}
	waits := w.loop.config.backoff()
	var held outage
	var unprocessed Unprocessed
	batch := Batch{Partition: w.number, Entries: page.Entries, Last: page.Last, Stopping: func() bool { return reading.Err() != nil }}
	for {
		batch.Attempt++
		verdict := w.deliver(working, batch)
		unprocessed.Skipped += verdict.Skipped
		unprocessed.Parked += verdict.Parked
		if verdict.Err == nil {
			w.recovered(reading, &held)
			return w.advance(reading, page, unprocessed)
		}
		if reading.Err() != nil {
			return false // stopping may have caused the error: the batch is redelivered by another run
		}
		w.loop.config.Observer.DeliveryFailed(w.number, verdict)
		switch verdict.Policy {
		case ErrorHold:
		case ErrorSkip:
			w.skip(reading, verdict)
			w.recovered(reading, &held)
			unprocessed.Dropped = len(verdict.Remaining)
			return w.advance(reading, page, unprocessed)
		case ErrorStop:
			w.status.stop(verdict.Err)
			w.logVerdict(reading, "partition stopped", verdict)
			return false
		case ErrorFail:
			w.status.stop(nil) // Run returns the error
			w.loop.fail(verdict.Err)
			return false
		}
		batch.Entries, batch.Previous = verdict.Remaining, verdict.Detail
		if verdict.Parked > 0 {
			waits.Reset() // the rest was held up by what is parked now
		}
		wait := max(waits.Next(), min(verdict.RetryAfter, maxRetryAfter))
		w.blocked(reading, &held, verdict, wait)
		if !backoff.Sleep(reading, wait) {
			w.log.Info("stopped while blocked", slog.String("position", w.status.at().String()))
			return false
		}
	}
}

func (w worker) deliver(working context.Context, batch Batch) Verdict {
	w.status.deliver()
	defer w.status.delivered() // also when the handler calls runtime.Goexit
	verdict := w.loop.config.Deliver(working, batch)
	w.status.gaveUp(verdict.Skipped, verdict.Parked)
	return verdict
}

// advance moves the position past a page. It reports false when the session ended before the position was committed,
// where each one has to be.
func (w worker) advance(reading context.Context, page Page, unprocessed Unprocessed) bool {
	w.status.advance(page)
	w.loop.config.Observer.Processed(w.number, page, unprocessed)
	w.gaps.commit(page, w.enqueue)
	if !w.loop.config.PersistEach {
		return true
	}
	waits := w.loop.config.backoff()
	for {
		err := w.loop.committer.commit(reading, []*partition{w.partition})
		if err == nil {
			w.status.clear()
			return true
		}
		wait := waits.Next()
		if reading.Err() == nil {
			w.status.positionsFailed(err, wait)
		}
		if !backoff.Sleep(reading, wait) {
			return false // the last commit of the run is another attempt
		}
	}
}

// logNoneWanted warns once while no entry of a wanted type has come: a misspelt type looks just like that.
func (w worker) logNoneWanted() {
	if before := w.status.snapshot(); before.Processed == 0 {
		w.log.Warn("no message of the configured types yet", slog.String("position", before.Position.String()))
	}
}

func (w worker) skip(ctx context.Context, verdict Verdict) {
	lost := verdict.Remaining
	w.status.gaveUp(len(lost), 0)
	w.logVerdict(ctx, "batch skipped", verdict, slog.String("first", lost[0].ID.String()), slog.String("last", lost[len(lost)-1].ID.String()),
		slog.Int("messages", len(lost)))
}

func (w worker) blocked(ctx context.Context, held *outage, verdict Verdict, wait time.Duration) {
	log := held.failed()
	now := time.Now()
	w.status.hold(Blocked{
		Since: held.since, Attempts: held.attempts, Next: now.Add(wait), Cause: verdict.Cause, Err: verdict.Err, Detail: verdict.Detail,
	})
	if log {
		w.logVerdict(ctx, "blocked", verdict, slog.Int("attempts", held.attempts), slog.Duration("elapsed", now.Sub(held.since)), slog.Duration("next", wait))
	}
}

func (w worker) recovered(ctx context.Context, held *outage) {
	if held.recovered(ctx, w.log, "recovered") {
		w.status.clear()
	}
}

// holdAtGap holds the partition until its position is reset or the run ends.
func (w worker) holdAtGap(reading context.Context) {
	gap := w.gaps.holding()
	err := errors.New(gap.String())
	w.status.hold(Blocked{Since: gap.At, Attempts: 1, Cause: CauseGap, Err: err, Detail: *gap})
	for again := true; again; again = backoff.Sleep(reading, telemetry.LogInterval) {
		w.log.ErrorContext(reading, "blocked", slog.String("position", w.status.at().String()), slog.String("cause", CauseGap),
			slog.Duration("elapsed", time.Since(gap.At)), slog.Any("error", err))
	}
}

// logVerdict logs a failed delivery.
func (w worker) logVerdict(ctx context.Context, event string, verdict Verdict, attributes ...slog.Attr) {
	attributes = append(attributes, slog.String("position", w.status.at().String()), slog.String("cause", verdict.Cause))
	attributes = append(attributes, verdict.Log...)
	w.log.LogAttrs(ctx, slog.LevelError, event, append(attributes, slog.Any("error", verdict.Err))...)
}
