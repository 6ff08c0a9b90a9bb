package contender

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/redisstream"
)

// latency measures how long an entry takes from just before its XADD until its POST is handed to the transport, on
// streams that are idle.
type latency struct {
	task    Task
	redis   *redis.Client
	starter *restatestart.Starter[bet]
	posted  chan time.Time
}

// What the contender Latency measures, in Figures.Values, in milliseconds.
const (
	LatencyMedian = "p50"
	LatencyP99    = "p99"
	LatencyMax    = "max"
)

func newLatency(task Task) (*latency, error) {
	l := &latency{task: task, redis: redisClient(task), posted: make(chan time.Time, 1)}
	transport := canned(func(request *http.Request) (*http.Response, error) {
		l.posted <- time.Now()
		return answer(request)
	})
	var err error
	l.starter, err = restatestart.New(nil, payoutOf, restatestart.Options{
		Ingress: cannedIngress, HTTPClient: &http.Client{Transport: transport},
	})
	return l, err
}

func (l *latency) round(ctx context.Context, prefix string, watch *stopwatch) error {
	consumer, err := redisstream.NewConsumer(l.redis, redisstream.Topic(l.task.Topic), redisstream.JSON[bet], l.starter, redisstream.Options{
		Consumer: "latency-" + prefix, Partitions: l.task.Partitions, StartFrom: redisstream.FromNow(),
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(running) }()
	time.Sleep(200 * time.Millisecond) // until it knows where the streams end, and waits there

	took := make([]time.Duration, 0, l.task.Messages)
	for n := range l.task.Messages {
		time.Sleep(time.Duration(2_000+rand.IntN(8_000)) * time.Microsecond) // it has become idle, at any point of its round
		began := time.Now()
		err := l.redis.XAdd(ctx, &redis.XAddArgs{
			Stream: StreamKey(l.task.Topic, n%l.task.Partitions), Values: []any{"b", Body(n, BodySize), "t", Wanted, "k", ""},
		}).Err()
		if err != nil {
			return err
		}
		select {
		case at := <-l.posted:
			took = append(took, at.Sub(began))
		case err := <-ended:
			return errors.Join(errors.New("it ended early"), err)
		case <-time.After(30 * time.Second):
			return fmt.Errorf("message %d was not posted", n)
		}
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	slices.Sort(took)
	at := func(part float64) float64 {
		return float64(took[min(len(took)-1, int(part*float64(len(took))))]) / float64(time.Millisecond)
	}
	watch.figures.Values = map[string]float64{LatencyMedian: at(0.5), LatencyP99: at(0.99), LatencyMax: at(1)}
	return nil
}

func (l *latency) close() error { return l.redis.Close() }
