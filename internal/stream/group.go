package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// ErrGoexit is how Run ends when delivered-to code ended its goroutine, as testing's FailNow does.
var ErrGoexit = errors.New("the handler called runtime.Goexit")

// Group runs the partitions of one consumer.
type Group struct {
	config     Config
	partitions []*partition
	keeper     *keeper

	fail context.CancelCauseFunc // ends the reading with an error for Run to return

	workers sync.WaitGroup
	readers sync.WaitGroup
	others  sync.WaitGroup
}

// NewGroup prepares a run. A group runs once.
func NewGroup(config Config) *Group {
	group := &Group{config: config, partitions: make([]*partition, len(config.Partitions))}
	for i, number := range config.Partitions {
		group.partitions[i] = newPartition(group, number)
	}
	group.keeper = newKeeper(group)
	return group
}

// Run processes the partitions until the context is cancelled, and then drains: reading stops, the batch in hand
// gets DrainTimeout to finish, and positions are written. It returns nil after that, at most DrainTimeout and a
// second after the cancellation, or the error of a Verdict to Fail. What has not ended by then, because it heeds
// no context, is left behind and told to the log; it moves no position any more.
func (g *Group) Run(ctx context.Context) error {
	// New batches are wanted while reading is alive; the one in hand may take as long as working is.
	reading, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	working, stopWorking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorking()
	g.fail = func(err error) { fail(failure{err}) }

	if g.locate(reading) {
		for _, p := range g.partitions {
			g.workers.Go(func() { p.run(reading, working) })
		}
		g.others.Go(func() { g.keeper.run(reading) })
		g.others.Go(func() { g.sample(reading) })
		<-reading.Done()
		g.drain(stopWorking) //nolint:contextcheck // the context is over, and positions are written all the same
	}
	for _, p := range g.partitions {
		p.status.stop(nil)
	}
	if failed, found := errors.AsType[failure](context.Cause(reading)); found {
		return failed.error
	}
	return nil
}

// failure is the cause of a reading that no cancellation ended.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// Status tells how each partition is doing, and since when positions cannot be written, and why.
func (g *Group) Status() (partitions []Status, failingSince time.Time, failing error) {
	partitions = make([]Status, len(g.partitions))
	for i, p := range g.partitions {
		partitions[i] = p.status.snapshot()
	}
	failingSince, failing = g.keeper.trouble()
	return partitions, failingSince, failing
}

// locate finds where each partition begins, for as long as it takes.
func (g *Group) locate(ctx context.Context) bool {
	steps := g.config.ladder()
	var logged seldom
	for {
		err := g.locateOnce(ctx)
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		wait := steps.next()
		for _, p := range g.partitions {
			p.status.trouble(CauseRead, err, wait)
		}
		if logged.now() {
			g.config.Logger.ErrorContext(ctx, "redis unavailable at start", slog.Any("error", err))
		}
		if !sleep(ctx, wait) {
			return false
		}
	}
}

func (g *Group) locateOnce(ctx context.Context) error {
	stored, err := g.config.Store.Load(ctx, g.config.Partitions)
	if err != nil {
		return err
	}
	for i, p := range g.partitions {
		if reset := stored[i].Reset; reset != nil {
			if _, err := g.config.Store.ApplyReset(ctx, p.number, *reset); err != nil {
				return err
			}
			g.config.Logger.InfoContext(ctx, "position reset", slog.Int("partition", p.number), slog.String("position", reset.Target.String()))
			p.begin(reset.Target)
			continue
		}
		start, err := g.config.Start(ctx, p.number, stored[i])
		if err != nil {
			return fmt.Errorf("find the start of partition %d: %w", p.number, err)
		}
		p.begin(start)
	}
	return nil
}

// drain waits for the workers to finish what they have in hand, writes the positions, and waits for the rest.
func (g *Group) drain(stopWorking context.CancelFunc) {
	began := time.Now()
	left := func() time.Duration { return g.config.DrainTimeout + stopMargin - time.Since(began) }
	workers := done(&g.workers)
	if !within(workers, g.config.DrainTimeout) {
		stopWorking()
		within(workers, left()-flushMargin)
	}
	g.keeper.close(max(left(), flushMargin))
	rest := done(&g.readers, &g.others)
	if !within(rest, left()) {
		g.config.Logger.Warn("redis call still waiting after the drain timeout, left behind")
	}
	for _, p := range g.partitions {
		if p.status.inHand() {
			p.log.Warn("handler still running after the drain timeout, left behind")
		}
	}
}

func done(groups ...*sync.WaitGroup) <-chan struct{} {
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		for _, group := range groups {
			group.Wait()
		}
	}()
	return finished
}

func within(finished <-chan struct{}, wait time.Duration) bool {
	select {
	case <-finished:
		return true
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-finished:
		return true
	case <-timer.C:
		return false
	}
}
