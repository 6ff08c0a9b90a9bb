package restatestart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/redisevents/restatestart/internal/ingress"
)

// Start is one workflow to start.
type Start struct {
	// Workflow is the name of the workflow service. Restate compares it to the letter. Required.
	Workflow string
	// Key is the workflow key, the business id by which the start happens once: Restate answers a second start of the
	// same key with the first one's invocation, for as long as it retains that (one day after its end by default).
	// Any valid UTF-8 but the empty string.
	Key string
	// Input is the workflow's input. Nil, and empty bytes, send no body and no Content-Type, for a handler without
	// input. A []byte or json.RawMessage goes out byte for byte, anything else through Options.Encode. Bytes are not copied:
	// let each Start have its own, and leave them as they are.
	Input any
	// Handler is the workflow's handler to start. Defaults to Options.Handler.
	Handler string
	// Delay is how long Restate waits before it runs the workflow. 0 runs it at once; a negative one is a failed
	// start.
	Delay time.Duration
	// Header goes with this start, over Options.Header. The same rules hold, and it is not copied either.
	Header http.Header
}

// Starter starts a Restate workflow for each message that is worth one. It keeps no state between calls, takes no
// lock, and is safe for concurrent use by every partition. (Its metrics remember which workflows they have told apart.)
type Starter[T any] struct {
	keep      func(*Message[T]) bool
	mapStart  func(*Message[T]) (Start, error)
	options   Options
	ingress   *ingress.Client
	telemetry *telemetry
	tracer    trace.Tracer
	server    [2]attribute.KeyValue // the ingress, for spans
}

