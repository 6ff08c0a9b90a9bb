package contender

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/redis/go-redis/v9"
	restate "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/ingress"
	"golang.org/x/sync/errgroup"
)

// byHand is what a service would have in the library's place: a consumer group, an errgroup for each batch, and the
// ingress client of Restate's Go SDK on a tuned http.Client. It has no retries and no way to hold a partition.
type byHand struct {
	task   Task
	redis  *redis.Client
	http   *http.Client
	client *ingress.Client
}

func newByHand(task Task) *byHand {
	client := tunedClient(task.Parallelism)
	return &byHand{task: task, redis: redisClient(task), http: client, client: ingress.NewClient(task.Ingress, ingress.WithHttpClient(client))}
}

func (b *byHand) round(ctx context.Context, prefix string, watch *stopwatch) error {
	for partition := range b.task.Partitions {
		if err := b.redis.XGroupCreate(ctx, StreamKey(b.task.Topic, partition), prefix, "0").Err(); err != nil {
			return err
		}
	}
	group, loops := errgroup.WithContext(ctx)
	watch.begin()
	for partition := range b.task.Partitions {
		group.Go(func() error { return b.consume(loops, StreamKey(b.task.Topic, partition), prefix) })
	}
	err := group.Wait()
	watch.end()
	if err != nil {
		return err
	}
	for partition := range b.task.Partitions {
		if err := b.redis.XGroupDestroy(ctx, StreamKey(b.task.Topic, partition), prefix).Err(); err != nil {
			return err
		}
	}
	return nil
}

// consume is the loop of one partition, up to the last message that there is.
func (b *byHand) consume(ctx context.Context, stream, prefix string) error {
	for left := b.task.Messages / b.task.Partitions; left > 0; {
		streams, err := b.redis.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: prefix, Consumer: "by-hand", Streams: []string{stream, ">"}, Count: batch, Block: block,
		}).Result()
		if err != nil {
			return err
		}
		messages := streams[0].Messages
		ids := make([]string, 0, len(messages))
		var group errgroup.Group
		group.SetLimit(max(1, b.task.Parallelism/b.task.Partitions))
		for _, message := range messages {
			ids = append(ids, message.ID)
			group.Go(func() error { return b.handle(ctx, prefix, message) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		if err := b.redis.XAck(ctx, stream, prefix, ids...).Err(); err != nil {
			return err
		}
		left -= len(messages)
	}
	return nil
}

func (b *byHand) handle(ctx context.Context, prefix string, message redis.XMessage) error {
	body, found := message.Values["b"].(string)
	if !found {
		return fmt.Errorf("entry %s has no body", message.ID)
	}
	var value bet
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		return err
	}
	var options []ingress.SendOption
	if b.task.Delay > 0 {
		options = append(options, restate.WithDelay(b.task.Delay))
	}
	_, err := ingress.WorkflowSend[payout](b.client, Workflow, prefix+value.Claim, Handler).
		Send(ctx, payout{BetID: value.ID, Amount: value.Amount}, options...)
	return err
}

func (b *byHand) close() error {
	b.http.CloseIdleConnections()
	return b.redis.Close()
}
