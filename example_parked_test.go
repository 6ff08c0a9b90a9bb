package restatestart_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/restatetest"
)

// parkedBets is a consumer, as a service or a tool of its operators makes it, with two bets that were parked before.
func parkedBets() (consumer *restatestart.Consumer[BetSettled], restate *restatetest.Server, done func()) {
	server := miniredis.NewMiniRedis()
	_ = server.Start()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	restate = restatetest.Start()
	starter, err := restatestart.New(withClaim, bonusPayout, restatestart.Options{Ingress: restate.URL(), HTTPClient: restate.Client()})
	if err != nil {
		panic(err)
	}
	consumer, err = restatestart.NewConsumer(rdb, "bets_settled", restatestart.JSON[BetSettled], starter,
		restatestart.ConsumerOptions{Consumer: "bonus-payout", OnRejected: restatestart.RejectedPark})
	if err != nil {
		panic(err)
	}
	store := parked.NewRedis(rdb, wire.Keys{Topic: "bets_settled"}, "bonus-payout")
	for i, key := range []string{"c-1", "c-2"} {
		_, _ = store.Park(context.Background(), 0, []parked.Parking{{
			Entry: wire.Entry{ID: wire.ID{Ms: uint64(17 + i)}, Body: `{"ClaimID":"` + key + `","Cents":1250}`, HasBody: true},
			Failure: parked.Failure{
				Reason: "rejected", Status: 400, Text: "400: input validation error", Workflow: "BonusPayout", Key: key,
			},
		}})
	}
	return consumer, restate, func() {
		_ = rdb.Close()
		restate.Close()
		server.Close()
	}
}

// What was put aside is listed a page at a time.
func ExampleConsumer_Parked() {
	consumer, _, done := parkedBets()
	defer done()
	ctx := context.Background()

	var page restatestart.ParkedPage
	for {
		entries, err := consumer.Parked(ctx, page)
		if err != nil {
			panic(err)
		}
		if len(entries) == 0 {
			break
		}
		for _, entry := range entries {
			body, _ := entry.Body()
			fmt.Println(entry.EntryID, entry.Reason, entry.Status, entry.Key, string(body))
			page.After = entry.ID
		}
	}
	// Output:
	// 17-0 rejected 400 c-1 {"ClaimID":"c-1","Cents":1250}
	// 18-0 rejected 400 c-2 {"ClaimID":"c-2","Cents":1250}
}

// Once the fault is mended, by a deployment of the workflow or of this service, what was parked is handed over again.
// What is still not accepted stays, and is named.
func ExampleConsumer_Replay() {
	consumer, restate, done := parkedBets()
	defer done()
	ctx := context.Background()
	restate.Script("c-2", restatetest.Status(400, `{"message":"input validation error"}`))

	entries, err := consumer.Parked(ctx, restatestart.ParkedPage{})
	if err != nil {
		panic(err)
	}
	var ids []string
	for _, entry := range entries {
		ids = append(ids, entry.ID)
	}
	if failed, ok := errors.AsType[*restatestart.ParkedError](consumer.Replay(ctx, ids...)); ok {
		for _, one := range failed.Failed {
			fmt.Println("still parked:", one.ID == ids[1], one.Err)
		}
	}
	for _, start := range restate.Starts() {
		fmt.Println("started:", start.Key)
	}
	// Output:
	// still parked: true 1 of 1 starts not accepted; start BonusPayout/c-2 (entry 18-0): rejected after 1 attempt: 400: input validation error
	// started: c-1
}

// What will never be worth a start is discarded, by its id.
func ExampleConsumer_Discard() {
	consumer, restate, done := parkedBets()
	defer done()
	ctx := context.Background()

	entries, err := consumer.Parked(ctx, restatestart.ParkedPage{Limit: 1})
	if err != nil {
		panic(err)
	}
	fmt.Println("discarded:", consumer.Discard(ctx, entries[0].ID))
	left, err := consumer.Parked(ctx, restatestart.ParkedPage{})
	if err != nil {
		panic(err)
	}
	fmt.Println("left:", len(left), left[0].Key)
	fmt.Println("starts:", len(restate.Starts()))
	fmt.Println("unknown:", errors.Is(consumer.Discard(ctx, entries[0].ID), restatestart.ErrNotParked))
	// Output:
	// discarded: <nil>
	// left: 1 c-2
	// starts: 0
	// unknown: true
}
