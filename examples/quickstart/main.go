// Quickstart shows what happens to workflow starts while the Restate ingress is down: nothing is lost, nothing runs twice, and
// the service needs no code for it.
//
//	go run ./examples/quickstart
//
// needs nothing installed. It publishes 10 000 settled bets on a RedisEvents topic of 4 partitions, one in twenty of
// them with a bonus claim, and starts a BonusPayout workflow for each claim. In the middle the ingress is down for 5 s.
// The last line has the totals; the exit code is 0 if nothing was lost.
//
// The flags -redis and -ingress replace the fakes by a real Redis and a real Restate.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/redisstream"
)

// BetSettled is a message of the topic.
type BetSettled struct {
	BetID       string `json:"betId"`
	ClaimID     string `json:"claimId,omitempty"` // of the bonus that the bet earned; most bets earn none
	AmountCents int64  `json:"amountCents"`
}

// PayoutInput is the workflow's input.
type PayoutInput struct {
	BetID       string `json:"betId"`
	AmountCents int64  `json:"amountCents"`
}

const (
	topic        = "bets_settled"
	consumerName = "bonus-payout"
	workflow     = "BonusPayout"
)

// newConsumer is all that a service has to write. The rest of this program makes the outage and reports on it.
func newConsumer(rdb redis.UniversalClient, ingress ingress, config config) (*redisstream.Consumer[BetSettled], error) {
	starter, err := restatestart.New(
		func(m *restatestart.Message[BetSettled]) bool { return m.Value.ClaimID != "" },
		func(m *restatestart.Message[BetSettled]) (restatestart.Start, error) {
			return restatestart.Start{
				Workflow: workflow,
				Key:      m.Value.ClaimID,
				Input:    PayoutInput{BetID: m.Value.BetID, AmountCents: m.Value.AmountCents},
			}, nil
		},
		restatestart.Options{
			Ingress:    ingress.URL(),
			Handler:    config.handler,
			HTTPClient: ingress.Client(),
			// Fewer attempts than the default, so that the outage outlasts the retries of a start and holds its partition.
			MaxAttempts: 3,
			RetryMin:    100 * time.Millisecond,
		})
	if err != nil {
		return nil, err
	}
	return redisstream.NewConsumer(rdb, redisstream.Topic(topic), redisstream.JSON[BetSettled], starter, redisstream.Options{
		Consumer:  consumerName,
		KeyPrefix: config.keyPrefix(),
		HoldMin:   500 * time.Millisecond,
		HoldMax:   time.Second,
	})
}

func main() {
	config, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	if err := run(ctx, config, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, config config, out io.Writer) (err error) {
	rdb, closeRedis, err := openRedis(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeRedis()) }()
	ingress := openIngress(config)
	defer ingress.Close()

	consumer, err := newConsumer(rdb, ingress, config)
	if err != nil {
		return err
	}
	publisher := &publisher{rdb: rdb, config: config}
	if err := publisher.createTopic(ctx); err != nil {
		return err
	}

	progress := newProgress(out)
	progress.eventf("publishing %d bets on %d partitions; 1 in %d has a claim, and starts a workflow", config.bets, config.partitions, claimEvery)
	progress.eventf("Redis: %s; Restate ingress: %s", cmp.Or(config.redis, "fake"), cmp.Or(config.ingress, "fake"))
	watcher := &watcher{
		status: consumer.Status, publisher: publisher, ingress: ingress, progress: progress, blocked: map[int]redisstream.Blocked{},
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	work, running := errgroup.WithContext(running)
	work.Go(func() error { return consumer.Run(running) })
	work.Go(func() error { return publisher.publish(running) })
	work.Go(func() error { return outage(running, config.outage, ingress, progress) })
	work.Go(func() error {
		defer stop() // the consumer
		return watcher.watch(running)
	})
	err = work.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil && !errors.Is(err, errStuck) {
		return err
	}

	result := watcher.result()
	if err == nil && result.lost == 0 {
		progress.eventf("every claim was started; %d holds recovered; %d starts were sent twice and ran once", result.blocked, result.duplicates)
	}
	fmt.Fprintln(out, result)
	if err == nil && result.lost > 0 {
		err = fmt.Errorf("%d starts were lost", result.lost)
	}
	return err
}
