package stream

import (
	"context"
	"log/slog"
	"sync"
	"time"

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

	ledger   ledger
	forecast forecast
	outside  bool   // the log knows that the position is outside the stream
	blind    Seldom // lets the log know that holes cannot be seen

	telling chan struct{} // full while a hole is told: what is noted of it must not come after the last write
	storing chan struct{} // full while the position is being written: a write ends before a reset is applied

	mu      sync.Mutex
	reset   *position.Reset    // pending, to be applied once the session has ended
	retired bool               // let go by Assign
	end     context.CancelFunc // of the session
	wake    chan struct{}      // tells one that waits of a change of these
}

func newPartition(group *Group, number int) *partition {
	return &partition{
		group: group, number: number,
		log:     group.config.Logger.With(slog.Int("partition", number)),
		status:  &status{partition: number, stream: group.config.Name(number)},
		telling: make(chan struct{}, 1),
		storing: make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
	}
}

// begin sets where the next session reads from, and what was noted about that position.
func (p *partition) begin(start wire.ID, note string) {
	p.start, p.outside = start, false
	p.ledger.begin(start, note, p.group.config.GapHold)
	p.status.begin(start)
}

// run is a session after the other: a reset ends one, and the next begins where the reset says.
func (p *partition) run(reading, working context.Context) {
	ended := false
	defer func() {
		// Code that was handed a batch may have ended this goroutine without a word.
		if !ended {
			p.status.handed(0)
			p.status.stop(ErrGoexit)
			p.group.fail(ErrGoexit)
		}
	}()
	for p.session(reading, working) {
		if !p.awaitReset(reading) || !p.applyReset(reading) {
			break
		}
	}
	ended = true
}

