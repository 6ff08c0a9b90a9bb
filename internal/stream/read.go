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
	for {
		// A slot is taken before the read: no more than ReadAhead batches are in memory, whatever holds them up.
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		page, err := p.readOnce(ctx, after, block, &count, steps, &trouble)
		if err != nil {
			return
		}
		after = page.Last
		// Never blocks: there are as many places as slots.
		batches <- page
	}
}

// readOnce returns the next page that holds something. Its only error is that of the context.
func (p *partition) readOnce(ctx context.Context, after wire.ID, block time.Duration, count *int, steps Ladder, trouble *outage) (Page, error) {
	for {
		page, err := p.group.config.Source.Read(ctx, p.number, after, *count, block)
		if ctx.Err() != nil {
			return Page{}, ctx.Err()
		}
		if err != nil {
			if network, found := errors.AsType[net.Error](err); found && network.Timeout() {
				*count = max(1, *count/2) // a page too large for the time that the client gives a read would never come
			}
			wait := steps.Next()
			p.status.readFailed(err, wait)
			if trouble.attempts == 0 {
				p.group.config.Observer.ReadFailed(p.number)
			}
			if trouble.failed() {
				p.log.Error("redis read failing", slog.Any("error", err), slog.Duration("next", wait), slog.Int("attempts", trouble.attempts))
			}
			if !Sleep(ctx, wait) {
				return Page{}, ctx.Err()
			}
			continue
		}
		if trouble.attempts > 0 {
			if trouble.told {
				p.log.Info("redis read recovered", slog.Int("attempts", trouble.attempts), slog.Duration("elapsed", time.Since(trouble.since)))
			}
			trouble.over()
			steps.Reset()
		}
		*count = min(p.group.config.BatchSize, 2**count)
		p.status.readWorked(page)
		p.group.config.Observer.Read(p.number)
		if page.Read > 0 {
			return page, nil
		}
	}
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
