package contender

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/redisstream"
)

const (
	// poll is the time between two polls of the status of a consumer that has seen every message.
	poll = 200 * time.Microsecond
	// block is shorter than the default so that a consumer stops sooner. While there are entries it does nothing.
	block = 100 * time.Millisecond
)

// ours is the library with its defaults. The Starter, and so its connections, stays from round to round, as in a
// service; each round has a Consumer without a stored position.
type ours struct {
	task    Task
	redis   *redis.Client
	starter *restatestart.Starter[bet]

	prefix string
	seen   atomic.Int64
	last   int64         // the count of seen with which all is seen
	all    chan struct{} // closed then
}

func newOurs(task Task) (*ours, error) {
	o := &ours{task: task, redis: redisClient(task)}
	parallelism := max(1, task.Parallelism/task.Partitions)
	starter, err := restatestart.New(o.keep, o.start, restatestart.Options{Ingress: task.Ingress, MaxParallelism: parallelism})
	o.starter = starter
	return o, err
}

func (o *ours) keep(*restatestart.Message[bet]) bool {
	if o.seen.Add(1) == o.last {
		close(o.all)
	}
	return o.task.Keep
}

func (o *ours) start(message *restatestart.Message[bet]) (restatestart.Start, error) {
	return restatestart.Start{
		Workflow: Workflow, Key: o.prefix + message.Value.Claim, Delay: o.task.Delay,
		Input: payout{BetID: message.Value.ID, Amount: message.Value.Amount},
	}, nil
}

func (o *ours) round(ctx context.Context, prefix string, watch *stopwatch) error {
	o.prefix, o.last, o.all = prefix, int64(wanted(o.task)), make(chan struct{})
	o.seen.Store(0)
	consumer, err := redisstream.NewConsumer(o.redis, redisstream.Topic(o.task.Topic), redisstream.JSON[bet], o.starter, redisstream.Options{
		Consumer: "ours-" + prefix, Partitions: o.task.Partitions, BatchSize: cmp.Or(o.task.Batch, batch), Block: block, Types: o.task.Types,
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	watch.begin()
	go func() { ended <- consumer.Run(running) }()
	err = o.await(consumer, ended)
	watch.end()
	stop()
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	if err := <-ended; err != nil {
		return err
	}
	if seen := o.seen.Load(); seen != o.last || passed(consumer) != int64(o.task.Messages) {
		return fmt.Errorf("%d of %d messages seen, %d of %d passed", seen, o.last, passed(consumer), o.task.Messages)
	}
	return nil
}

// await waits until the positions have moved past everything. The status is asked for only once Keep has seen all:
// asking has its price.
func (o *ours) await(consumer *redisstream.Consumer[bet], ended <-chan error) error {
	select {
	case <-o.all:
	case err := <-ended:
		return errors.Join(errors.New("it ended early"), err)
	}
	for passed(consumer) < int64(o.task.Messages) {
		select {
		case err := <-ended:
			return errors.Join(errors.New("it ended early"), err)
		case <-time.After(poll):
		}
	}
	return nil
}

// wanted is how many messages of a task are of a type that is wanted: all, or one in OneIn.
func wanted(task Task) int {
	if len(task.Types) == 0 {
		return task.Messages
	}
	return task.Messages / OneIn
}

// OneIn is how many messages there are for each of the type Wanted, in topics of two types.
const OneIn = 20

func passed(consumer *redisstream.Consumer[bet]) int64 {
	sum := int64(0)
	for _, partition := range consumer.Status().Partitions {
		sum += partition.Processed
	}
	return sum
}

func (o *ours) close() error {
	o.starter.CloseIdleConnections()
	return o.redis.Close()
}
