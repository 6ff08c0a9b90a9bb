package contender

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// readLimit reads with go-redis, decodes with encoding/json and does nothing else. One loop reads one stream after
// the other; more share the streams among them.
type readLimit struct {
	task  Task
	redis *redis.Client
}

func newReadLimit(task Task) *readLimit { return &readLimit{task: task, redis: redisClient(task)} }

func (r *readLimit) round(ctx context.Context, _ string, watch *stopwatch) error {
	var read atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	watch.begin()
	for loop := range max(1, r.task.Loops) {
		group.Go(func() error {
			for partition := loop; partition < r.task.Partitions; partition += max(1, r.task.Loops) {
				n, err := r.read(ctx, StreamKey(r.task.Topic, partition))
				read.Add(int64(n))
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	watch.end()
	if err == nil && read.Load() != int64(r.task.Messages) {
		err = fmt.Errorf("%d of %d messages read", read.Load(), r.task.Messages)
	}
	return err
}

func (r *readLimit) read(ctx context.Context, stream string) (n int, err error) {
	for id := "0"; n < r.task.Messages/r.task.Partitions; {
		streams, err := r.redis.XRead(ctx, &redis.XReadArgs{Streams: []string{stream}, ID: id, Count: batch, Block: block}).Result()
		if err != nil {
			return n, err
		}
		for _, message := range streams[0].Messages {
			body, _ := message.Values["b"].(string)
			var value bet
			if err := json.Unmarshal([]byte(body), &value); err != nil {
				return n, err
			}
			id = message.ID
			n++
		}
	}
	return n, nil
}

func (r *readLimit) close() error { return r.redis.Close() }
