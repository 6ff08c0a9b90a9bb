package restatestart

import (
	"context"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
)

// Backend is what stands in for Redis in tests that run in virtual time.
type Backend struct {
	Source stream.Source
	Store  position.Store
	Meta   func(ctx context.Context) (partitions, version string, err error)
	Pool   int
}

// NewConsumerOn makes a Consumer on another backend than Redis.
func NewConsumerOn[T any](on Backend, topic string, decode func([]byte) (T, error), handler Handler[T], options ConsumerOptions) (*Consumer[T], error) {
	return newConsumer(topic, decode, handler, options, func(*Consumer[T]) backend {
		return backend{source: on.Source, store: on.Store, meta: on.Meta, pool: on.Pool}
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
