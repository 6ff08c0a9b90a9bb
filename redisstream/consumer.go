// Package redisstream reads Redis streams, delivers their messages to a Handler (usually a [restatestart.Starter]), and moves
// a position only past what the handler has processed.
//
// Streams, positions and topic metadata are those of RedisEvents, wire version 1, so that services written in .NET and Go
// can share topics and take over each other's positions.
//
// Each partition is read, processed and held independently. A *restatestart.BlockedError holds the partition's position
// and delivers again what failed, without end: nothing needs a restart. After a crash, messages since the last stored
// position are redelivered, and Restate answers the starts that it knows with PreviouslyAccepted.
//
// Package [github.com/redisevents/restatestart/redisstream/admin] has what operators need from outside: positions,
// resets and parked entries.
package redisstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/topic"
	"github.com/redisevents/restatestart/internal/wire"
)

// Handler processes the batches of a Consumer. A Starter is one.
type Handler[T any] interface {
	// Handle processes a batch: messages of one partition, in stream order, at least one. It is called concurrently for
	// different partitions, and one call at a time for each. Nil moves the position past the batch. A
	// *restatestart.BlockedError, anywhere in the error's tree, holds the position, and the batch is delivered again after
	// HoldMin, doubling to HoldMax, without end. Any other error, and a panic, follows OnError.
	//
	// When the handler is a Starter, only what was not accepted is delivered again. With any other handler, including one
	// that calls a Starter, it is the whole batch: what else that handler does with a message is not known here, and
	// Restate knows the starts that are repeated. A handler that wants only some messages again returns a BlockedError that
	// it built itself, with their EntryIDs in Failed, and not joined with other errors: all other messages then count as processed.
	//
	// Consumer.Replay calls it too, with one message, concurrently with those calls.
	//
	// The context is cancelled DrainTimeout after Run's own.
	Handle(ctx context.Context, batch []restatestart.Message[T]) error
}

// HandlerFunc adapts a function to a Handler.
type HandlerFunc[T any] func(ctx context.Context, batch []restatestart.Message[T]) error

// Handle calls the function.
func (f HandlerFunc[T]) Handle(ctx context.Context, batch []restatestart.Message[T]) error {
	return f(ctx, batch)
}

// Consumer reads the streams of a source and delivers their messages to a Handler, in order within each partition. It
// moves a partition's position only past what the handler has processed, and past what was skipped or parked where the
// options say so.
type Consumer[T any] struct {
	topic     string
	decode    func([]byte) (T, error)
	handler   Handler[T]
	options   Options
	keys      wire.Keys
	share     share
	isStarter bool // the handler is a Starter itself
	log       *slog.Logger
	backend   backend
	metrics   *metrics
	parked    *parked.Recorder
	tracer    telemetry.Tracer
	preflight *preflightRun // nil: none

	running atomic.Bool
	mu      sync.Mutex // guards what Status shows
	run     runStatus
}

// backend is everything that a Consumer needs from Redis.
type backend struct {
	source stream.Source
	store  position.Store
	parked parked.Store
	meta   func(ctx context.Context) (topic.Meta, error)
	// pool is how many connections the client may hold, 0 when that cannot be known.
	pool int
}

// NewConsumer makes a Consumer of a source's streams. The client may be a single, failover or cluster one. It is
// never closed here, and Run needs a connection of its pool for each partition it reads and one more. Decode turns an
// entry's body into a value; JSON is one such decoder. NewConsumer does no I/O. It returns an error that names the
// field for any option that it can know to be wrong.
func NewConsumer[T any](client redis.UniversalClient, source Source, decode func([]byte) (T, error), handler Handler[T], options Options) (*Consumer[T], error) {
	if topic.IsNil(client) {
		return nil, errors.New("redisstream: the Redis client is nil")
	}
	return newConsumer(source, decode, handler, options, func(keys wire.Keys, options Options) backend {
		return backend{
			source: stream.NewRedis(client, keys, options.Types),
			store:  position.NewRedis(client, keys, options.Consumer, instanceID()),
			parked: parked.NewRedis(client, keys, options.Consumer),
			meta:   func(ctx context.Context) (topic.Meta, error) { return topic.ReadMeta(ctx, client, keys) },
			pool:   poolSize(client),
		}
	})
}

func newConsumer[T any](source Source, decode func([]byte) (T, error), handler Handler[T], options Options, connect func(wire.Keys, Options) backend) (*Consumer[T], error) {
	if err := topic.CheckName(source.topic); err != nil {
		return nil, fmt.Errorf("redisstream: %w", err)
	}
	if decode == nil {
		return nil, errors.New("redisstream: the decoder is nil")
	}
	if topic.IsNil(handler) {
		return nil, errors.New("redisstream: the handler is nil")
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("redisstream: Options.%w", err)
	}
	guard := telemetry.NewGuard(options.Logger)
	c := &Consumer[T]{
		topic: source.topic, decode: decode, handler: handler, options: options,
		keys: wire.Keys{Prefix: options.KeyPrefix, Topic: source.topic}, share: options.share(guard.Logger()),
		log:    guard.Logger().With(slog.String("topic", source.topic), slog.String("consumer", options.Consumer)),
		tracer: guard.Tracer(options.TracerProvider, ScopeName),
	}
	meter := guard.Meter(options.MeterProvider, ScopeName)
	c.metrics = newMetrics(meter, source.topic, options)
	c.parked = parked.NewRecorder(meter, c.log, c.metrics.with())
	if meter.Err != nil {
		return nil, fmt.Errorf("redisstream: Options.MeterProvider: %w", meter.Err)
	}
	starter, isStarter := handler.(*restatestart.Starter[T])
	c.isStarter = isStarter
	workflowHandler := restatestart.DefaultHandler
	if isStarter {
		workflowHandler = starter.Options().Handler
	}
	if c.preflight, err = newPreflightRun(options, workflowHandler, c.log); err != nil {
		return nil, fmt.Errorf("redisstream: Options.Preflight: %w", err)
	}
	c.backend = connect(c.keys, options)
	return c, nil
}

