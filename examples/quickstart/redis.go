package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// openRedis connects to the Redis of the config, or to a fake in this process. The returned function deletes this run's keys
// and closes the client.
func openRedis(ctx context.Context, config config) (*redis.Client, func() error, error) {
	addr, shutdown := config.redis, func() {}
	if addr == "" {
		server := miniredis.NewMiniRedis()
		if err := server.Start(); err != nil {
			return nil, nil, fmt.Errorf("start a fake Redis: %w", err)
		}
		addr, shutdown = server.Addr(), server.Close
	}
	// The consumer uses a connection for each partition and one more, the publisher another.
	rdb := redis.NewClient(&redis.Options{Addr: addr, PoolSize: config.partitions + 2})
	if err := rdb.Ping(ctx).Err(); err != nil {
		err = errors.Join(err, rdb.Close())
		shutdown()
		return nil, nil, fmt.Errorf("reach Redis at %s: %w", addr, err)
	}
	return rdb, func() error {
		defer shutdown()
		return errors.Join(removeKeys(ctx, rdb, config), rdb.Close())
	}, nil
}

// removeKeys works after ctx was cancelled, too.
func removeKeys(ctx context.Context, rdb *redis.Client, config config) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	keys := []string{metaKey(config), positionsKey(config), positionsKey(config) + ":meta"}
	for partition := range config.partitions {
		keys = append(keys, streamKey(config, partition))
	}
	if err := rdb.Del(ctx, keys...).Err(); err != nil {
		return fmt.Errorf("remove the keys of this run: %w", err)
	}
	return nil
}

// The keys of a RedisEvents topic. The braces are a hash tag: in a cluster they keep a topic in one slot.

func streamKey(config config, partition int) string {
	return fmt.Sprintf("%ss:{%s}:%d", config.keyPrefix(), topic, partition)
}

func metaKey(config config) string { return fmt.Sprintf("%sm:{%s}", config.keyPrefix(), topic) }

func positionsKey(config config) string {
	return fmt.Sprintf("%sp:{%s}:%s", config.keyPrefix(), topic, consumerName)
}
