package stream

import (
	"context"
	"log/slog"
	"sync"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

// partition is one partition's loop.
type partition struct {
	group  *Group
	number int
	log    *slog.Logger
	status *status
	start  wire.ID

	mu    sync.Mutex
	reset *position.Reset    // pending, to be applied once the session has ended
	end   context.CancelFunc // of the session
}

func newPartition(group *Group, number int) *partition {
	return &partition{
		group: group, number: number, status: &status{partition: number},
		log: group.config.Logger.With(slog.Int("partition", number)),
	}
}

// begin sets where the first session reads from.
func (p *partition) begin(start wire.ID) {
	p.start = start
	p.status.begin(start)
}

// run is a session after the other: a reset ends one, and the next begins where the reset says.
func (p *partition) run(reading, working context.Context) {
	ended := false
	defer func() {
		// Code that was handed a batch may have ended this goroutine without a word.
		if !ended {
			p.status.stop(ErrGoexit)
			p.group.fail(ErrGoexit)
		}
	}()
	for again := true; again; {
		again = p.session(reading, working) && p.applyReset(reading)
	}
	ended = true
}

// session reads and works until the run ends, the partition stops, or a reset asks for another session.
func (p *partition) session(reading, working context.Context) (again bool) {
	reading, end := context.WithCancel(reading)
	defer end()
	p.mu.Lock()
	p.end = end
	pending := p.reset != nil
	p.mu.Unlock()
	if pending || reading.Err() != nil {
		return pending
	}
	slots := make(chan struct{}, p.group.config.ReadAhead)
	batches := make(chan Page, p.group.config.ReadAhead)
	readerDone := make(chan struct{})
	p.group.readers.Go(func() {
		defer close(readerDone)
		p.read(reading, p.start, slots, batches)
	})
	p.work(reading, working, slots, batches)
	end()
	if p.pendingReset() == nil {
		return false
	}
	<-readerDone
	return true
}

// work hands over one batch after the other, in order.
func (p *partition) work(reading, working context.Context, slots <-chan struct{}, batches <-chan Page) {
	for {
		// A batch that is waiting is no reason to go on when reading has stopped.
		if reading.Err() != nil {
			return
		}
		select {
		case <-reading.Done():
			return
		case next := <-batches:
			if !p.process(reading, working, next) {
				return
			}
			<-slots
		}
	}
}

// process sees one batch through and tells whether there may be another.
func (p *partition) process(reading, working context.Context, next Page) bool {
	entries := next.Entries
	if len(entries) == 0 {
		return p.advance(reading, next)
	}
	steps := p.group.config.ladder()
	var held holdLog
	for {
		p.status.handing()
		verdict := p.group.config.Deliver(working, p.number, entries)
		p.status.handed(verdict.Skipped)
		switch {
		case verdict.Action == Advance:
			held.recovered(p)
			return p.advance(reading, next)
		case reading.Err() != nil:
			// Whatever went wrong, it may be the stopping that did it: the batch comes again.
			if held.attempts > 0 {
				p.log.Info("stopped while blocked", slog.String("position", p.status.at().String()))
			}
			return false
		case verdict.Action == Skip:
			p.status.handed(len(entries))
			p.log.Error("batch skipped", slog.String("first", entries[0].ID.String()), slog.String("last", entries[len(entries)-1].ID.String()),
				slog.Int("messages", len(entries)), slog.Any("error", verdict.Err))
			held.recovered(p)
			return p.advance(reading, next)
		case verdict.Action == Stop:
			p.status.stop(verdict.Err)
			p.log.Error("partition stopped", slog.String("position", p.status.at().String()), slog.Any("error", verdict.Err))
			return false
		case verdict.Action == Fail:
			p.status.stop(verdict.Err)
			p.group.fail(verdict.Err)
			return false
		}
		entries = verdict.Remaining
		wait := max(steps.next(), min(verdict.RetryAfter, maxRetryAfter))
		held.blocked(p, verdict, wait)
		if !sleep(reading, wait) {
			p.log.Info("stopped while blocked", slog.String("position", p.status.at().String()))
			return false
		}
	}
}

// advance moves the position past a batch. It tells whether there may be another batch.
func (p *partition) advance(reading context.Context, next Page) bool {
	p.status.advance(next)
	p.group.keeper.record(p.number, next.Last)
	if !p.group.config.PersistEach {
		return true
	}
	steps := p.group.config.ladder()
	for {
		err := p.group.keeper.flush(reading)
		if err == nil {
			p.status.clear()
			return true
		}
		wait := steps.next()
		p.status.trouble(CausePositions, err, wait)
		if !sleep(reading, wait) {
			return false // the last flush of the run has another try
		}
	}
}

// requestReset makes the session end, and another begin where the reset says.
func (p *partition) requestReset(reset *position.Reset) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reset != nil && *p.reset == *reset {
		return
	}
	p.log.Info("position reset requested", slog.String("position", reset.Target.String()))
	p.reset = reset
	if p.end != nil {
		p.end()
	}
}

func (p *partition) pendingReset() *position.Reset {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reset
}

// applyReset moves the stored position and the start of the next session to where the pending reset says, for as
// long as it takes. Should another reset have replaced it by now, that one asks for a session of its own.
func (p *partition) applyReset(reading context.Context) bool {
	reset := p.pendingReset()
	steps := p.group.config.ladder()
	for {
		err := p.group.keeper.applyReset(reading, p.number, *reset)
		if err == nil {
			break
		}
		wait := steps.next()
		p.status.trouble(CausePositions, err, wait)
		if !sleep(reading, wait) {
			return false
		}
	}
	p.begin(reset.Target)
	p.log.Info("position reset", slog.String("position", reset.Target.String()))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reset == reset {
		p.reset = nil
	}
	return true
}