// Run consumes until ctx is cancelled, and returns nil after a clean stop: reading stops, the batch of each partition
// that is being processed gets DrainTimeout to finish, and positions are written. All that takes at most DrainTimeout and
// a second. A batch that is not finished then is delivered again by the next Run. A handler, or a call to Redis, that has
// not returned then is abandoned, and the log says so.
//
// Run survives every error from Redis, also at the start: it retries after HoldMin, doubling to HoldMax. It returns an error
// only for what no waiting fixes: a topic with more partitions than Options.Partitions, an unknown wire version, a
// connection pool that is too small, a client that was closed, a Run that is already running, the findings of a strict
// preflight, and, with ErrorFail, the handler's error.
func (c *Consumer[T]) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return fmt.Errorf("redisstream: consumer %s of topic %s is running already", c.options.Consumer, c.topic)
	}
	defer c.running.Store(false)
	// A span that Run is called under would become the parent of every message's.
	if trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithSpan(ctx, noop.Span{})
	}
	c.show(runStatus{state: StateStarting})
	ended := make(chan error, 1)
	go func() { ended <- c.consume(ctx) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		// go-redis may ignore its context while Redis hangs.
		limit := time.NewTimer(c.options.DrainTimeout + stopLimit)
		defer limit.Stop()
		select {
		case err = <-ended:
		case <-limit.C:
			c.log.WarnContext(ctx, "redis call still waiting after the drain timeout, abandoned")
		}
	}
	c.end(err)
	if err != nil {
		return fmt.Errorf("redisstream: consumer %s of topic %s: %w", c.options.Consumer, c.topic, err)
	}
	return nil
}

// stopLimit is what Run takes at most beyond DrainTimeout: a little more than the loop that it runs.
const stopLimit = time.Second - 20*time.Millisecond

// consume finds the partitions and consumes them.
func (c *Consumer[T]) consume(ctx context.Context) error {
	endPreflight, err := c.preflight.begin(ctx, c.setError)
	defer endPreflight()
	if err != nil {
		return err
	}
	partitions, err := c.countPartitions(ctx)
	if ctx.Err() != nil {
		return nil // stopped before it began
	}
	if err != nil {
		return err
	}
	owned := c.share.owned(partitions)
	if err := c.checkPool(owned); err != nil {
		return err
	}
	loop := stream.NewLoop(stream.Config{
		Partitions: owned, Source: c.backend.source, Store: c.backend.store, Deliver: c.deliver, Start: c.start, Logger: c.log, Observer: c.metrics,
		BatchSize: c.options.BatchSize, Block: c.options.Block, ReadAhead: c.options.ReadAhead,
		PersistInterval: c.options.PersistInterval, PersistEach: c.options.Persist == PersistEachBatch,
		DrainTimeout: c.options.DrainTimeout, HoldMin: c.options.HoldMin, HoldMax: c.options.HoldMax, Name: c.keys.Stream,
		OnGap: c.gap, GapHold: c.options.Gaps == GapHold,
	})
	c.show(runStatus{state: StateRunning, loop: loop})
	unwatch := c.metrics.watch(loop)
	defer unwatch()
	c.own(ctx, "consuming", partitions, owned)

	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watchPartitions(reading, partitions, loop, stop)
	}()
	err = loop.Run(reading)
	stop(nil)
	select {
	case <-watched:
	case <-time.After(stream.StopMargin): // Redis hangs
	}
	if err == nil && ctx.Err() == nil {
		err = context.Cause(reading)
	}
	return err
}

// start returns where a partition begins. A partition that was added during the Run (late) holds nothing from before,
// unless another instance has read it: then what is stored comes first, whatever StartFrom says.
func (c *Consumer[T]) start(ctx context.Context, partition int, stored position.Stored, late bool) (wire.ID, error) {
	log := c.log.With(slog.Int("partition", partition))
	if stored.Unreadable != "" {
		log.WarnContext(ctx, "stored position is unreadable, treated as none", slog.String("value", stored.Unreadable))
	}
	from := c.options.StartFrom
	switch {
	case stored.Found && (late || from.kind == startStored):
		return stored.ID, nil
	case from.kind == startStored:
		log.InfoContext(ctx, "no stored position, starting from the beginning")
		return wire.ID{}, nil
	case stored.Found:
		log.WarnContext(ctx, "stored position ignored", slog.String("stored", stored.ID.String()), slog.String("start_from", from.String()))
	}
	switch {
	case from.kind == startNow && !late:
		tail, err := c.backend.source.Tail(ctx, partition)
		return tail.Last, err
	case from.kind == startTime:
		return wire.FirstAt(from.at), nil
	default:
		return wire.ID{}, nil
	}
}
