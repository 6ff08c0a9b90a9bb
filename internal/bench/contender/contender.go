package contender

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"time"

	"github.com/redisevents/restatestart/internal/bench/child"
)

// Task is what a contender is to do, round after round.
type Task struct {
	Name        string // which contender: one of the names below
	Redis       string // host:port
	Ingress     string // URL
	Topic       string
	Partitions  int
	Messages    int // in all streams together, a multiple of Partitions
	Keep        bool
	Types       []string      // the library's filter; none: all
	Delay       time.Duration // of the starts
	Parallelism int           // starts under way at once, over all partitions
	Loops       int           // of ReadLimit: goroutines that read
	Passes      int           // how often a round goes over the streams; 0 is once
	Batch       int           // of Ours: messages of a batch; 0 is the default, 100
	Heap        int           // MiB that the process holds beside, as services do; 0 is a heap of next to nothing
	Profile     string        // prefix of the files that profiles are written to; none: no profiles
}

// The contenders.
const (
	Limit     = "limit"
	Ours      = "ours"
	ByHand    = "by hand"
	Watermill = "watermill"
	ReadLimit = "read limit"
	Handle    = "handle"  // allocations of Starter.Handle
	Latency   = "latency" // from XADD to POST
)

// Round is one go at a task.
type Round struct {
	Prefix string // of the workflow keys, and of names in Redis: no other round's
	WarmUp bool   // no profile is made of it
}

// Figures are what a round cost: the contender's process alone, from the first read to the last answer.
type Figures struct {
	Messages int
	Elapsed  time.Duration
	CPU      time.Duration // user and system
	Mallocs  uint64
	Bytes    uint64             // allocated
	Values   map[string]float64 // of contenders that measure something else
}

// request is what the parent asks of a contender's process: a Task first, then Rounds.
type request struct {
	Task  *Task
	Round *Round
}

// runner is one contender, with its clients open. It puts what it does between watch's begin and end, once or more.
type runner interface {
	round(ctx context.Context, prefix string, watch *stopwatch) error
	close() error
}

// Serve is the main of a contender's process.
func Serve() error {
	server := &server{}
	err := child.Serve(server.answer)
	if server.runner != nil {
		if closed := server.runner.close(); err == nil {
			err = closed
		}
	}
	if written := server.profiles.write(); err == nil {
		err = written
	}
	return err
}

type server struct {
	task     Task
	runner   runner
	profiles profiles
	heap     []byte // held, never used
}

func (s *server) answer(raw json.RawMessage) (any, error) {
	var asked request
	if err := json.Unmarshal(raw, &asked); err != nil {
		return nil, err
	}
	ctx := context.Background() // the parent ends this process when it has had enough
	if asked.Task != nil {
		var err error
		s.task = *asked.Task
		s.profiles = newProfiles(s.task.Profile)
		s.heap = make([]byte, s.task.Heap<<20)
		s.runner, err = open(ctx, s.task)
		return nil, err
	}
	if !asked.Round.WarmUp {
		if err := s.profiles.start(); err != nil {
			return nil, err
		}
	}
	watch := stopwatch{figures: Figures{Messages: s.task.Messages * max(1, s.task.Passes)}}
	for pass := range max(1, s.task.Passes) {
		prefix := asked.Round.Prefix
		if s.task.Passes > 1 {
			prefix = fmt.Sprintf("%s%d-", prefix, pass)
		}
		if err := s.runner.round(ctx, prefix, &watch); err != nil {
			return nil, err
		}
	}
	return watch.figures, nil
}

func open(ctx context.Context, task Task) (runner, error) {
	switch task.Name {
	case Limit:
		return newLimit(task), nil
	case Ours:
		return newOurs(task)
	case ByHand:
		return newByHand(task), nil
	case Watermill:
		return newWatermill(task), nil
	case ReadLimit:
		return newReadLimit(task), nil
	case Handle:
		return newHandle(ctx)
	case Latency:
		return newLatency(task)
	default:
		return nil, fmt.Errorf("there is no contender %q", task.Name)
	}
}

// stopwatch adds up what passes between begin and end.
type stopwatch struct {
	figures Figures
	before  runtime.MemStats
	cpu     time.Duration
	began   time.Time
}

func (w *stopwatch) begin() {
	runtime.GC() // the garbage of what came before is not this round's
	runtime.ReadMemStats(&w.before)
	w.cpu = cpuTime()
	w.began = time.Now()
}

func (w *stopwatch) end() {
	w.figures.Elapsed += time.Since(w.began)
	w.figures.CPU += cpuTime() - w.cpu
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	w.figures.Mallocs += after.Mallocs - w.before.Mallocs
	w.figures.Bytes += after.TotalAlloc - w.before.TotalAlloc
}

// Process is a contender's process, seen from its parent.
type Process struct {
	*child.Process

	Task Task
}

// Start starts a contender's process under role, in which the program must call Serve.
func Start(ctx context.Context, role string, task Task) (*Process, error) {
	process, err := child.Start(role, task.Name)
	if err != nil {
		return nil, err
	}
	p := &Process{Process: process, Task: task}
	if err := p.Call(ctx, request{Task: &task}, &struct{}{}); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// Do does a round and returns what it cost.
func (p *Process) Do(ctx context.Context, round Round) (Figures, error) {
	var figures Figures
	err := p.Call(ctx, request{Round: &round}, &figures)
	return figures, err
}
