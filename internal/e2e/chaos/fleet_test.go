package chaos_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/kit"
)

const (
	// stopLimit is how long a process may take to end: what the library promises, and the rest for a busy machine.
	stopLimit = drainTimeout + time.Second + 4*time.Second
	// startTime is how long a process may take until it honours signals.
	startTime = 4 * time.Second
	// zombieTime is how long a process that was frozen may continue with what it had in flight.
	zombieTime = 500 * time.Millisecond
	// finished is how a process ended when the run did.
	finished = "finished"
)

// fleet is the instances of one consumer. Each is a process, or two for a while, and is replaced when it ends.
type fleet struct {
	directory string
	config    func(index, number int) consumerConfig
	instances []*instance

	mu       sync.Mutex
	started  []*kit.Process
	ended    map[string]int // by how; read it once the fleet has finished
	problems []string
	longest  time.Duration // from SIGTERM to the end
	leaving  sync.WaitGroup
}

// instance is one share of the partitions.
type instance struct {
	index int

	mu        sync.Mutex     // held while it changes
	processes []*kit.Process // oldest first
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

// launch starts another process of an instance, whose lock is held.
func (f *fleet) launch(one *instance) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	number := len(f.started)
	p, err := kit.StartProcess(f.config(one.index, number), filepath.Join(f.directory, fmt.Sprintf("consumer-%04d.log", number)))
	if err != nil {
		return fmt.Errorf("start a consumer: %w", err)
	}
	f.started = append(f.started, p)
	one.processes = append(one.processes, p)
	return nil
}

// replace ends the oldest process of an instance, and starts another unless there is one already.
func (f *fleet) replace(index int, end func(p *kit.Process)) error {
	one := f.instances[index]
	one.mu.Lock()
	defer one.mu.Unlock()
	end(one.takeOldest())
	if len(one.processes) > 0 {
		return nil
	}
	return f.launch(one)
}

func (one *instance) takeOldest() *kit.Process {
	p := one.processes[0]
	one.processes = slices.Clone(one.processes[1:])
	return p
}

// kill replaces a process by SIGKILL, after a pause.
func (f *fleet) kill(ctx context.Context, index int, pause time.Duration) error {
	return f.replace(index, func(p *kit.Process) {
		p.Kill()
		f.reaped(p, "killed", p.Ending() == syscall.SIGKILL.String())
		kit.Sleep(ctx, pause)
	})
}

// term replaces a process by SIGTERM, at once.
func (f *fleet) term(index int) error {
	return f.replace(index, func(p *kit.Process) { f.terminate(p, "terminated") })
}

// zombie freezes a process while another takes its place, and resumes it for a moment before it is asked to end.
func (f *fleet) zombie(ctx context.Context, index int, frozen time.Duration) error {
	return f.replace(index, func(p *kit.Process) {
		p.Signal(syscall.SIGSTOP)
		f.leaving.Go(func() {
			kit.Sleep(ctx, frozen)
			p.Signal(syscall.SIGCONT)
			kit.Sleep(ctx, zombieTime)
			f.terminate(p, "frozen")
		})
	})
}

// roll is a rolling deploy: the next process starts before the last one is asked to end.
func (f *fleet) roll(ctx context.Context, index int, overlap time.Duration) error {
	one := f.instances[index]
	one.mu.Lock()
	defer one.mu.Unlock()
	if err := f.launch(one); err != nil {
		return err
	}
	f.leaving.Go(func() {
		kit.Sleep(ctx, overlap)
		one.mu.Lock()
		defer one.mu.Unlock()
		if len(one.processes) > 1 { // the other may have been killed
			f.terminate(one.takeOldest(), "rolled")
		}
	})
	return nil
}

// terminate asks a process to end, and checks whether and how it does.
func (f *fleet) terminate(p *kit.Process, how string) {
	asked := time.Now()
	p.Signal(syscall.SIGTERM)
	f.leaving.Go(func() {
		if !p.Await(stopLimit) {
			f.problem(fmt.Sprintf("%s did not end within %s of SIGTERM", p, stopLimit))
			p.Kill()
		}
		f.mu.Lock()
		f.longest = max(f.longest, p.EndedAt().Sub(asked))
		f.mu.Unlock()
		early := p.Ending() == syscall.SIGTERM.String() && asked.Sub(p.Started) < startTime
		f.reaped(p, how, p.Ending() == "exit code 0" || early)
	})
}

// outcry matches what no consumer may ever write.
var outcry = regexp.MustCompile(`(?m)^(WARNING: DATA RACE|panic: |fatal error: |goroutine \d+ \[).*$`)

// reaped counts a process that has ended, and records what was wrong with it.
func (f *fleet) reaped(p *kit.Process, how string, proper bool) {
	log := p.Log()
	if !proper {
		f.problem(fmt.Sprintf("%s, to be %s, ended with %s:\n%s", p, how, p.Ending(), lastLines(log, 10)))
	}
	if at := outcry.FindStringIndex(log); at != nil {
		const most = 4 << 10
		f.problem(fmt.Sprintf("%s wrote:\n%s", p, log[at[0]:min(len(log), at[0]+most)]))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended[how]++
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (f *fleet) problem(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.problems = append(f.problems, text)
}

// finish asks all that is left to end, and waits for it.
func (f *fleet) finish() {
	for _, one := range f.instances {
		one.mu.Lock()
		for _, p := range one.processes {
			f.terminate(p, finished)
		}
		one.processes = nil
		one.mu.Unlock()
	}
	f.leaving.Wait()
}

// destroy kills everything, for a test that ends early.
func (f *fleet) destroy() {
	f.mu.Lock()
	all := slices.Clone(f.started)
	f.mu.Unlock()
	for _, p := range all {
		p.Kill()
	}
	f.leaving.Wait()
}
