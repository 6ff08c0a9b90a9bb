package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"
)

// fleet is the instances of one consumer. Each is a process, or two for a while, and is replaced when it is ended.
type fleet struct {
	directory string
	config    func(index, number int) consumerConfig
	instances []*instance

	mu       sync.Mutex
	started  []*process
	ended    map[string]int // by how
	problems []string
	longest  time.Duration // from SIGTERM to the end
	leaving  sync.WaitGroup
}

// instance is one share of the partitions.
type instance struct {
	index int

	mu        sync.Mutex // held while it changes
	processes []*process // oldest first
}

// newFleet starts an instance for each share.
func newFleet(directory string, count int, config func(index, number int) consumerConfig) (*fleet, error) {
	f := &fleet{directory: directory, config: config, ended: map[string]int{}}
	for index := range count {
		one := &instance{index: index}
		f.instances = append(f.instances, one)
		if err := f.launch(one); err != nil {
			return f, err
		}
	}
	return f, nil
}

// launch starts one more process of an instance. It is called with the instance held, or before anybody else knows it.
func (f *fleet) launch(one *instance) error {
	f.mu.Lock()
	number := len(f.started)
	f.mu.Unlock()
	p, err := start(f.config(one.index, number), f.directory, number)
	if err != nil {
		return fmt.Errorf("start a consumer: %w", err)
	}
	f.mu.Lock()
	f.started = append(f.started, p)
	f.mu.Unlock()
	one.processes = append(one.processes, p)
	return nil
}

// kill kills the oldest process of an instance, and starts another after a while.
func (f *fleet) kill(ctx context.Context, index int, pause time.Duration) error {
	one := f.instances[index]
	one.mu.Lock()
	defer one.mu.Unlock()
	p := f.takeOldest(one)
	p.signal(syscall.SIGKILL)
	<-p.ended
	f.buried(p, "killed", p.ending() == syscall.SIGKILL.String())
	rest(ctx, pause)
	if len(one.processes) > 0 {
		return nil
	}
	return f.launch(one)
}

// term asks the oldest process of an instance to end, and starts another at once.
func (f *fleet) term(index int) error {
	one := f.instances[index]
	one.mu.Lock()
	defer one.mu.Unlock()
	f.dismiss(f.takeOldest(one), "terminated")
	if len(one.processes) > 0 {
		return nil
	}
	return f.launch(one)
}

// roll is a rolling deploy: the next process is there before the last one is asked to end.
func (f *fleet) roll(ctx context.Context, index int, overlap time.Duration) error {
	one := f.instances[index]
	one.mu.Lock()
	defer one.mu.Unlock()
	if err := f.launch(one); err != nil {
		return err
	}
	f.leaving.Go(func() {
		rest(ctx, overlap)
		one.mu.Lock()
		defer one.mu.Unlock()
		if len(one.processes) > 1 { // the other may have been killed
			f.dismiss(f.takeOldest(one), "rolled")
		}
	})
	return nil
}

// zombie freezes the oldest process of an instance, has another take its place, and lets it go on for a moment before it
// is asked to end.
func (f *fleet) zombie(ctx context.Context, index int, frozen time.Duration) error {
	one := f.instances[index]
	one.mu.Lock()
	defer one.mu.Unlock()
	p := f.takeOldest(one)
	p.signal(syscall.SIGSTOP)
	f.leaving.Go(func() {
		rest(ctx, frozen)
		p.signal(syscall.SIGCONT)
		rest(ctx, zombieTime)
		f.dismiss(p, "frozen")
	})
	if len(one.processes) > 0 {
		return nil
	}
	return f.launch(one)
}

// zombieTime is how long a process that was frozen may do what it had in hand.
const zombieTime = 500 * time.Millisecond

func (f *fleet) takeOldest(one *instance) *process {
	p := one.processes[0]
	one.processes = slices.Clone(one.processes[1:])
	return p
}

// stopLimit is how long a process may take to end: what the library promises, and the rest for a busy machine.
const stopLimit = drainTimeout + time.Second + 4*time.Second

// startTime is how long a process may take until it heeds signals.
const startTime = 4 * time.Second

// dismiss asks a process to end, and looks whether it does, and how.
func (f *fleet) dismiss(p *process, how string) {
	asked := time.Now()
	p.signal(syscall.SIGTERM)
	f.leaving.Go(func() {
		if !p.await(stopLimit) {
			f.problem(fmt.Sprintf("%s did not end within %s of SIGTERM", p, stopLimit))
			p.signal(syscall.SIGKILL)
			<-p.ended
		}
		f.mu.Lock()
		f.longest = max(f.longest, p.at.Sub(asked))
		f.mu.Unlock()
		early := p.ending() == syscall.SIGTERM.String() && asked.Sub(p.started) < startTime
		f.buried(p, how, p.ending() == "exit code 0" || early)
	})
}

// buried counts a process that has ended, and notes what was wrong with it.
func (f *fleet) buried(p *process, how string, proper bool) {
	if !proper {
		f.problem(fmt.Sprintf("%s, to be %s, ended with %s:\n%s", p, how, p.ending(), p.tail(10)))
	}
	if complaint := p.complaint(); complaint != "" {
		f.problem(fmt.Sprintf("%s wrote:\n%s", p, complaint))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended[how]++
}

func (f *fleet) problem(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems = append(f.problems, text)
}

// finished is how a process ended when the run did.
const finished = "finished"

// finish asks all that is left to end, and waits for it.
func (f *fleet) finish() {
	for _, one := range f.instances {
		one.mu.Lock()
		for _, p := range one.processes {
			f.dismiss(p, finished)
		}
		one.processes = nil
		one.mu.Unlock()
	}
	f.leaving.Wait()
}

// destroy kills whatever runs, for a test that ends early.
func (f *fleet) destroy() {
	f.mu.Lock()
	all := slices.Clone(f.started)
	f.mu.Unlock()
	for _, p := range all {
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
	f.leaving.Wait()
}

// aliveAt are the processes that ran at that time.
func (f *fleet) aliveAt(at time.Time) []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	var alive []*process
	for _, p := range f.started {
		if p.alive(at) {
			alive = append(alive, p)
		}
	}
	return alive
}

// told is what became of the processes, and what was wrong.
func (f *fleet) told() (ended map[string]int, longest time.Duration, problems []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.ended), f.longest, slices.Clone(f.problems)
}
