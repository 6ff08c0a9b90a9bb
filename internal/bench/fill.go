package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/bench/contender"
)

// pipelined is how many entries are added in one go.
const pipelined = 1000

// fill adds the messages 0 to count-1 to a topic's partitions, one after the other. With several types, one message
// in contender.OneIn is of the type that is wanted.
func fill(ctx context.Context, client *redis.Client, topic string, partitions, count int, mixed bool) error {
	return add(ctx, client, partitions, count, func(n int) (string, []any, error) {
		kind := contender.Wanted
		if mixed && (n/partitions)%contender.OneIn != contender.OneIn-1 {
			kind = contender.Other
		}
		return contender.StreamKey(topic, n%partitions), []any{"b", contender.Body(n, contender.BodySize), "t", kind, "k", fmt.Sprintf("c-%06d", n%997)}, nil
	})
}

// fillWatermill adds the same messages as watermill's publisher would.
func fillWatermill(ctx context.Context, client *redis.Client, topic string, partitions, count int) error {
	return add(ctx, client, partitions, count, func(n int) (string, []any, error) {
		fields, err := contender.WatermillFields(n)
		return contender.WatermillStream(topic, n%partitions), fields, err
	})
}

func add(ctx context.Context, client *redis.Client, partitions, count int, entry func(n int) (stream string, fields []any, err error)) error {
	for from := 0; from < count; from += pipelined {
		_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for n := from; n < min(count, from+pipelined); n++ {
				stream, fields, err := entry(n)
				if err != nil {
					return err
				}
				pipe.XAdd(ctx, &redis.XAddArgs{Stream: stream, Values: fields})
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("fill the streams: %w", err)
		}
	}
	for partition := range partitions {
		stream, _, err := entry(partition)
		if err != nil {
			return err
		}
		if length, err := client.XLen(ctx, stream).Result(); err != nil || length != int64(count/partitions) {
			return fmt.Errorf("fill the streams: %s holds %d entries (%w)", stream, length, err)
		}
	}
	return nil
}
