package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/backoff"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/wire"
)

// ErrGoexit is what Run returns after a callback ended its goroutine, as testing's FailNow does.
var ErrGoexit = errors.New("the handler called runtime.Goexit")

// Loop runs the partitions of one consumer.
type Loop struct {
	config    Config
	committer *committer
	fail      context.CancelCauseFunc // ends the run with an error for Run to return

	mu         sync.Mutex
	partitions []*partition       // including revoked ones, until Run ends
	launch     func(p *partition) // nil unless partitions run

	workers sync.WaitGroup
	readers sync.WaitGroup
	others  sync.WaitGroup
}

// NewLoop makes a loop that can run once.
func NewLoop(config Config) *Loop {
	loop := &Loop{config: config}
	for _, number := range config.Partitions {
		loop.partitions = append(loop.partitions, newPartition(loop, number))
	}
	loop.committer = newCommitter(loop)
	return loop
}

// Run processes the partitions until the context is cancelled, and then drains: reading stops, batches being delivered
// get DrainTimeout to finish, and positions are committed. It then returns nil, or the error of a verdict with
// ErrorFail, at most DrainTimeout and StopMargin after the cancellation. A call that has not returned by then, because
// it ignores its context, is logged and abandoned; it moves no position any more.
func (l *Loop) Run(ctx context.Context) error {
	// New batches begin only while running is alive; those being delivered may continue as long as working is.
	running, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	working, stopWorking := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWorking()
	l.fail = func(err error) { fail(failure{err}) }

	if l.locateAll(running) {
		l.launchAll(func(p *partition) {
			l.workers.Go(func() { p.failOnGoexit(func() { p.run(running, working) }) })
		})
		l.others.Go(func() { l.committer.run(running) })
		l.others.Go(func() { l.sample(running) })
		<-running.Done()
		l.launchAll(nil)
		l.drain(stopWorking) //nolint:contextcheck // the context is over, and positions are committed all the same
	}
	for _, p := range l.all() {
		p.status.stop(nil)
	}
	if failed, found := errors.AsType[failure](context.Cause(running)); found {
		return failed.error
	}
	return nil
}

// failure is the cause of a run that ended without a cancellation.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func (l *Loop) launchAll(launch func(p *partition)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.launch = launch
	if launch != nil {
		for _, p := range l.partitions {
			launch(p)
		}
	}
}

func (l *Loop) all() []*partition {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.partitions)
}

// Assign changes which partitions the loop runs, while it runs. New ones begin; those no longer assigned finish the
// batch being delivered and end; the others are not affected. On an error nothing has changed.
func (l *Loop) Assign(ctx context.Context, partitions []int) error {
	var added []*partition
	running := map[int]bool{}
	for _, p := range l.all() {
		running[p.number] = running[p.number] || !p.isRevoked()
	}
	for _, number := range partitions {
		if !running[number] {
			added = append(added, newPartition(l, number))
		}
	}
	if err := l.locate(ctx, added, true); err != nil {
		return err
	}
	revoked, err := l.assign(partitions, added)
	for _, p := range revoked {
		p.log.InfoContext(ctx, "partition revoked", slog.String("position", p.status.at().String()))
	}
	return err
}

func (l *Loop) assign(partitions []int, added []*partition) (revoked []*partition, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.launch == nil {
		return nil, errNotRunning
	}
	for _, p := range l.partitions {
		if !slices.Contains(partitions, p.number) && p.revoke() {
			revoked = append(revoked, p)
		}
	}
	for _, p := range added {
		l.partitions = append(l.partitions, p)
		l.launch(p)
	}
	return revoked, nil
}

// Status is a snapshot of the partitions, with the error that commits fail with and since when.
func (l *Loop) Status() (partitions []Status, failingSince time.Time, failing error) {
	for _, p := range l.all() {
		if !p.isRevoked() {
			partitions = append(partitions, p.status.snapshot())
		}
	}
	slices.SortFunc(partitions, func(a, b Status) int { return a.Partition - b.Partition })
	failingSince, failing = l.committer.lastError()
	return partitions, failingSince, failing
}