// session reads and works until a reset asks for another session, the partition stops, which only a reset ends,
// or the run does, and then there is no other.
func (p *partition) session(running, working context.Context) (again bool) {
	reading, end := context.WithCancel(running)
	defer end()
	p.mu.Lock()
	p.end = end
	pending, retired := p.reset != nil, p.retired
	p.mu.Unlock()
	if pending || retired || reading.Err() != nil {
		return !retired && running.Err() == nil
	}
	slots := make(chan struct{}, p.group.config.ReadAhead)
	batches := make(chan Page, p.group.config.ReadAhead)
	readerDone := make(chan struct{})
	p.group.readers.Go(func() {
		defer close(readerDone)
		ended := false
		defer func() {
			if !ended { // as in run
				p.status.stop(ErrGoexit)
				p.group.fail(ErrGoexit)
			}
		}()
		p.read(reading, p.start, slots, batches)
		ended = true
	})
	p.work(reading, working, slots, batches)
	end()
	if running.Err() != nil || p.letGo() {
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
	if next.gap != nil {
		p.holdFor(reading)
		return false
	}
	if len(next.Entries) == 0 {
		p.passedOver()
		return p.advance(reading, next, Left{})
	}
	steps := p.group.config.ladder()
	var held holdLog
	batch := Batch{Partition: p.number, Entries: next.Entries, Last: next.Last, Stopping: func() bool { return reading.Err() != nil }}
	var left Left
	for {
		batch.Try++
		p.status.handing()
		verdict := p.group.config.Deliver(working, batch)
		p.status.handed(verdict.Skipped)
		p.status.parked(verdict.Parked)
		left.Skipped += verdict.Skipped
		left.Parked += verdict.Parked
		if verdict.Action == Advance {
			held.recovered(p)
			return p.advance(reading, next, left)
		}
		if reading.Err() != nil {
			return false // whatever went wrong, it may be the stopping that did it: the batch comes again
		}
		p.group.config.Observer.Failed(p.number, verdict)
		switch verdict.Action {
		case Advance, Hold:
		case Skip:
			p.skip(reading, verdict)
			held.recovered(p)
			left.Dropped = len(verdict.Remaining)
			return p.advance(reading, next, left)
		case Stop:
			p.status.stop(verdict.Err)
			p.tell(reading, "partition stopped", verdict)
			return false
		case Fail:
			p.status.stop(nil) // Run's error says why
			p.group.fail(verdict.Err)
			return false
		}
		batch.Entries, batch.Before = verdict.Remaining, verdict.Detail
		if verdict.Parked > 0 {
			steps.Reset() // what is left waited for what is gone
		}
		wait := max(steps.Next(), min(verdict.RetryAfter, maxRetryAfter))
		held.blocked(reading, p, verdict, wait)
		if !Sleep(reading, wait) {
			p.log.Info("stopped while blocked", slog.String("position", p.status.at().String()))
			return false
		}
	}
}

// advance moves the position past a batch. It tells whether there may be another batch.
func (p *partition) advance(reading context.Context, next Page, left Left) bool {
	p.status.advance(next)
	p.group.config.Observer.Passed(p.number, next, left)
	p.ledger.advance(next, p.record)
	if !p.group.config.PersistEach {
		return true
	}
	steps := p.group.config.ladder()
	for {
		err := p.group.keeper.save(reading, []*partition{p})
		if err == nil {
			p.status.clear()
			return true
		}
		wait := steps.Next()
		if reading.Err() == nil {
			p.status.trouble(CausePositions, err, wait)
		}
		if !Sleep(reading, wait) {
			return false // the last write of the run has another try
		}
	}
}

// passedOver says once that nothing of a type that is wanted has come: a misspelt name looks just like that.
func (p *partition) passedOver() {
	if before := p.status.snapshot(); before.Passed == 0 {
		p.log.Warn("no message is of a type that is wanted, so far", slog.String("position", before.Position.String()))
	}
}

// skip tells of messages that are given up on.
func (p *partition) skip(ctx context.Context, verdict Verdict) {
	lost := verdict.Remaining
	p.status.handed(len(lost))
	p.tell(ctx, "batch skipped", verdict, slog.String("first", lost[0].ID.String()), slog.String("last", lost[len(lost)-1].ID.String()),
		slog.Int("messages", len(lost)))
}

// tell logs what became of a hand-over that did not work out.
func (p *partition) tell(ctx context.Context, event string, verdict Verdict, attributes ...slog.Attr) {
	attributes = append(attributes, slog.String("position", p.status.at().String()), slog.String("cause", verdict.Cause))
	attributes = append(attributes, verdict.Log...)
	p.log.LogAttrs(ctx, slog.LevelError, event, append(attributes, slog.Any("error", verdict.Err))...)
}

// requestReset makes the session end, and another begin where the reset says.
func (p *partition) requestReset(reset *position.Reset) {
	p.mu.Lock()
	fresh := !p.retired && (p.reset == nil || *p.reset != *reset)
	if fresh {
		p.reset = reset
		p.changed()
	}
	p.mu.Unlock() // before the log, which may take its time, or ask for Status
	if fresh {
		p.log.Info("position reset requested", slog.String("position", reset.Target.String()))
	}
}

// retire makes the session end, and no other begin. It reports false when that was so.
func (p *partition) retire() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retired {
		return false
	}
	p.retired = true
	p.changed()
	return true
}

// changed ends the session and wakes who waits for that. It is called with mu held.
func (p *partition) changed() {
	if p.end != nil {
		p.end()
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *partition) letGo() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.retired
}

func (p *partition) pendingReset() *position.Reset {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reset
}

// awaitReset waits for a reset, if none is pending: a partition that stopped goes on with one.
func (p *partition) awaitReset(running context.Context) bool {
	if p.pendingReset() == nil {
		p.ledger.rewind()
	}
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for p.pendingReset() == nil {
		select {
		case <-running.Done():
			return false
		case <-ticker.C: // nobody reads a partition that stopped, and what it has not read may vanish
			if tail, err := p.group.config.Source.Tail(running, p.number); err == nil && running.Err() == nil {
				p.look(running, tail, 0, false)
			}
			continue
		case <-p.wake:
		}
		if p.letGo() {
			return false
		}
	}
	return true
}

// applyReset moves the stored position and the start of the next session to where the pending reset says, for as
// long as it takes.
func (p *partition) applyReset(running context.Context) bool {
	steps := p.group.config.ladder()
	for {
		reset := p.pendingReset()
		start, note, err := p.group.keeper.applyReset(running, p, reset)
		if err == nil {
			p.begin(start, note)
			p.log.Info("position reset", slog.String("position", start.String()))
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.reset == reset {
				p.reset = nil
			}
			return true
		}
		wait := steps.Next()
		if running.Err() == nil {
			p.status.trouble(CausePositions, err, wait)
		}
		if !Sleep(running, wait) {
			return false
		}
	}
}
