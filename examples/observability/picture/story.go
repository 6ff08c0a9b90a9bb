package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/restatetest"
)

// phase is a time in which Restate behaves in one way.
type phase struct {
	name     string
	trouble  bool
	from, to time.Time
}

type story []phase

func (s story) begin() time.Time { return s[0].from }
func (s story) end() time.Time   { return s[len(s)-1].to }

// play lets Restate be well, ill and well again, in real time: the alert wants five minutes of trouble.
func (w *world) play(ctx context.Context) (story, error) {
	var told story
	for _, part := range []struct {
		name    string
		trouble bool
		lasts   time.Duration
		begin   func()
	}{
		{"idle", false, time.Minute, func() {}},
		{"healthy", false, 75 * time.Second, func() { close(w.open) }},
		{"answers 503", true, 3 * time.Minute, func() { w.ingress.ScriptAll(restatetest.Status(http.StatusServiceUnavailable).Always()) }},
		{"refuses", true, 4 * time.Minute, w.ingress.Down},
		{"recovered", false, 2 * time.Minute, func() { w.ingress.ScriptAll(); w.ingress.Up() }},
	} {
		log.Printf("%s, for %s", part.name, part.lasts)
		part.begin()
		begun := time.Now()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(part.lasts):
		}
		told = append(told, phase{name: part.name, trouble: part.trouble, from: begun, to: time.Now()})
	}
	return told, nil
}

const (
	topic      = "bets_settled"
	partitions = 4
)

// publish adds messages to three of the four partitions, 5, 2.5 and 1.25 a second, once the topic is open. Every tenth has
// no claim.
func (w *world) publish(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-w.open:
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for partition := range partitions - 1 {
			if n%(1<<partition) != 0 {
				continue
			}
			claim := fmt.Sprintf("c-%d-%d", partition, n)
			if n%10 == 0 {
				claim = ""
			}
			if err := w.redis.Client().XAdd(ctx, &redis.XAddArgs{Stream: fmt.Sprintf("s:{%s}:%d", topic, partition), Values: []string{
				"b", fmt.Sprintf(`{"betId":"b-%d-%d","claimId":%q,"amountCents":5}`, partition, n, claim), "t", "BetSettled", "k", "",
			}}).Err(); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}
