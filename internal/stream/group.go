package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// ErrGoexit is how Run ends when delivered-to code ended its goroutine, as testing's FailNow does.
var ErrGoexit = errors.New("the handler called runtime.Goexit")

// Group runs the partitions of one consumer.
type Group struct {
	config Config
	keeper *keeper
	fail   context.CancelCauseFunc // ends the reading with an error for Run to return

	mu         sync.Mutex
	partitions []*partition       // those that were let go included, until Run ends
	launch     func(p *partition) // nil before there is anything to launch it in, and once the drain has begun

	workers sync.WaitGroup
	readers sync.WaitGroup
	others  sync.WaitGroup
}

// NewGroup prepares a run. A group runs once.
func NewGroup(config Config) *Group {
	group := &Group{config: config}
	for _, number := range config.Partitions {
		group.partitions = append(group.partitions, newPartition(group, number))
	}
	group.keeper = newKeeper(group)
	return group
}

// Run processes the partitions until the context is cancelled, and then drains: reading stops, the batch in hand
// gets DrainTimeout to finish, and positions are written. It returns nil after that, at most DrainTimeout and
// StopMargin after the cancellation, or the error of a Verdict to Fail. What has not ended by then, because it
// heeds no context, is left behind and told to the log; it moves no position any more.
func (g *Group) Run(ctx context.Context) error {
	// New batches are wanted while reading is alive; the one in hand may take as long as working is.
	reading, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	working, stopWorking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorking()
	g.fail = func(err error) { fail(failure{err}) }

	if g.locate(reading) {
		g.launchAll(func(p *partition) { g.workers.Go(func() { p.run(reading, working) }) })
		g.others.Go(func() { g.keeper.run(reading) })
		g.others.Go(func() { g.sample(reading) })
		<-reading.Done()
		g.launchAll(nil)
		g.drain(stopWorking) //nolint:contextcheck // the context is over, and positions are written all the same
	}
	for _, p := range g.all() {
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

func (g *Group) launchAll(launch func(p *partition)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.launch = launch
	if launch != nil {
		for _, p := range g.partitions {
			launch(p)
		}
	}
}

func (g *Group) all() []*partition {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.partitions)
}

// Assign changes which partitions the group runs, while it runs. Those that are new begin; those that are not
// wanted any more finish what they have in hand and end; the others notice nothing. On an error nothing has changed.
func (g *Group) Assign(ctx context.Context, partitions []int) error {
	var added []*partition
	running := map[int]bool{}
	for _, p := range g.all() {
		running[p.number] = running[p.number] || !p.letGo()
	}
	for _, number := range partitions {
		if !running[number] {
			added = append(added, newPartition(g, number))
		}
	}
	if err := g.locateOnce(ctx, added, true); err != nil {
		return err
	}
	retired, err := g.assign(partitions, added)
	for _, p := range retired {
		p.log.InfoContext(ctx, "partition let go", slog.String("position", p.status.at().String()))
	}
	return err
}

// assign does it, and returns the partitions that were let go.
func (g *Group) assign(partitions []int, added []*partition) (retired []*partition, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.launch == nil {
		return nil, errNotRunning
	}
	for _, p := range g.partitions {
		if !slices.Contains(partitions, p.number) && p.retire() {
			retired = append(retired, p)
		}
	}
	for _, p := range added {
		g.partitions = append(g.partitions, p)
		g.launch(p)
	}
	return retired, nil
}

// Status tells how each partition is doing, and since when positions cannot be written, and why.
func (g *Group) Status() (partitions []Status, failingSince time.Time, failing error) {
	for _, p := range g.all() {
		if !p.letGo() {
			partitions = append(partitions, p.status.snapshot())
		}
	}
	slices.SortFunc(partitions, func(a, b Status) int { return a.Partition - b.Partition })
	failingSince, failing = g.keeper.trouble()
	return partitions, failingSince, failing
}

// locate finds where each partition begins, for as long as it takes.
func (g *Group) locate(ctx context.Context) bool {
	steps := g.config.ladder()
	var logged Seldom
	for {
		err := g.locateOnce(ctx, g.partitions, false)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		wait := steps.Next()
		for _, p := range g.partitions {
			p.status.trouble(CausePositions, err, wait)
		}
		if logged.Now() {
			g.config.Logger.ErrorContext(ctx, "redis unavailable at start", slog.Any("error", err))
		}
		if !Sleep(ctx, wait) {
			return false
		}
	}
}

// errNotRunning is what Assign returns before partitions run, and after.
var errNotRunning = errors.New("the partitions are not running")

// errResetChanged makes locate look again.
var errResetChanged = errors.New("another reset came in between")

func (g *Group) locateOnce(ctx context.Context, partitions []*partition, late bool) error {
	numbers := make([]int, len(partitions))
	for i, p := range partitions {
		numbers[i] = p.number
	}
	stored, err := g.config.Store.Load(ctx, numbers)
	if err != nil {
		return err
	}
	for i, p := range partitions {
		var start wire.ID
		if reset := stored[i].Reset; reset != nil {
			g.keeper.forget(p.number) // of when it was this group's before
			applied, err := g.config.Store.ApplyReset(ctx, p.number, *reset)
			if err != nil {
				return err
			}
			if !applied {
				return fmt.Errorf("apply reset of partition %d: %w", p.number, errResetChanged)
			}
			p.log.InfoContext(ctx, "position reset", slog.String("position", reset.Target.String()))
			start = reset.Target
		} else if start, err = g.config.Start(ctx, p.number, stored[i], late); err != nil {
			return fmt.Errorf("find the start of partition %d: %w", p.number, err)
		} else if !stored[i].Found && !start.IsZero() {
			g.keeper.record(p.number, start, "") // for another instance that takes the partition over before anything comes
		}
		if stored[i].Reset != nil || start != stored[i].ID {
			stored[i].Note = "" // it is about another position
		}
		p.begin(start, stored[i].Note)
	}
	return nil
}

// drain waits for the workers to finish what they have in hand, writes the positions, and waits for the rest.
func (g *Group) drain(stopWorking context.CancelFunc) {
	began := time.Now()
	left := func() time.Duration { return g.config.DrainTimeout + StopMargin - time.Since(began) }
	workers := done(&g.workers)
	if !within(workers, g.config.DrainTimeout) {
		stopWorking()
		within(workers, left()-flushMargin)
	}
	g.awaitTold(left() - flushMargin)
	g.keeper.close(max(left(), flushMargin))
	rest := done(&g.readers, &g.others)
	clean := within(rest, left())
	var drained []int
	if !clean {
		g.config.Logger.Warn("redis call still waiting after the drain timeout, left behind")
	}
	for _, p := range g.all() {
		drained = append(drained, p.number)
		if p.status.inHand() {
			clean = false
			p.log.Warn("handler still running after the drain timeout, left behind")
		}
	}
	if clean {
		g.config.Logger.Info("drained", slog.Any("partitions", drained), slog.Duration("elapsed", time.Since(began)))
	}
}

// awaitTold waits for holes to be told that are being told now.
func (g *Group) awaitTold(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, p := range g.all() {
		select {
		case p.telling <- struct{}{}:
			<-p.telling
		case <-timer.C:
			return
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
