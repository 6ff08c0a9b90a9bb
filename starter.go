// Package restatestart starts Restate workflows from a stream of messages, once per business key, and never loses a start.
//
// A service gives a [Starter] two functions: Keep decides whether a message is worth a start, Map which workflow it
// starts, under which key and with which input. [Starter.Handle] takes a batch of messages and posts a start for each
// that is kept, in parallel up to a bound and with retries. It returns nil once Restate has accepted them all, and
// otherwise a [*BlockedError] that names those it did not accept: the batch must not be acknowledged then, but handled
// again later.
//
// Package [github.com/redisevents/restatestart/redisstream] provides that loop: a Consumer reads the streams of a
// RedisEvents topic and moves a position only past what Restate has accepted.
//
//	starter, err := restatestart.New(keep, payout, restatestart.Options{Ingress: "http://restate:8080"})
//	…
//	consumer, err := redisstream.NewConsumer(rdb, redisstream.Topic("bets_settled"), redisstream.JSON[BetSettled], starter,
//		redisstream.Options{Consumer: "bonus-payout"})
//	…
//	err = consumer.Run(ctx) // until ctx is cancelled
//
// A start may be sent more than once, after a crash for example. Restate runs it once: it answers a repeat of a workflow
// key with PreviouslyAccepted, for as long as it retains the finished workflow (workflow_completion_retention, one day by
// default). Set that to cover the longest time after which a message can come again.
package restatestart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/sync/errgroup"

	"github.com/redisevents/restatestart/internal/ingress"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/text"
	"github.com/redisevents/restatestart/internal/wire"
)

// Message is one stream entry with its body decoded. Keep and Map get a pointer to it to save copying, and must not
// retain that pointer.
type Message[T any] struct {
	// Value is the decoded body.
	Value T
	// ID is the id of the entry in its stream, `<ms>-<seq>`: the milliseconds since 1970 at which it was added, and a
	// sequence number within that millisecond.
	ID string
	// Stream is the Redis key of the stream.
	Stream string
	// Partition is the number of that stream within its topic, from 0.
	Partition int
	// Type is the producer's name for the kind of message, field `t`. It may be empty.
	Type string
	// Key is the producer's partition key, field `k`: messages of one key are in one partition, in order. It may be
	// empty. It is not the workflow key, which Map chooses.
	Key string
	// CorrelationID is field `c`. It may be empty.
	CorrelationID string
	// TraceParent is the producer's W3C trace context, field `p`, as it came. It may be empty or malformed.
	TraceParent string
	// Headers are the producer's headers, field `h`.
	Headers Headers
	// Body is the body as the producer wrote it, field `b`.
	Body []byte
}

// Headers are the headers of a message in the producer's order, packed as RedisEvents writes them
// (`<len>:<name><len>:<value>` for each). A name may occur more than once. They are unpacked on access, so that a
// malformed block is an error only for code that reads headers.
type Headers string

// Header is one of a message's Headers.
type Header struct {
	Name  string
	Value string
}

// NewHeaders packs headers, for tests of a Keep or Map that reads them. More than 64 headers, or more than 8192 bytes
// packed, is an error: RedisEvents publishes no more.
func NewHeaders(headers ...Header) (Headers, error) {
	list := make([]wire.Header, len(headers))
	for i, header := range headers {
		list[i] = wire.Header(header)
	}
	packed, err := wire.PackHeaders(list...)
	return Headers(packed), err
}

// Lookup finds the first header of a name, which is case-sensitive. It returns an error when the block is malformed
// before such a header.
func (h Headers) Lookup(name string) (value string, found bool, err error) {
	return wire.Headers(h).Lookup(name)
}

// All yields the headers in order. A malformed block yields the headers before the fault, then an error.
func (h Headers) All() iter.Seq2[Header, error] {
	return func(yield func(Header, error) bool) {
		for header, err := range wire.Headers(h).All() {
			if !yield(Header(header), err) {
				return
			}
		}
	}
}

