package restatestart

import (
	"context"
	"time"

	"github.com/redisevents/restatestart/internal/ingress"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// Backend is what stands in for Redis in tests that run in virtual time.
type Backend struct {
	Source stream.Source
	Store  position.Store
	Meta   func(ctx context.Context) (partitions, version string, err error)
	Pool   int
	Parked parked.Store
}

// NewConsumerOn makes a Consumer on another backend than Redis.
func NewConsumerOn[T any](on Backend, topic string, decode func([]byte) (T, error), handler Handler[T], options ConsumerOptions) (*Consumer[T], error) {
	return newConsumer(topic, decode, handler, options, func(*Consumer[T]) backend {
		return backend{source: on.Source, store: on.Store, meta: on.Meta, pool: on.Pool, parked: on.Parked}
	})
}

// Owned are the partitions that options and environment give to this instance.
func (o ConsumerOptions) Owned(partitions int) []int {
	o, err := o.withDefaults()
	if err != nil {
		panic(err)
	}
	return o.split().owned(partitions)
}

// PodOrdinal exports podOrdinal.
var PodOrdinal = podOrdinal

// InstanceID exports instanceID.
func InstanceID() string { return instanceID().String() }

// PoolSize exports poolSize.
var PoolSize = poolSize

// Reporting returns a function that does all that is reported of one start, and of the batch it came in, and nothing
// else.
func (s *Starter[T]) Reporting(ctx context.Context, message *Message[T]) func() {
	tracing := s.newTracing()
	answer := ingress.Answer{Status: 202}
	outcome := &FailedStart{Workflow: "Payout", Attempts: 2}
	return func() {
		send := ingress.Send{Workflow: "Payout"}
		s.telemetry.filtered(ctx, 1)
		s.telemetry.begin(ctx)
		ctx, span := beginSpan(ctx, tracing, message, &send)
		s.telemetry.attempt(ctx, ReasonServer, 503)
		span.attemptFailed(outcome, time.Second)
		s.telemetry.attempt(ctx, accepted, 202)
		s.telemetry.end(ctx, outcome, answer, true, time.Second)
		span.end(outcome, answer, true)
	}
}

// Reporting returns a function that does all that a Consumer reports of one batch but for its span, and nothing else.
func (c *Consumer[T]) Reporting(ctx context.Context) func() {
	page := stream.Page{Entries: make([]wire.Entry, 1), Read: 2}
	return func() {
		c.metrics.Read(0)
		c.metrics.handled(ctx, 1, time.Second)
		c.metrics.Passed(0, page, stream.Left{})
		c.metrics.SaveFailed()
	}
}

// ParseTraceParent exports parseTraceParent.
var ParseTraceParent = parseTraceParent

// Observer is what the loop of a Consumer reports to.
func (c *Consumer[T]) Observer() stream.Observer { return c.metrics }