// locateAll finds where each partition begins, and retries until it has or the run ends.
func (l *Loop) locateAll(ctx context.Context) (located bool) {
	waits := l.config.backoff()
	var logged telemetry.LogLimiter
	for {
		err := l.locate(ctx, l.partitions, false)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		wait := waits.Next()
		for _, p := range l.partitions {
			p.status.positionsFailed(err, wait)
		}
		if logged.Allow() {
			l.config.Logger.ErrorContext(ctx, "redis unavailable at start", slog.Any("error", err))
		}
		if !backoff.Sleep(ctx, wait) {
			return false
		}
	}
}

var (
	// errNotRunning is what Assign returns before partitions run, and after.
	errNotRunning = errors.New("the partitions are not running")
	// errResetChanged makes the caller load the reset again.
	errResetChanged = errors.New("another reset came in between")
)

func (l *Loop) locate(ctx context.Context, partitions []*partition, late bool) error {
	numbers := make([]int, len(partitions))
	for i, p := range partitions {
		numbers[i] = p.number
	}
	stored, err := l.config.Store.Load(ctx, numbers)
	if err != nil {
		return err
	}
	for i, p := range partitions {
		var start wire.ID
		if reset := stored[i].Reset; reset != nil {
			l.committer.discard(p.number) // from an earlier assignment of the partition to this loop
			applied, err := l.config.Store.ApplyReset(ctx, p.number, *reset)
			if err != nil {
				return err
			}
			if !applied {
				return fmt.Errorf("apply reset of partition %d: %w", p.number, errResetChanged)
			}
			p.log.InfoContext(ctx, "position reset", slog.String("position", reset.Target.String()))
			start = reset.Target
		} else if start, err = l.config.Start(ctx, p.number, stored[i], late); err != nil {
			return fmt.Errorf("find the start of partition %d: %w", p.number, err)
		} else if !stored[i].Found && !start.IsZero() {
			l.committer.enqueue(p.number, start, "") // for an instance that is assigned the partition before any entry comes
		}
		if stored[i].Reset != nil || start != stored[i].ID {
			stored[i].Metadata = "" // it belongs to another position
		}
		p.begin(start, stored[i].Metadata)
	}
	return nil
}

// sample samples the tails of the streams, every sampleInterval.
func (l *Loop) sample(ctx context.Context) {
	for {
		for _, p := range l.all() {
			if !p.isRevoked() {
				p.sample(ctx)
			}
			if ctx.Err() != nil {
				return
			}
		}
		if !backoff.Sleep(ctx, sampleInterval) {
			return
		}
	}
}

// drain waits for the workers to finish their batches, commits the positions, and waits for the rest.
func (l *Loop) drain(stopWorking context.CancelFunc) {
	began := time.Now()
	remaining := func() time.Duration { return l.config.DrainTimeout + StopMargin - time.Since(began) }
	workers := done(&l.workers)
	if !within(workers, l.config.DrainTimeout) {
		stopWorking()
		within(workers, remaining()-flushMargin)
	}
	l.awaitReports(remaining() - flushMargin)
	l.committer.close(max(remaining(), flushMargin))
	rest := done(&l.readers, &l.others)
	clean := within(rest, remaining())
	if !clean {
		l.config.Logger.Warn("redis call still waiting after the drain timeout, abandoned")
	}
	var drained []int
	for _, p := range l.all() {
		drained = append(drained, p.number)
		if p.status.isDelivering() {
			clean = false
			p.log.Warn("handler still running after the drain timeout, abandoned")
		}
	}
	if clean {
		l.config.Logger.Info("drained", slog.Any("partitions", drained), slog.Duration("elapsed", time.Since(began)))
	}
}

// awaitReports waits for gaps that are being reported: what is stored about them must not come after the last commit.
func (l *Loop) awaitReports(limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for _, p := range l.all() {
		if p.reporting.lock(ctx) != nil {
			return
		}
		p.reporting.unlock()
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
