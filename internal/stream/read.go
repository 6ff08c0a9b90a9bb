package stream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

const (
	// readEntries and readBytes are how much one read of more than one batch asks for: the server answers nobody else
	// meanwhile, and the answer is in memory twice for a moment. Longer ones gain little.
	readEntries = 1000
	readBytes   = 256 << 10
)

// reader is the reading half of a session.
type reader struct {
	*partition

	limit   int // entries to ask for at once
	size    int // bytes of an entry of the last answer, on the average
	steps   Ladder
	trouble outage
	looks   pace
}

// read fills slots with batches until the context ends. It survives every error of the source.
func (p *partition) read(ctx context.Context, after wire.ID, slots chan struct{}, batches chan<- Page) {
	config := &p.group.config
	r := reader{partition: p, limit: config.BatchSize * config.ReadAhead, steps: config.ladder()}
	held := p.ledger.holding()
	for {
		// Slots are taken before the read: no more than ReadAhead batches are in memory, whatever holds them up.
		taken, going := r.reserve(ctx, slots)
		if !going {
			return
		}
		var pages []Page
		if held != nil {
			p.status.readWorked(nil, false) // as ready as it was when the hole was found: waiting does not change that
			pages = []Page{{gap: held}}
		} else {
			var err error
			if pages, err = r.next(ctx, after, taken); err != nil {
				return
			}
		}
		for range taken - len(pages) {
			<-slots
		}
		for _, page := range pages {
			batches <- page // never blocks: there are as many places as slots
			if page.gap != nil {
				p.await(ctx, nil) // nothing is read until a reset, and the hole may grow
				return
			}
			after = page.Last
		}
	}
}

// reserve takes a slot for the next read. A reader that is behind takes all that are free: a round trip for several
// batches costs little more than for one.
func (r *reader) reserve(ctx context.Context, slots chan<- struct{}) (taken int, going bool) {
	if !r.await(ctx, slots) {
		return 0, false
	}
	most := 1
	if r.looks.behind {
		most = r.batches()
	}
	for taken = 1; taken < most; taken++ {
		select {
		case slots <- struct{}{}:
		default:
			return taken, true
		}
	}
	return taken, true
}

// batches is how many a read may ask for.
func (r *reader) batches() int {
	config := &r.group.config
	return max(1, min(config.ReadAhead, readEntries/config.BatchSize, readBytes/config.BatchSize/max(1, r.size)))
}

// next returns the next pages, one at least and at most so many as asked for. Its only error is that of the context.
func (r *reader) next(ctx context.Context, after wire.ID, batches int) ([]Page, error) {
	config := &r.group.config
	for {
		ask := Ask{After: after, Count: min(r.limit, batches*config.BatchSize), Batch: config.BatchSize, Block: min(config.Block, maxBlock)}
		look := r.looks.due()
		if look {
			ask.Block = 0
		}
		answer, err := config.Source.Read(ctx, r.number, ask)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			if network, found := errors.AsType[net.Error](err); found && network.Timeout() {
				r.limit = max(1, ask.Count/2) // an answer too large for the time that the client gives a read would never come
			}
			r.looks.failed()
			wait := r.steps.Next()
			r.tellOutage(ctx, err, wait, &r.trouble)
			if !Sleep(ctx, wait) {
				return nil, ctx.Err()
			}
			continue
		}
		if r.trouble.attempts > 0 {
			r.tellRecovery(ctx, &r.trouble)
			r.steps.Reset()
		}
		r.limit = min(config.BatchSize*config.ReadAhead, 2*r.limit)
		full := answer.Read() >= ask.Count
		r.looks.worked(look, full)
		if look {
			if gap := r.lookAt(ctx, &answer, !full); gap != nil {
				r.status.readWorked(nil, false)
				return []Page{{gap: gap}}, nil
			}
		}
		r.ledger.took(answer.Pages)
		r.status.readWorked(answer.Pages, full)
		config.Observer.Read(r.number)
		if len(answer.Pages) > 0 {
			r.size = answer.Bytes / answer.Read()
			return answer.Pages, nil
		}
	}
}

// tellOutage tells of a read that failed.
func (p *partition) tellOutage(ctx context.Context, err error, wait time.Duration, trouble *outage) {
	p.status.readFailed(err, wait)
	if trouble.attempts == 0 {
		p.group.config.Observer.ReadFailed(p.number)
	}
	if trouble.failed() {
		p.log.ErrorContext(ctx, "redis read failing", slog.Any("error", err), slog.Duration("next", wait), slog.Int("attempts", trouble.attempts))
	}
}

// tellRecovery tells of the first read that worked again.
func (p *partition) tellRecovery(ctx context.Context, trouble *outage) {
	if trouble.told {
		p.log.InfoContext(ctx, "redis read recovered", slog.Int("attempts", trouble.attempts), slog.Duration("elapsed", time.Since(trouble.since)))
	}
	trouble.over()
}

// outage counts what goes wrong in a row, and says when that is worth a line in the log: seldom, even when one
// outage follows the other.
type outage struct {
	attempts int
	since    time.Time
	told     bool // the log knows of this one
	logged   Seldom
}

func (o *outage) failed() (log bool) {
	if o.attempts == 0 {
		o.since = time.Now()
	}
	o.attempts++
	log = o.logged.Now()
	o.told = o.told || log
	return log
}

func (o *outage) over() { *o = outage{logged: o.logged} }
