package stream

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// lookAfter is how long a reader may have been away from the stream, held or cut off, and still take it for granted that
// nothing was trimmed that it has not read.
const lookAfter = time.Second

// pace says which reads look for holes: the first, each one while the reader is behind, the first after it was away,
// and now and then one of an idle reader. They cost no round trip more. All others are plain reads.
type pace struct {
	behind bool
	read   time.Time // last
	looked time.Time
}

func (l *pace) due() bool {
	return l.behind || time.Since(l.read) > lookAfter || time.Since(l.looked) >= sampleInterval
}

// failed notes a read that did not work: what it may have brought is not here.
func (l *pace) failed() { l.behind = true }

// worked notes one that did, and whether it brought as much as it asked for.
func (l *pace) worked(look, full bool) {
	l.read, l.behind = time.Now(), full
	if look {
		l.looked = l.read
	}
}

// await waits for a slot, for ever when there are none to be had, and looks for holes meanwhile: what is held for hours is
// what loses entries.
func (p *partition) await(ctx context.Context, slots chan<- struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case slots <- struct{}{}:
		return true
	default:
	}
	ticker := time.NewTicker(sampleInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case slots <- struct{}{}:
			return true
		case <-ticker.C:
			// On an error the reads run into the same, and report it.
			if tail, err := p.group.config.Source.Tail(ctx, p.number); err == nil && ctx.Err() == nil {
				p.look(ctx, tail, 0, false)
			}
		}
	}
}

// lookAt looks for a hole before what was read, and returns one that holds the partition.
func (p *partition) lookAt(ctx context.Context, answer *Answer, all bool) *Gap {
	if answer.Tail != nil {
		p.look(ctx, *answer.Tail, answer.Read(), all)
	} else if p.blind.Now() {
		p.log.WarnContext(ctx, "entries that vanish unread are not noticed", slog.Any("error", answer.Blind))
	}
	return p.ledger.holding()
}

// look looks for a hole where the reader stands. One that is found is reported, and then noted in the store: a crash in
// between reports it twice rather than never.
func (p *partition) look(ctx context.Context, tail Tail, read int, all bool) {
	p.telling <- struct{}{}
	defer func() { <-p.telling }()
	next, gap := p.ledger.look(tail, read, all, p.group.config.GapHold)
	if gap != nil {
		p.status.gap(*gap, next.standing)
		if p.group.config.Gap != nil {
			p.group.config.Gap(ctx, p.number, *gap)
		}
	} else if p.ledger.outside(tail) && !p.outside {
		p.outside = true
		p.log.WarnContext(ctx, "position is ahead of the stream, which is not read up to there",
			slog.String("position", p.status.at().String()), slog.String("last", tail.Last.String()))
	}
	p.ledger.settle(next, p.record)
}

// record notes a position to be written.
func (p *partition) record(position wire.ID, note string) {
	p.group.keeper.record(p.number, position, note)
}

// holdFor holds the partition for a hole, until its position is reset or the run ends.
func (p *partition) holdFor(reading context.Context) {
	gap := p.ledger.holding()
	err := errors.New(gap.String())
	p.status.hold(Blocked{Since: gap.At, Attempts: 1, Cause: CauseGap, Err: err, Detail: *gap})
	for again := true; again; again = Sleep(reading, logInterval) {
		p.log.ErrorContext(reading, "blocked", slog.String("position", p.status.at().String()), slog.String("cause", CauseGap),
			slog.Duration("elapsed", time.Since(gap.At)), slog.Any("error", err))
	}
}
