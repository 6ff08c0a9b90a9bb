// Package admin is for operators: it shows a consumer from outside, moves its positions, and lists and discards what it
// has parked. It needs neither the service nor its decoder and handler, works whether the consumer runs or not, and on
// consumers of RedisEvents in .NET too.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/topic"
	"github.com/redisevents/restatestart/internal/wire"
)

// LagLimit is how far Client.Positions counts the entries behind one position.
const LagLimit = 1_000_000

// Options say which consumer a Client is about. Only Consumer is required.
type Options struct {
	// Consumer is the name under which the positions are kept. Required.
	Consumer string

	// KeyPrefix is put in front of every Redis key, as in redisstream.Options. Defaults to none.
	KeyPrefix string

	// Partitions is how many partitions the topic has, where its meta hash does not say. Defaults to 1. A number below
	// what the meta hash says is an error of every method about positions.
	Partitions int

	// MeterProvider counts discarded entries, as the consumer counts parked ones. Defaults to OpenTelemetry's global one.
	MeterProvider metric.MeterProvider

	// Logger gets a line for each discarded entry. Defaults to none.
	Logger *slog.Logger
}

// Client administers one consumer of one topic. It keeps nothing between calls, retries nothing, and is safe for
// concurrent use.
//
// Consumer groups (in .NET: Delivery WorkQueue) keep their positions elsewhere and are not seen.
type Client struct {
	topic    string
	options  Options
	keys     wire.Keys
	redis    redis.UniversalClient
	admin    *position.Admin
	parked   parked.Store
	recorder *parked.Recorder
}

// New makes a Client for a consumer of a RedisEvents topic, given by its bare name. The Redis client is never closed
// here. New does no I/O. It returns an error that names the field for any option that is wrong.
func New(client redis.UniversalClient, topicName string, options Options) (*Client, error) {
	if topic.IsNil(client) {
		return nil, errors.New("admin: the Redis client is nil")
	}
	if err := topic.CheckName(topicName); err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	if err := topic.CheckConsumer(options.Consumer); err != nil {
		return nil, fmt.Errorf("admin: Options.%w", err)
	}
	if options.Partitions < 0 {
		return nil, fmt.Errorf("admin: Options.Partitions: %d is negative", options.Partitions)
	}
	if options.MeterProvider == nil {
		options.MeterProvider = otel.GetMeterProvider()
	}
	keys := wire.Keys{Prefix: options.KeyPrefix, Topic: topicName}
	guard := telemetry.NewGuard(options.Logger)
	meter := guard.Meter(options.MeterProvider, telemetry.ConsumerScope)
	log := guard.Logger().With(slog.String("topic", topicName), slog.String("consumer", options.Consumer))
	c := &Client{
		topic: topicName, options: options, keys: keys, redis: client, admin: position.NewAdmin(client, keys, options.Consumer),
		parked:   parked.NewRedis(client, keys, options.Consumer),
		recorder: parked.NewRecorder(meter, log, telemetry.ConsumerAttributes(topicName, options.Consumer, options.KeyPrefix)),
	}
	if meter.Err != nil {
		return nil, fmt.Errorf("admin: Options.MeterProvider: %w", meter.Err)
	}
	return c, nil
}

func (c *Client) wrap(doing string, err error) error {
	return fmt.Errorf("admin: %s of consumer %s on topic %s: %w", doing, c.options.Consumer, c.topic, err)
}

// count is how many partitions the topic has, 0 where nothing says.
func (c *Client) count(ctx context.Context) (int, error) {
	meta, err := topic.ReadMeta(ctx, c.redis, c.keys)
	if err != nil {
		return 0, err
	}
	recorded, err := meta.Count()
	switch {
	case err != nil:
		return 0, err
	case c.options.Partitions == 0:
		return recorded, nil
	case c.options.Partitions < recorded:
		return 0, fmt.Errorf("Options.Partitions is %d, the topic has %d", c.options.Partitions, recorded)
	default:
		return c.options.Partitions, nil
	}
}
