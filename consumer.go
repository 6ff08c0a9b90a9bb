package restatestart

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// Handler takes the batches of a Consumer. A Starter is one.
type Handler[T any] interface {
	// Handle processes a batch: messages of one partition, in stream order, at least one. It is called concurrently
	// for different partitions, and never twice at a time for one. Nil moves the position past the batch. A
	// *BlockedError, anywhere in the error's tree, holds the position, and hands over again after HoldMin, doubling to
	// HoldMax, for ever. Any other error, and a panic, follows OnError.
	//
	// When the handler is a Starter, only what was not accepted is handed over again. With any other, one that calls a
	// Starter included, it is the whole batch: what else the handler had to do for it is its own affair, and Restate
	// knows the starts that come again. A handler that wants only some messages again returns a BlockedError of its own
	// making, alone, whose Failed has their EntryID: all the others then count as done.
	//
	// Consumer.Replay calls it too, with one message, beside those calls.
	//
	// The context is cancelled when the batch has to end: DrainTimeout after Run's own was cancelled.
	Handle(ctx context.Context, batch []Message[T]) error
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc[T any] func(ctx context.Context, batch []Message[T]) error

// Handle calls the function.
func (f HandlerFunc[T]) Handle(ctx context.Context, batch []Message[T]) error { return f(ctx, batch) }

// Consumer reads the partition streams of a RedisEvents topic and hands their messages to a Handler, in order
// within each partition. It moves a partition's position only past what the handler is done with, or what was put aside
// where the options say so.
type Consumer[T any] struct {
	topic   string
	decode  func([]byte) (T, error)
	handler Handler[T]
	options ConsumerOptions
	keys    wire.Keys
	split   split
	starts  bool // the handler is a Starter, and nothing else
	log     *slog.Logger
	backend backend
	metrics *loopMetrics
	tracer  trace.Tracer
	checks  *preflight // nil: none

	running atomic.Bool
	mu      sync.Mutex // guards what Status shows
	run     runStatus
}

// backend is all that a Consumer asks of Redis.
type backend struct {
	source stream.Source
	store  position.Store
	parked parked.Store
	// meta reads the topic's recorded number of partitions and wire version, empty where there is none.
	meta func(ctx context.Context) (partitions, version string, err error)
	// pool is how many connections the client may hold, 0 when that cannot be known.
	pool int
}

// NewConsumer makes a Consumer of a topic, given by its bare name: orders is read from s:{orders}:0 and on. The
// client may be a single, failover or cluster one; it is never closed here, and Run needs a connection of its pool
// for each partition it reads and one more. Decode makes a value of a body; JSON is one. NewConsumer checks
// everything it can know, names the field that is wrong, and does no I/O.
func NewConsumer[T any](client redis.UniversalClient, topic string, decode func([]byte) (T, error), handler Handler[T], options ConsumerOptions) (*Consumer[T], error) {
	if isNil(client) {
		return nil, errors.New("restatestart: the Redis client is nil")
	}
	return newConsumer(topic, decode, handler, options, func(c *Consumer[T]) backend {
		writer := instanceID()
		return backend{
			source: stream.NewRedis(client, c.keys, c.options.Types),
			store:  position.NewRedis(client, c.keys, c.options.Consumer, writer),
			parked: parked.NewRedis(client, c.keys, c.options.Consumer),
			meta:   func(ctx context.Context) (string, string, error) { return readMeta(ctx, client, c.keys.Meta()) },
			pool:   poolSize(client),
		}
	})
}

func newConsumer[T any](topic string, decode func([]byte) (T, error), handler Handler[T], options ConsumerOptions, connect func(*Consumer[T]) backend) (*Consumer[T], error) {
	switch {
	case topic == "":
		return nil, errors.New("restatestart: the topic is empty")
	case strings.ContainsAny(topic, "{}"):
		return nil, fmt.Errorf("restatestart: the topic %q holds braces: give its bare name, such as orders for the streams s:{orders}:0 and on", topic)
	case decode == nil:
		return nil, errors.New("restatestart: the decoder is nil")
	case isNil(handler):
		return nil, errors.New("restatestart: the handler is nil")
	}
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("restatestart: ConsumerOptions.%w", err)
	}
	c := &Consumer[T]{
		topic: topic, decode: decode, handler: handler, options: options,
		keys: wire.Keys{Prefix: options.KeyPrefix, Topic: topic}, split: options.split(),
		log:    options.Logger.With(slog.String("topic", topic), slog.String("consumer", options.Consumer)),
		tracer: options.TracerProvider.Tracer(ConsumerScopeName),
	}
	if c.metrics, err = newLoopMetrics(topic, options); err != nil {
		return nil, fmt.Errorf("restatestart: ConsumerOptions.MeterProvider: %w", err)
	}
	starter, isStarter := handler.(*Starter[T])
	c.starts = isStarter
	name := ""
	if isStarter {
		name = starter.options.Handler
	}
	if c.checks, err = newPreflight(options, cmp.Or(name, DefaultHandler), c.log); err != nil {
		return nil, fmt.Errorf("restatestart: ConsumerOptions.%w", err)
	}
	c.backend = connect(c)
	return c, nil
}

