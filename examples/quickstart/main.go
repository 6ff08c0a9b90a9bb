// Quickstart shows what becomes of workflow starts while the Restate ingress is down: nothing is lost, nothing
// runs twice, and no code of the service deals with it.
//
//	go run ./examples/quickstart
//
// needs nothing installed. It publishes 10 000 settled bets on a RedisEvents topic of 4 partitions, one in twenty of
// them with a bonus claim, and starts a BonusPayout workflow for each claim. In the middle the ingress is down for 5 s.
// The last line tells what came of it; the exit code is 0 when nothing was lost.
//
// Flags put a real Redis (-redis) and a real Restate (-ingress) in the place of the doubles.
package main

import (
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
)

// BetSettled is what the topic carries.
type BetSettled struct {
	BetID       string `json:"betId"`
	ClaimID     string `json:"claimId,omitempty"` // of the bonus that the bet earned; most bets earn none
	AmountCents int64  `json:"amountCents"`
}

// PayoutInput is what the workflow gets.
type PayoutInput struct {
	BetID       string `json:"betId"`
	AmountCents int64  `json:"amountCents"`
}

const (
	topic        = "bets_settled"
	consumerName = "bonus-payout"
	workflow     = "BonusPayout"
)

// newConsumer is all that a service has to write. The rest of this program is the outage and its audience.
func newConsumer(rdb redis.UniversalClient, ingress ingress, config config) (*restatestart.Consumer[BetSettled], error) {
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
			// Less patient than the defaults, so that the outage outlasts a start's own retries and the hold shows.
			MaxAttempts: 3,
			RetryMin:    100 * time.Millisecond,
		})
	if err != nil {
		return nil, err
	}
	return restatestart.NewConsumer(rdb, topic, restatestart.JSON[BetSettled], starter, restatestart.ConsumerOptions{
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

// run is the demonstration from the first bet to the last line.
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
	publisher := newPublisher(rdb, config)
	if err := publisher.createTopic(ctx); err != nil {
		return err
	}

	screen := newScreen(out)
	screen.eventf("publishing %d bets on %d partitions; 1 in %d carries a claim, and is kept: it is worth a start", config.bets, config.partitions, claimEvery)
	screen.eventf("Redis is %s, the Restate ingress is %s", orInside(config.redis), orInside(config.ingress))
	watcher := newWatcher(consumer.Status, publisher, ingress, screen)
	running, stop := context.WithCancel(ctx)
	defer stop()
	work, running := errgroup.WithContext(running)
	work.Go(func() error { return consumer.Run(running) })
	work.Go(func() error { return publisher.publish(running) })
	work.Go(func() error { return outage(running, config.outage, ingress, screen) })
	work.Go(func() error {
		defer stop() // when there is nothing left to see, the consumer is asked to stop
		return watcher.watch(running)
	})
	err = work.Wait()
	screen.end()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	if err != nil && !errors.Is(err, errStuck) {
		return err
	}

	result := judge(publisher, ingress, watcher)
	if err == nil && result.lost == 0 {
		screen.eventf("every claim was started; %d holds of a partition ended by themselves; %d starts were sent twice, and known the second time",
			result.blocked, result.duplicates)
	}
	fmt.Fprintln(out, result)
	if err == nil && result.lost > 0 {
		err = fmt.Errorf("%d starts were lost", result.lost)
	}
	return err
}

func orInside(address string) string {
	if address == "" {
		return "a double inside this process"
	}
	return address
}
