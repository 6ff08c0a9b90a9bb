package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redisevents/restatestart/internal/bench/blocked"
	"github.com/redisevents/restatestart/internal/bench/child"
	"github.com/redisevents/restatestart/internal/bench/contender"
	"github.com/redisevents/restatestart/internal/bench/report"
)

// handle counts allocations, exactly, of one batch over and over.
func (b *bench) handle(ctx context.Context) error {
	const name = "handle"
	d, err := b.compare(ctx, name, nowhere{}, contestant{contender.Handle, contender.Task{Name: contender.Handle}})
	if err != nil {
		return err
	}
	beyond := d.each(contender.Handle, func(f contender.Figures) float64 {
		return f.Values[contender.HandleAllocs] - f.Values[contender.BareAllocs]
	})
	b.add(name, "Handle on a canned RoundTripper: allocations per kept message, beyond the bare net/http request", report.AtMost(12), report.Of(beyond), "")
	b.add(name, "the bare net/http request: allocations", report.Target{}, d.value(contender.Handle, contender.BareAllocs), "")
	return nil
}

// heap measures the memory held while nothing can be started. One run is enough: its time is virtual.
func (b *bench) heap(ctx context.Context) (err error) {
	const name, shortest = "heap", 10 * time.Minute
	process, err := child.Start(roleBlocked, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, process.Close()) }()
	ctx, cancel := context.WithTimeoutCause(ctx, roundLimit, fmt.Errorf("no end within %s", roundLimit))
	defer cancel()
	setup := blocked.Setup{
		Partitions: 16, Waiting: 1_000_000, EntrySize: 1 << 10, Blocked: max(shortest, time.Duration(b.scale*float64(time.Hour))),
	}
	var held blocked.Held
	if err := process.Call(ctx, setup, &held); err != nil {
		return err
	}
	most := float64(held.Most) / (1 << 20)
	what := fmt.Sprintf("heap while blocked for %.0f min (virtual), %d entries of 1 KiB waiting in %d partitions",
		setup.Blocked.Minutes(), setup.Waiting, setup.Partitions)
	b.add(name, what, report.AtMost(float64(held.Allowed)/(1<<20)), report.Spread{Value: most, Min: most, Max: most}, " MiB")
	return nil
}