// Run consumes until ctx is cancelled, and then returns nil after a clean stop: reading stops, the batch in hand
// of each partition gets DrainTimeout to finish, and positions are written; all that takes at most DrainTimeout
// and a second. A batch that is not done by then is handed over again by the next Run. A handler, or a call to
// Redis, that has not returned by then is left behind, and the log says so.
//
// Run survives every error of Redis, from the start on: it tries again after HoldMin, doubling to HoldMax. It
// returns an error for what no waiting heals: a topic with more partitions than Partitions, a wire version it
// does not know, a connection pool that is too small, a client that was closed, a Run that is under way already,
// the findings of a strict Preflight, and, with ErrorFail, the handler's error.
func (c *Consumer[T]) Run(ctx context.Context) error {
	if !c.running.CompareAndSwap(false, true) {
		return fmt.Errorf("restatestart: consumer %s of topic %s is running already", c.options.Consumer, c.topic)
	}
	defer c.running.Store(false)
	// A span that Run is called under would have every message below it, for ever.
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
		// Redis may hang, and go-redis hang with it, whatever the context says.
		limit := time.NewTimer(c.options.DrainTimeout + stopLimit)
		defer limit.Stop()
		select {
		case err = <-ended:
		case <-limit.C:
			c.log.WarnContext(ctx, "redis call still waiting after the drain timeout, left behind")
		}
	}
	c.end(err)
	if err != nil {
		return fmt.Errorf("restatestart: consumer %s of topic %s: %w", c.options.Consumer, c.topic, err)
	}
	return nil
}

// stopLimit is what Run takes at most beyond DrainTimeout: a little more than the group that it runs.
const stopLimit = time.Second - 20*time.Millisecond

// consume finds out what to consume, and does.
func (c *Consumer[T]) consume(ctx context.Context) error {
	endChecks, err := c.checks.begin(ctx, c.trouble)
	defer endChecks()
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
	owned := c.split.owned(partitions)
	if err := c.checkPool(owned); err != nil {
		return err
	}
	group := stream.NewGroup(stream.Config{
		Partitions: owned, Source: c.backend.source, Store: c.backend.store, Deliver: c.deliver, Start: c.start, Logger: c.log, Observer: c.metrics,
		BatchSize: c.options.BatchSize, Block: c.options.Block, ReadAhead: c.options.ReadAhead,
		PersistInterval: c.options.PersistInterval, PersistEach: c.options.Persist == PersistEachBatch,
		DrainTimeout: c.options.DrainTimeout, HoldMin: c.options.HoldMin, HoldMax: c.options.HoldMax, Name: c.keys.Stream,
		Gap: c.gap, GapHold: c.options.Gaps == GapHold,
	})
	c.show(runStatus{state: StateRunning, group: group})
	c.metrics.begin(owned)
	unwatch := c.metrics.watch(group)
	defer unwatch()
	c.announce(ctx, "consuming", partitions, owned)

	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watchPartitions(reading, partitions, group, stop)
	}()
	err = group.Run(reading)
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

func (c *Consumer[T]) announce(ctx context.Context, event string, partitions int, owned []int) {
	c.log.InfoContext(ctx, event, slog.String("key_prefix", c.options.KeyPrefix), slog.Int("partitions", partitions),
		slog.Any("owned", owned), slog.Int("instance_index", c.split.index), slog.Int("instance_count", c.split.count),
		slog.String("start_from", c.options.StartFrom.String()), slog.Int("connections", connections(owned)))
	if len(owned) == 0 {
		err := fmt.Errorf("instance %d of %d owns none of the topic's %d partitions and consumes nothing", c.split.index, c.split.count, partitions)
		c.trouble(err)
		c.log.ErrorContext(ctx, "no partition", slog.Any("error", err))
	}
}

// connections is how many connections the partitions take.
func connections(owned []int) int { return len(owned) + 1 }

func (c *Consumer[T]) checkPool(owned []int) error {
	if pool := c.backend.pool; pool > 0 && pool < connections(owned) {
		return fmt.Errorf("the Redis client's pool of %d connections is too small: the reads of %d partitions hold one each, and positions need one; set its PoolSize to at least %d, and more for what else uses the client",
			pool, len(owned), connections(owned))
	}
	return nil
}

