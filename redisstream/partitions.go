package redisstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/backoff"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/topic"
)

// own begins the series of owned partitions, and logs which they are.
func (c *Consumer[T]) own(ctx context.Context, event string, partitions int, owned []int) {
	c.metrics.begin(owned)
	for _, partition := range owned {
		c.parked.Begin(partition)
	}
	c.log.InfoContext(ctx, event, slog.String("key_prefix", c.options.KeyPrefix), slog.Int("partitions", partitions),
		slog.Any("owned", owned), slog.Int("instance_index", c.share.index), slog.Int("instance_count", c.share.count),
		slog.String("start_from", c.options.StartFrom.String()), slog.Int("connections", connections(owned)))
	if len(owned) == 0 {
		err := fmt.Errorf("instance %d of %d owns none of the topic's %d partitions and consumes nothing", c.share.index, c.share.count, partitions)
		c.setError(err)
		c.log.ErrorContext(ctx, "no partition owned", slog.Any("error", err))
	}
}

// connections is how many connections of the client partitions need.
func connections(owned []int) int { return len(owned) + 1 }

func (c *Consumer[T]) checkPool(owned []int) error {
	if pool := c.backend.pool; pool > 0 && pool < connections(owned) {
		return fmt.Errorf("the Redis client's pool of %d connections is too small: the reads of %d partitions hold one each, and positions need one; set its PoolSize to at least %d, and more for what else uses the client",
			pool, len(owned), connections(owned))
	}
	return nil
}

// countPartitions finds how many partitions the topic has. It retries until ctx ends.
func (c *Consumer[T]) countPartitions(ctx context.Context) (int, error) {
	waits := backoff.New(c.options.HoldMin, c.options.HoldMax, 0)
	var logged telemetry.LogLimiter
	for {
		recorded, err := c.recordedPartitions(ctx)
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case err == nil && c.options.Partitions == 0:
			return max(recorded, 1), nil
		case err == nil && c.options.Partitions < recorded:
			return 0, fmt.Errorf("Options.Partitions is %d, the topic has %d: some would never be read", c.options.Partitions, recorded)
		case err == nil:
			return c.options.Partitions, nil
		case isPermanent(err):
			return 0, err
		}
		c.setError(err)
		wait := waits.Next()
		if logged.Allow() {
			c.log.ErrorContext(ctx, "redis unavailable at start", slog.Any("error", err), slog.Duration("next", wait))
		}
		backoff.Sleep(ctx, wait)
	}
}

// isPermanent reports an error that no waiting fixes.
func isPermanent(err error) bool {
	return errors.Is(err, topic.ErrVersion) || errors.Is(err, redis.ErrClosed)
}

// recordedPartitions is the number in the topic's meta hash, 0 when there is none.
func (c *Consumer[T]) recordedPartitions(ctx context.Context) (int, error) {
	meta, err := c.backend.meta(ctx)
	if err != nil {
		return 0, err
	}
	return meta.Count()
}

const watchInterval = 5 * time.Second

// watchPartitions notices that the topic has more partitions: their messages would otherwise be read only after a
// restart. With a fixed number of partitions, or a pool that is too small for more, it can only report them.
func (c *Consumer[T]) watchPartitions(ctx context.Context, partitions int, loop *stream.Loop, stop context.CancelCauseFunc) {
	var logged telemetry.LogLimiter
	for backoff.Sleep(ctx, watchInterval) {
		recorded, err := c.recordedPartitions(ctx)
		if err != nil && isPermanent(err) && ctx.Err() == nil {
			stop(err)
			return
		}
		if err != nil || recorded <= partitions {
			continue
		}
		if err = c.grow(ctx, loop, recorded); err == nil {
			c.setError(nil)
			c.own(ctx, "consuming more partitions", recorded, c.share.owned(recorded))
			partitions = recorded
			continue
		}
		err = fmt.Errorf("partitions %d to %d of the topic are not read: %w", partitions, recorded-1, err)
		c.setError(err)
		if logged.Allow() {
			c.log.ErrorContext(ctx, "partitions not read", slog.Any("error", err))
		}
	}
}

// grow assigns the loop this instance's share of a topic with more partitions.
func (c *Consumer[T]) grow(ctx context.Context, loop *stream.Loop, partitions int) error {
	if c.options.Partitions > 0 {
		return fmt.Errorf("Options.Partitions is %d, the topic has %d", c.options.Partitions, partitions)
	}
	owned := c.share.owned(partitions)
	if err := c.checkPool(owned); err != nil {
		return err
	}
	return loop.Assign(ctx, owned)
}

// poolSize is how many connections a client may hold to the node that serves a topic, 0 for a client of an unknown kind.
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