// Start is one workflow to start.
type Start struct {
	// Workflow is the name of the workflow service, case-sensitive. Required.
	Workflow string
	// Key is the workflow key, the business id by which the workflow runs once: Restate answers another start of the
	// same key with the first one's invocation, for as long as it retains that (by default one day after it ended).
	// Any valid UTF-8 but the empty string.
	Key string
	// Input is the workflow's input. Nil, like empty bytes, sends neither body nor Content-Type, for a handler without
	// input. A []byte or json.RawMessage is sent as it is, anything else is encoded by Options.Encode. Bytes are not
	// copied: do not share or change them.
	Input any
	// Handler is the workflow's handler. Defaults to Options.Handler.
	Handler string
	// Delay is how long Restate waits before it runs the workflow. 0 runs it at once. A negative one makes a failed
	// start.
	Delay time.Duration
	// Header is added to Options.Header for this start. The same rules apply. It is not copied either.
	Header http.Header
}

// Starter starts a Restate workflow for each message that is worth one. It keeps no state between calls, takes no
// lock, and is safe for concurrent use.
type Starter[T any] struct {
	keep      func(*Message[T]) bool
	mapStart  func(*Message[T]) (Start, error)
	options   Options
	ingress   *ingress.Client
	telemetry *instruments
	log       *slog.Logger
}

// New makes a Starter. Keep decides whether a message is worth a start; nil keeps every message. Map says what a kept
// message starts. Both are called concurrently, once for each message and Handle call, and should do no I/O. An error
// of Map, like an empty key, blocks the batch: it is for what can be fixed. A message that will never be worth a start
// is for Keep to drop.
//
// New does no I/O. It returns an error that names the field for any option that it can know to be wrong.
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
		HTTP: options.HTTPClient, Timeout: options.AttemptTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("restatestart: Options.Ingress: %w", err)
	}
	guard := telemetry.NewGuard(options.Logger)
	host, port := client.Server()
	instruments, err := newInstruments(options, guard, [2]attribute.KeyValue{telemetry.Text("server.address", host), attribute.Int("server.port", port)})
	if err != nil {
		return nil, fmt.Errorf("restatestart: Options.MeterProvider: %w", err)
	}
	return &Starter[T]{keep: keep, mapStart: mapStart, options: options, ingress: client, telemetry: instruments, log: guard.Logger()}, nil
}

// Options returns the Starter's options, with the defaults filled in.
func (s *Starter[T]) Options() Options { return s.options }

// CloseIdleConnections closes the HTTP connections that no start is using. Otherwise they close after 90 s without
// use. With an Options.HTTPClient it calls that client's method of the same name.
func (s *Starter[T]) CloseIdleConnections() { s.ingress.CloseIdleConnections() }

// Handle starts the workflows of a batch: Keep runs for every message, Map for those kept, and their starts are
// posted in parallel, each with its retries. It returns nil when every start was accepted, now or earlier, and a
// *BlockedError otherwise. It returns no other error and does not panic.
//
// A start that fails does not keep others from being posted. Messages that map to the same workflow and key are posted
// one after the other in the order of the batch, so that the first one's input is the one that runs; when one of them
// is not accepted, those behind it are not posted.
//
// Handle takes as long as the attempts of its slowest start: with the defaults about 3 s when connections are refused,
// and 53 s when there is no answer at all.
//
// When ctx is cancelled before every start was accepted, attempts in flight are aborted and the BlockedError has
// ShuttingDown set.
func (s *Starter[T]) Handle(ctx context.Context, batch []Message[T]) error {
	starts, chains := s.mapBatch(batch)
	s.telemetry.filtered(ctx, len(batch)-len(starts))
	if len(starts) == 0 {
		return nil
	}
	poster := s.newPoster(ctx)
	defer poster.attempts.Close()
	var group errgroup.Group
	group.SetLimit(s.options.MaxParallelism)
	var next atomic.Int64
	startNext := func() error { // one closure for all chains
		growStack(byte(len(chains)))
		s.startChain(poster, starts, chains[next.Add(1)-1])
		return nil
	}
	for range chains {
		group.Go(startNext)
	}
	_ = group.Wait()
	return s.outcome(poster, batch, starts)
}

