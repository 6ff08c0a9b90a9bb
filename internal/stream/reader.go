package stream

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/redisevents/restatestart/internal/backoff"
	"github.com/redisevents/restatestart/internal/wire"
)

const (
	// readEntries and readBytes bound a read of several batches: the server serves nobody else meanwhile, and the reply
	// is briefly in memory twice. Larger reads gain little.
	readEntries = 1000
	readBytes   = 256 << 10
)

// reader is the reading half of a session.
type reader struct {
	*partition

	limit     int // entries to request at most
	entrySize int // average bytes of an entry in the last answer
	waits     backoff.Backoff
	outage    outage
	probes    probeSchedule
}

func newReader(p *partition) *reader {
	config := &p.loop.config
	return &reader{partition: p, limit: config.BatchSize * config.ReadAhead, waits: config.backoff()}
}

// run fills slots with pages until the context ends. It survives every error of the source.
func (r *reader) run(ctx context.Context, after wire.ID, slots chan struct{}, pages chan<- Page) {
	held := r.gaps.holding()
	for {
		// Slots are taken before the read, so that no more than ReadAhead batches are ever in memory.
		taken, ok := r.reserve(ctx, slots)
		if !ok {
			return
		}
		var next []Page
		if held != nil {
			r.status.readWorked(nil, false) // as ready as when the gap was found: waiting does not change that
			next = []Page{{gap: held}}
		} else {
			var err error
			if next, err = r.next(ctx, after, taken); err != nil {
				return
			}
		}
		for range taken - len(next) {
			<-slots
		}
		for _, page := range next {
			pages <- page // never blocks: there are as many places as slots
			if page.gap != nil {
				r.awaitSlot(ctx, nil) // nothing is read until a reset, and the gap may grow
				return
			}
			after = page.Last
		}
	}
}

// reserve takes slots for the next read. A reader that is behind takes all that are free: a round trip for several
// batches costs little more than for one.
func (r *reader) reserve(ctx context.Context, slots chan<- struct{}) (taken int, ok bool) {
	if !r.awaitSlot(ctx, slots) {
		return 0, false
	}
	limit := 1
	if r.probes.behind {
		limit = r.maxBatches()
	}
	for taken = 1; taken < limit; taken++ {
		select {
		case slots <- struct{}{}:
		default:
			return taken, true
		}
	}
	return taken, true
}

// awaitSlot takes a slot, and checks for gaps while it waits: a partition held for hours is the one that loses entries.
// With nil slots it waits until the context ends.
func (r *reader) awaitSlot(ctx context.Context, slots chan<- struct{}) (ok bool) {
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
			r.checkTail(ctx)
		}
	}
}

// maxBatches is how many batches one read may request.
func (r *reader) maxBatches() int {
	config := &r.loop.config
	return max(1, min(config.ReadAhead, readEntries/config.BatchSize, readBytes/config.BatchSize/max(1, r.entrySize)))
}

// next returns the next pages, at least one and at most as many as there are batches. Its only error is the context's.
func (r *reader) next(ctx context.Context, after wire.ID, batches int) ([]Page, error) {
	config := &r.loop.config
	for {
		request := ReadRequest{After: after, Count: min(r.limit, batches*config.BatchSize), Batch: config.BatchSize, Block: min(config.Block, maxBlock)}
		probe := r.probes.due()
		if probe {
			request.Block = 0
		}
		result, err := config.Source.Read(ctx, r.number, request)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			if network, found := errors.AsType[net.Error](err); found && network.Timeout() {
				r.limit = max(1, request.Count/2) // an answer too large for the client's read timeout would never arrive
			}
			if !backoff.Sleep(ctx, r.failed(ctx, err)) {
				return nil, ctx.Err()
			}
			continue
		}
		if r.outage.recovered(ctx, r.log, "redis read recovered") {
			r.waits.Reset()
		}
		r.limit = min(config.BatchSize*config.ReadAhead, 2*r.limit)
		full := result.Read() >= request.Count
		r.probes.readWorked(probe, full)
		if probe {
			if gap := r.checkRead(ctx, &result, !full); gap != nil {
				r.status.readWorked(nil, false)
				return []Page{{gap: gap}}, nil
			}
		}
		r.gaps.addRead(result.Pages)
		r.status.readWorked(result.Pages, full)
		config.Observer.Read(r.number)
		if len(result.Pages) > 0 {
			r.entrySize = result.Bytes / result.Read()
			return result.Pages, nil
		}
	}
}

// checkRead checks for a gap before the entries of a probe, and returns one that holds the partition.
func (r *reader) checkRead(ctx context.Context, result *ReadResult, all bool) *Gap {
	if result.Tail != nil {
		r.checkGap(ctx, *result.Tail, result.Read(), all)
	} else if r.undetected.Allow() {
		r.log.WarnContext(ctx, "gap detection unavailable", slog.Any("error", result.TailErr))
	}
	return r.gaps.holding()
}

// failed records a failed read and returns how long to wait before the next.
func (r *reader) failed(ctx context.Context, err error) (wait time.Duration) {
	r.probes.readFailed()
	wait = r.waits.Next()
	r.status.readFailed(err, wait)
	if r.outage.attempts == 0 {
		r.loop.config.Observer.ReadFailed(r.number)
	}
	if r.outage.failed() {
		r.log.ErrorContext(ctx, "redis read failing", slog.Any("error", err), slog.Duration("next", wait), slog.Int("attempts", r.outage.attempts))
	}
	return wait
}
