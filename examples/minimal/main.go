// Minimal is all that a service needs: for the parts around it see bonuspayout.
package main

import (
	"context"
	"log"
	"os"
	"os/signal"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/redisstream"
)

type BetSettled struct{ BetID, ClaimID string }

type PayoutInput struct{ BetID string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Print(err)
	}
}

func run(ctx context.Context) error {
	starter, err := restatestart.New(
		func(m *restatestart.Message[BetSettled]) bool { return m.Value.ClaimID != "" },
		func(m *restatestart.Message[BetSettled]) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "BonusPayout", Key: m.Value.ClaimID, Input: PayoutInput{m.Value.BetID}}, nil
		},
		restatestart.Options{Ingress: "http://localhost:8080"})
	if err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	consumer, err := redisstream.NewConsumer(rdb, redisstream.Topic("bets_settled"), redisstream.JSON[BetSettled], starter,
		redisstream.Options{Consumer: "bonus-payout"})
	if err != nil {
		return err
	}
	return consumer.Run(ctx) // until ctx is cancelled
}
