package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/redisevents/restatestart/internal/backoff"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/wire"
)

// partition runs one partition, as a series of sessions: a reset ends one, and the next begins at its target.
type partition struct {
	control

	loop   *Loop
	number int
	log    *slog.Logger
	status *status
	start  wire.ID // of the next session

	gaps        gapDetector
	aheadLogged bool                 // that the position is ahead of the stream
	undetected  telemetry.LogLimiter // of the log line that gaps cannot be detected
	trim        trimEstimate         // belongs to the sampling goroutine

	reporting  mutex // held while a gap is reported: what is stored about it must not come after the last commit
	committing mutex // held while the position is committed: a commit ends before a reset is applied
}

func newPartition(loop *Loop, number int) *partition {
	return &partition{
		control: newControl(),
		loop:    loop, number: number,
		log:        loop.config.Logger.With(slog.Int("partition", number)),
		status:     &status{partition: number, stream: loop.config.Name(number)},
		reporting:  newMutex(),
		committing: newMutex(),
	}
}

// begin sets where the next session starts, with the metadata stored for that position.
func (p *partition) begin(start wire.ID, metadata string) {
	p.start, p.aheadLogged = start, false
	p.gaps.begin(start, metadata, p.loop.config.GapHold)
	p.status.begin(start)
}

// run runs sessions until the run ends or the partition is revoked.
func (p *partition) run(running, working context.Context) {
	for running.Err() == nil && !p.isRevoked() {
		p.session(running, working)
		if p.awaitReset(running) {
			p.applyReset(running)
		}
	}
}

// failOnGoexit ends the run when a callback in f ends the goroutine: its partition would otherwise just fall silent.
func (p *partition) failOnGoexit(f func()) {
	returned := false
	defer func() {
		if !returned {
			p.status.stop(ErrGoexit)
			p.loop.fail(ErrGoexit)
		}
	}()
	f()
	returned = true
}

// session reads and delivers until the partition stops, is interrupted, or the run ends.
func (p *partition) session(running, working context.Context) {
	reading, end := context.WithCancel(running)
	defer end()
	if !p.beginSession(end) || reading.Err() != nil {
		return
	}
	slots := make(chan struct{}, p.loop.config.ReadAhead)
	pages := make(chan Page, p.loop.config.ReadAhead)
	readerDone := make(chan struct{})
	p.loop.readers.Go(func() {
		defer close(readerDone)
		p.failOnGoexit(func() { newReader(p).run(reading, p.start, slots, pages) })
	})
	worker{p}.run(reading, working, slots, pages)
	end()
	if running.Err() == nil && !p.isRevoked() {
		<-readerDone // another session may follow
	}
}

// awaitReset waits for a reset, unless one is pending already: nothing else makes a stopped partition continue. It
// reports false when the run ended or the partition was revoked.
func (p *partition) awaitReset(running context.Context) (pending bool) {
	if running.Err() != nil || p.isRevoked() {
		return false
	}
	if p.pendingReset() != nil {
		return true
	}
	p.gaps.rewind()
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for p.pendingReset() == nil {
		select {
		case <-running.Done():
			return false
		case <-ticker.C: // unread entries may vanish from a stopped partition too
			p.checkTail(running)
		case <-p.wake:
		}
		if p.isRevoked() {
			return false
		}
	}
	return true
}

// applyReset moves the stored position and the start of the next session to the target of the pending reset. It
// retries until it has, or the run ends.
func (p *partition) applyReset(running context.Context) {
	waits := p.loop.config.backoff()
	for {
		reset := p.pendingReset()
		start, metadata, err := p.loop.committer.applyReset(running, p, reset)
		if err == nil {
			p.begin(start, metadata)
			p.log.Info("position reset", slog.String("position", start.String()))
			p.finishReset(reset)
			return
		}
		wait := waits.Next()
		if running.Err() == nil {
			p.status.positionsFailed(err, wait)
		}
		if !backoff.Sleep(running, wait) {
			return
		}
	}
}

// resetFound interrupts the partition for a reset that a commit found in the store.
func (p *partition) resetFound(reset *position.Reset) {
	if p.requestReset(reset) {
		p.log.Info("position reset requested", slog.String("position", reset.Target.String()))
	}
}

// enqueue queues a position for the next commit.
func (p *partition) enqueue(position wire.ID, metadata string) {
	p.loop.committer.enqueue(p.number, position, metadata)
}

// checkTail looks for a gap between reads.
func (p *partition) checkTail(ctx context.Context) {
	// When the server cannot be reached, the next read reports it.
	if tail, err := p.loop.config.Source.Tail(ctx, p.number); err == nil && ctx.Err() == nil {
		p.checkGap(ctx, tail, 0, false)
	}
}

// checkGap looks for a gap at the reader's position, given the stream's tail, how many entries a read at the same
// moment returned, and whether those were all. A gap is reported first and stored afterwards: a crash in between
// reports it twice rather than never.
func (p *partition) checkGap(ctx context.Context, tail Tail, read int, all bool) {
	p.reporting <- struct{}{} // a lock that does not depend on the context
	defer p.reporting.unlock()
	next, gap := p.gaps.check(tail, read, all, p.loop.config.GapHold)
	if gap != nil {
		p.status.gap(*gap, next.standing)
		if p.loop.config.OnGap != nil {
			p.loop.config.OnGap(ctx, p.number, *gap)
		}
	} else if p.gaps.isAhead(tail) && !p.aheadLogged {
		p.aheadLogged = true
		p.log.WarnContext(ctx, "position is ahead of the stream",
			slog.String("position", p.status.at().String()), slog.String("last", tail.Last.String()))
	}
	p.gaps.accept(next, p.enqueue)
}

// sample samples the stream's tail, for the lag and the estimate of when trimming reaches the position.
func (p *partition) sample(ctx context.Context) {
	before := p.status.snapshot()
	tail, err := p.loop.config.Source.Tail(ctx, p.number)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		p.status.sampleFailed() // the reads of the partition fail too, and report it
	default:
		p.status.sampled(tail, before)
		p.estimateTrim(ctx, tail, before.Position)
		if !tail.Exists && !before.Missing {
			p.log.Warn("stream does not exist yet", slog.String("stream", before.Stream))
		}
	}
}

// estimateTrim updates the estimate with a tail that was sampled while the position was the one given.
func (p *partition) estimateTrim(ctx context.Context, tail Tail, position wire.ID) {
	moved := p.trim.sampled(tail, position)
	left := p.status.setTrimIn(position, func(behind int64) *time.Duration {
		if in, known := p.trim.estimate(behind); !moved && known && behind > 0 {
			return &in
		}
		return nil
	})
	if left != nil && *left < trimAlarm && p.trim.logged.Allow() {
		p.log.WarnContext(ctx, "trimming close to the position", slog.Duration("in", left.Round(time.Second)),
			slog.String("position", position.String()), slog.Int64("length", tail.Length))
	}
}
