package stream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// read fills slots with batches until the context ends. It survives every error of the source.
func (p *partition) read(ctx context.Context, after wire.ID, slots chan<- struct{}, batches chan<- Page) {
	config := &p.group.config
	block := min(config.Block, maxBlock)
	steps := config.ladder()
	var trouble outage
	count := config.BatchSize
	var looks pace
	held := p.ledger.holding()
	for {
		// A slot is taken before the read: no more than ReadAhead batches are in memory, whatever holds them up.
		if !p.await(ctx, slots) {
			return
		}
		page := Page{gap: held}
		if held != nil {
			p.status.readWorked(Page{}, false) // as ready as it was when the hole was found: waiting does not change that
		} else {
			var err error
			if page, err = p.readOnce(ctx, after, block, &count, steps, &trouble, &looks); err != nil {
				return
			}
			after = page.Last
		}
		// Never blocks: there are as many places as slots.
		batches <- page
		if page.gap != nil {
			p.await(ctx, nil) // nothing is read until a reset, and the hole may grow
			return
		}
	}
}

// readOnce returns the next page that holds something. Its only error is that of the context.
func (p *partition) readOnce(ctx context.Context, after wire.ID, block time.Duration, count *int, steps Ladder, trouble *outage, looks *pace) (Page, error) {
	for {
		wait, asked := block, *count
		look := looks.due()
		if look {
			wait = 0
		}
		page, err := p.group.config.Source.Read(ctx, p.number, after, asked, wait)
		if ctx.Err() != nil {
			return Page{}, ctx.Err()
		}
		if err != nil {
			if network, found := errors.AsType[net.Error](err); found && network.Timeout() {
				*count = max(1, *count/2) // a page too large for the time that the client gives a read would never come
			}
			looks.failed()
			wait := steps.Next()
			p.tellOutage(ctx, err, wait, trouble)
			if !Sleep(ctx, wait) {
				return Page{}, ctx.Err()
			}
			continue
		}
		if trouble.attempts > 0 {
			p.tellRecovery(ctx, trouble)
			steps.Reset()
		}
		*count = min(p.group.config.BatchSize, 2**count)
		looks.worked(look, page.Read >= asked)
		if look {
			if gap := p.lookAt(ctx, page, page.Read < asked); gap != nil {
				p.status.readWorked(Page{}, false)
				return Page{gap: gap}, nil
			}
		}
		p.ledger.took(page)
		p.status.readWorked(page, page.Read >= asked)
		p.group.config.Observer.Read(p.number)
		if page.Read > 0 {
			return page, nil
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