// New makes a Starter. Keep tells whether a message is worth a start; nil keeps every message. Map tells which
// workflow a kept message starts, under which key and with which input. Both are called concurrently, once a
// message and Handle call, and should do no I/O. An error of Map, like an empty key, holds the position until there
// is none: it is for what can be mended. What will never be worth a start is for Keep to turn away. New checks everything it can know, names the field that is wrong,
// and does no I/O itself.
func New[T any](keep func(*Message[T]) bool, mapStart func(*Message[T]) (Start, error), options Options) (*Starter[T], error) {
	if mapStart == nil {
		return nil, errors.New("restatestart: Map is nil")
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("restatestart: Options.%w", err)
	}
	client, err := ingress.New(ingress.Config{
		URL: options.Ingress, RestatePath: options.PathStyle == PathRestateSend, Header: options.Header,
		HTTP: options.HTTPClient, DialTimeout: options.AttemptTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("restatestart: Options.Ingress: %w", err)
	}
	telemetry, err := newTelemetry(options)
	if err != nil {
		return nil, fmt.Errorf("restatestart: Options.MeterProvider: %w", err)
	}
	host, port := client.Server()
	return &Starter[T]{
		keep: keep, mapStart: mapStart, options: options, ingress: client, telemetry: telemetry,
		tracer: options.TracerProvider.Tracer(ScopeName),
		server: [2]attribute.KeyValue{text("server.address", host), attribute.Int("server.port", port)},
	}, nil
}

// CloseIdleConnections closes the HTTP connections that no start is using. They close by themselves after 90 s
// without use. With an HTTPClient of one's own it is that client's method of the same name.
func (s *Starter[T]) CloseIdleConnections() { s.ingress.CloseIdleConnections() }

// Handle starts the workflows of a batch: Keep runs for every message, Map for those kept, and their starts are
// posted in parallel, each with its retries. It returns nil when every start was accepted, by now or before, and a
// *BlockedError otherwise. It returns no other error and does not panic.
//
// One start that fails does not keep the others from being posted. Messages of a batch that map to the same
// workflow and key are posted one after the other in stream order, so that the first one's input is the one that
// runs; when one of them is not accepted, those behind it are not posted.
//
// Handle takes as long as the attempts of its slowest start: with the defaults about 3 s when connections are refused,
// and 53 s when there is no answer at all.
//
// When ctx is cancelled before every start was accepted, the BlockedError has ShuttingDown set. Handle returns
// once the attempts under way have ended, which the cancellation makes them do.
func (s *Starter[T]) Handle(ctx context.Context, batch []Message[T]) error {
	starts, heads := s.prepare(batch)
	s.telemetry.filtered(ctx, len(batch)-len(starts))
	if len(starts) == 0 {
		return nil
	}
	tracing := s.newTracing()
	s.startAll(ctx, tracing, starts, heads)
	blocked := &BlockedError{messages: len(batch)}
	for i := range starts {
		current := &starts[i]
		switch current.state {
		case startAccepted:
			blocked.Accepted++
			continue
		case startPending:
			current.fail(ReasonPanic, errGoexit)
		case startFailed:
		}
		blocked.Failed = append(blocked.Failed, current.failure)
		if !current.traced {
			unposted(ctx, tracing, current)
		}
	}
	if len(blocked.Failed) == 0 {
		return nil
	}
	blocked.ShuttingDown = ctx.Err() != nil
	s.telemetry.batchBlocked(ctx, blocked)
	return blocked
}

// startAll posts the chains of starts that begin at heads, so many at a time. What comes of each is kept with it.
func (s *Starter[T]) startAll(ctx context.Context, tracing *tracing, starts []start[T], heads []int) {
	var group errgroup.Group
	var taken atomic.Int64
	var work func() error
	work = func() error {
		finished := false
		defer func() {
			if !finished { // code that was called ended this goroutine: the others are not to suffer for it
				group.Go(work)
			}
		}()
		limits := s.newLimits()
		defer limits.close()
		for {
			next := int(taken.Add(1)) - 1
			if next >= len(heads) {
				finished = true
				return nil
			}
			s.startInOrder(ctx, tracing, limits, starts, heads[next])
		}
	}
	for range min(s.options.MaxParallelism, len(heads)) {
		group.Go(work)
	}
	_ = group.Wait()
}

// start is a kept message on its way.
type start[T any] struct {
	message *Message[T]
	send    ingress.Send
	next    int // the next message of the same workflow and key, 0 when there is none
	state   startState
	traced  bool        // it has a span
	failure FailedStart // meaningful when it was not accepted
}

// startState is how far a start has come.
type startState int

const (
	startPending  startState = iota // nobody has worked on it to the end, or it was in the hands of code that ended its goroutine
	startAccepted                   // Restate has it
	startFailed                     // it was not accepted, and failure says why
)

// fail notes why a start was not accepted.
func (s *start[T]) fail(reason Reason, err error) {
	s.state = startFailed
	s.name()
	s.failure.Reason, s.failure.Err = reason, err
}

// name fills in which start a failure is about.
func (s *start[T]) name() {
	s.failure.EntryID, s.failure.Stream = s.message.ID, s.message.Stream
	s.failure.Workflow, s.failure.Key = s.send.Workflow, s.send.Key
}

// prepare runs Keep and Map over a batch. It returns what was kept, in order, and where each chain of starts with
// the same workflow and key begins. What failed here is in no chain.
func (s *Starter[T]) prepare(batch []Message[T]) (starts []start[T], heads []int) {
	type identity struct{ workflow, key string }
	var last map[identity]int
	for i := range batch {
		kept := start[T]{message: &batch[i]}
		if !s.plan(&kept) {
			continue
		}
		if starts == nil {
			starts = make([]start[T], 0, len(batch)-i)
			heads = make([]int, 0, len(batch)-i)
			last = make(map[identity]int, len(batch)-i)
		}
		starts = append(starts, kept)
		at := len(starts) - 1
		if kept.send.Workflow == "" || kept.send.Key == "" {
			continue // it has no identity, so that no other one has to wait for it
		}
		id := identity{kept.send.Workflow, kept.send.Key}
		if before, found := last[id]; found {
			starts[before].next = at
		} else {
			heads = append(heads, at)
		}
		last[id] = at
	}
	return starts, heads
}

// plan decides about one message: whether it is kept, and what to send for it or why that cannot be done.
func (s *Starter[T]) plan(current *start[T]) (kept bool) {
	defer func() {
		if reason := recover(); reason != nil {
			current.fail(ReasonPanic, newPanicError(reason))
			kept = true
		}
	}()
	if s.keep != nil && !s.keep(current.message) {
		return false
	}
	mapped, err := s.mapStart(current.message)
	if err != nil {
		current.fail(ReasonMap, solid(err))
		return true
	}
	if mapped.Handler == "" {
		mapped.Handler = s.options.Handler
	}
	current.send = ingress.Send{
		Workflow: mapped.Workflow, Key: mapped.Key, Handler: mapped.Handler, Delay: mapped.Delay, Header: mapped.Header,
	}
	if err := current.send.Check(); err != nil {
		current.fail(ReasonInvalid, err)
		return true
	}
	if current.send.Body, err = s.encode(mapped.Input); err != nil {
		current.fail(ReasonEncode, solid(err))
	}
	return true
}

func (s *Starter[T]) encode(input any) ([]byte, error) {
	switch input := input.(type) {
	case nil:
		return nil, nil
	case []byte:
		return input, nil
	case json.RawMessage:
		return input, nil
	default:
		return s.options.Encode(input)
	}
}

// startInOrder posts a chain of starts with the same workflow and key, up to the first that is not accepted.
func (s *Starter[T]) startInOrder(ctx context.Context, tracing *tracing, limits *limits, starts []start[T], head int) {
	before := "" // the first that was not accepted
	for at := head; ; at = starts[at].next {
		current := &starts[at]
		switch {
		case current.state == startFailed: // before it came here
		case before != "":
			current.fail(ReasonPredecessor, fmt.Errorf("entry %s of the same key was not accepted", before))
		default:
			s.startOne(ctx, tracing, limits, current)
		}
		if current.state == startFailed && before == "" {
			before = current.message.ID
		}
		if current.next == 0 {
			return
		}
	}
}
