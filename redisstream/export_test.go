package redisstream

import (
	"context"
	"time"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/topic"
	"github.com/redisevents/restatestart/internal/wire"
)

// Backend replaces Redis in tests that run in virtual time.
type Backend struct {
	Source stream.Source
	Store  position.Store
	Meta   func(ctx context.Context) (topic.Meta, error)
	Pool   int
	Parked parked.Store
}

// NewConsumerOn makes a Consumer on another backend than Redis.
func NewConsumerOn[T any](on Backend, topic string, decode func([]byte) (T, error), handler Handler[T], options Options) (*Consumer[T], error) {
	return newConsumer(Topic(topic), decode, handler, options, func(wire.Keys, Options) backend {
		return backend{source: on.Source, store: on.Store, meta: on.Meta, pool: on.Pool, parked: on.Parked}
	})
}

// Owned returns the partitions of this instance, by its options and environment.
func (o Options) Owned(partitions int) []int {
	o, err := o.withDefaults()
	if err != nil {
		panic(err)
	}
	return o.share(telemetry.NewGuard(o.Logger).Logger()).owned(partitions)
}

// PodOrdinal exports podOrdinal.
var PodOrdinal = podOrdinal

// InstanceID exports instanceID.
func InstanceID() string { return instanceID().String() }

// PoolSize exports poolSize.
var PoolSize = poolSize

// Reporting returns a function that reports everything about one batch except its span.
func (c *Consumer[T]) Reporting(ctx context.Context) func() {
	page := stream.Page{Entries: make([]wire.Entry, 1), Read: 2}
	return func() {
		c.metrics.Read(0)
		c.metrics.handled(ctx, 1, time.Second)
		c.metrics.Processed(0, page, stream.Unprocessed{})
		c.metrics.CommitFailed()
	}
}

// Observer returns what the loop reports to.
func (c *Consumer[T]) Observer() stream.Observer { return c.metrics }