// growStack grows the stack of a new goroutine to what a POST takes while there is hardly anything on it to copy. Growing
// it on the way down costs a start 7 % of its CPU time.
//
//go:noinline
func growStack(at byte) byte {
	var frame [stackOfPost]byte
	frame[at]++
	return frame[at/2]
}

const stackOfPost = 5 << 10

// outcome is nil when every start was accepted, and otherwise a *BlockedError.
func (s *Starter[T]) outcome(poster *poster, batch []Message[T], starts []pendingStart[T]) error {
	blocked := &BlockedError{Messages: len(batch)}
	for i := range starts {
		start := &starts[i]
		if start.state == startAccepted {
			blocked.Accepted++
			continue
		}
		if start.state == startPending { // its goroutine ended early
			start.fail(ReasonPanic, errGoexit)
		}
		blocked.Failed = append(blocked.Failed, start.failure)
		if !start.traced {
			_, span := start.beginSpan(poster)
			span.end(&start.failure, ingress.Answer{}, false)
		}
	}
	if len(blocked.Failed) == 0 {
		return nil
	}
	blocked.ShuttingDown = poster.ctx.Err() != nil
	s.telemetry.batchBlocked(poster.ctx, blocked)
	return blocked
}

// mapBatch runs Keep and Map over a batch. It returns the starts of what was kept, in order, and the index of the first
// of each chain of starts with the same workflow and key. Starts without a workflow or key are failed, and in no chain.
func (s *Starter[T]) mapBatch(batch []Message[T]) (starts []pendingStart[T], chains []int) {
	type identity struct{ workflow, key string }
	var last map[identity]int
	for i := range batch {
		start := pendingStart[T]{message: &batch[i]}
		if !s.mapMessage(&start) {
			continue
		}
		if starts == nil {
			starts = make([]pendingStart[T], 0, len(batch)-i)
			chains = make([]int, 0, len(batch)-i)
			last = make(map[identity]int, len(batch)-i)
		}
		starts = append(starts, start)
		if start.send.Workflow == "" || start.send.Key == "" {
			continue
		}
		at := len(starts) - 1
		id := identity{start.send.Workflow, start.send.Key}
		if before, found := last[id]; found {
			starts[before].next = at
		} else {
			chains = append(chains, at)
		}
		last[id] = at
	}
	return starts, chains
}

// mapMessage decides whether a message is kept, and what to send for it or why that cannot be done.
func (s *Starter[T]) mapMessage(start *pendingStart[T]) (kept bool) {
	defer func() {
		if reason := recover(); reason != nil {
			start.fail(ReasonPanic, newPanicError(reason))
			kept = true
		}
	}()
	if s.keep != nil && !s.keep(start.message) {
		return false
	}
	mapped, err := s.mapStart(start.message)
	if err != nil {
		start.fail(ReasonMap, text.SafeError(err))
		return true
	}
	if mapped.Handler == "" {
		mapped.Handler = s.options.Handler
	}
	start.send = ingress.Send{
		Workflow: mapped.Workflow, Key: mapped.Key, Handler: mapped.Handler, Delay: mapped.Delay, Header: mapped.Header,
	}
	if err := start.send.Check(); err != nil {
		start.fail(ReasonInvalid, err)
		return true
	}
	if start.send.Body, err = s.encode(mapped.Input); err != nil {
		start.fail(ReasonEncode, text.SafeError(err))
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

// startChain posts starts of the same workflow and key in order, up to the first that is not accepted.
func (s *Starter[T]) startChain(poster *poster, starts []pendingStart[T], first int) {
	failed := "" // the entry whose start was not accepted
	for at := first; ; at = starts[at].next {
		start := &starts[at]
		switch {
		case start.state == startFailed: // by mapMessage
		case failed != "":
			start.fail(ReasonPredecessor, fmt.Errorf("entry %s of the same key was not accepted", failed))
		default:
			s.post(poster, start)
		}
		if start.state == startFailed && failed == "" {
			failed = start.message.ID
		}
		if start.next == 0 {
			return
		}
	}
}