// countPartitions finds how many partitions the topic has, for as long as it takes.
func (c *Consumer[T]) countPartitions(ctx context.Context) (int, error) {
	steps := stream.NewLadder(c.options.HoldMin, c.options.HoldMax)
	var logged stream.Seldom
	for {
		recorded, err := c.recordedPartitions(ctx)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err == nil && c.options.Partitions == 0:
			return max(recorded, 1), nil
		case err == nil && c.options.Partitions < recorded:
			return 0, fmt.Errorf("ConsumerOptions.Partitions is %d, the topic has %d: some would never be read", c.options.Partitions, recorded)
		case err == nil:
			return c.options.Partitions, nil
		case isFinal(err):
			return 0, err
		}
		c.trouble(err)
		wait := steps.Next()
		if logged.Now() {
			c.log.ErrorContext(ctx, "redis unavailable at start", slog.Any("error", err), slog.Duration("next", wait))
		}
		stream.Sleep(ctx, wait)
	}
}

// errVersion is final: another version of this package is needed.
var errVersion = errors.New("unknown wire version")

func isFinal(err error) bool { return errors.Is(err, errVersion) || errors.Is(err, redis.ErrClosed) }

// recordedPartitions is what the topic's meta hash says, 0 when it says nothing.
func (c *Consumer[T]) recordedPartitions(ctx context.Context) (int, error) {
	partitions, version, err := c.backend.meta(ctx)
	if err != nil {
		return 0, err
	}
	return parseMeta(partitions, version)
}

const watchInterval = 5 * time.Second

// watchPartitions notices that the topic got more partitions: their messages would otherwise wait unread until
// the service is started again. With a fixed number of partitions, or a pool too small for more, it can only say so.
func (c *Consumer[T]) watchPartitions(ctx context.Context, partitions int, group *stream.Group, stop context.CancelCauseFunc) {
	var logged stream.Seldom
	for stream.Sleep(ctx, watchInterval) {
		recorded, err := c.recordedPartitions(ctx)
		if err != nil && isFinal(err) && ctx.Err() == nil {
			stop(err)
			return
		}
		if err != nil || recorded <= partitions {
			continue
		}
		if err = c.grow(ctx, group, recorded); err == nil {
			c.trouble(nil)
			c.announce(ctx, "consuming more partitions", recorded, c.split.owned(recorded))
			partitions = recorded
			continue
		}
		err = fmt.Errorf("partitions %d to %d of the topic are not read: %w", partitions, recorded-1, err)
		c.trouble(err)
		if logged.Now() {
			c.log.ErrorContext(ctx, "unread partitions", slog.Any("error", err))
		}
	}
}

// grow makes the group read what a topic of more partitions gives to this instance.
func (c *Consumer[T]) grow(ctx context.Context, group *stream.Group, partitions int) error {
	if c.options.Partitions > 0 {
		return fmt.Errorf("ConsumerOptions.Partitions is %d, the topic has %d", c.options.Partitions, partitions)
	}
	owned := c.split.owned(partitions)
	if err := c.checkPool(owned); err != nil {
		return err
	}
	return group.Assign(ctx, owned)
}

// start says where a partition begins. One that was added while Run was under way holds nothing from before, unless
// another instance has read it until now: what is stored comes first then, whatever StartFrom says.
func (c *Consumer[T]) start(ctx context.Context, partition int, stored position.Stored, late bool) (wire.ID, error) {
	log := c.log.With(slog.Int("partition", partition))
	if stored.Unreadable != "" {
		log.WarnContext(ctx, "stored position is unreadable and counts as none", slog.String("value", stored.Unreadable))
	}
	from := c.options.StartFrom
	switch {
	case stored.Found && (late || from.kind == startStored):
		return stored.ID, nil
	case from.kind == startStored:
		log.InfoContext(ctx, "no stored position, starting from the beginning")
		return wire.ID{}, nil
	case stored.Found:
		log.WarnContext(ctx, "stored position passed over", slog.String("stored", stored.ID.String()), slog.String("start_from", from.String()))
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

// isNil sees through the interface: a *redis.Client whose error was passed over, say.
func isNil(value any) bool {
	inner := reflect.ValueOf(value)
	switch inner.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map:
		return inner.IsNil()
	default:
		return value == nil
	}
}

func readMeta(ctx context.Context, client redis.UniversalClient, key string) (partitions, version string, err error) {
	values, err := client.HMGet(ctx, key, wire.MetaPartitions, wire.MetaVersion).Result()
	if err != nil {
		return "", "", fmt.Errorf("read topic meta %s: %w", key, err)
	}
	partitions, _ = values[0].(string)
	version, _ = values[1].(string)
	return partitions, version, nil
}

// poolSize is how many connections a client may hold to the node that serves a topic, 0 for a kind of client that
// does not say.
func poolSize(client redis.UniversalClient) int {
	smaller := func(pool, active int) int {
		if active > 0 {
			return min(pool, active)
		}
		return pool
	}
	switch client := client.(type) {
	case *redis.Client:
		return smaller(client.Options().PoolSize, client.Options().MaxActiveConns)
	case *redis.ClusterClient:
		return smaller(client.Options().PoolSize, client.Options().MaxActiveConns)
	case *redis.Ring:
		return smaller(client.Options().PoolSize, client.Options().MaxActiveConns)
	default:
		return 0
	}
}
