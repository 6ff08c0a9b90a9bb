package admin_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/redisstream/admin"
)

// bonusPayout is a client for the consumer bonus-payout. A Redis double holds its topic of three entries, the position 17-0,
// and two bets that it has parked.
func bonusPayout() (client *admin.Client, done func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	for _, id := range []string{"17-0", "17-1", "17-2"} {
		_, _ = server.XAdd("s:{bets_settled}:0", id, []string{"b", `{}`})
	}
	server.HSet("p:{bets_settled}:bonus-payout", "0", "17-0|")
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	store := parked.NewRedis(rdb, wire.Keys{Topic: "bets_settled"}, "bonus-payout")
	for i, key := range []string{"c-1", "c-2"} {
		_, _ = store.Park(context.Background(), 0, []parked.Parking{{
			Entry:   wire.Entry{ID: wire.ID{Ms: 16, Seq: uint64(i)}, Body: `{"ClaimID":"` + key + `","Cents":1250}`, HasBody: true},
			Failure: parked.Failure{Reason: "rejected", Status: 400, Text: "400: input validation error", Workflow: "BonusPayout", Key: key},
		}})
	}
	client, err := admin.New(rdb, "bets_settled", admin.Options{Consumer: "bonus-payout"})
	if err != nil {
		panic(err)
	}
	return client, func() {
		_ = rdb.Close()
		server.Close()
	}
}

func ExampleClient_Positions() {
	client, done := bonusPayout()
	defer done()
	positions, err := client.Positions(context.Background())
	if err != nil {
		panic(err)
	}
	for _, position := range positions {
		fmt.Println(position.Stream, "position", position.Position, "last", position.Last, "lag", *position.Lag)
	}
	// Output:
	// s:{bets_settled}:0 position 17-0 last 17-2 lag 2
}

// An operator skips a message that will never be accepted. The consumer need not be running.
func ExampleClient_Reset() {
	client, done := bonusPayout()
	defer done()
	ctx := context.Background()
	preview, err := client.PreviewReset(ctx, 0, admin.ToID("17-1"))
	if err != nil {
		panic(err)
	}
	fmt.Println("from", preview.From, "to", preview.To, "skipped", preview.Skipped, "redelivered", preview.Redelivered)
	if _, err := client.Reset(ctx, 0, admin.ToID("17-1")); err != nil {
		panic(err)
	}
	positions, err := client.Positions(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println("pending:", positions[0].Pending.To)
	// Output:
	// from 17-0 to 17-1 skipped 1 redelivered 0
	// pending: 17-1
}

// As long as no consumer has applied a reset, it can be cancelled.
func ExampleClient_CancelReset() {
	client, done := bonusPayout()
	defer done()
	ctx := context.Background()
	if _, err := client.Reset(ctx, 0, admin.ToBeginning()); err != nil {
		panic(err)
	}
	for range 2 {
		fmt.Println(client.CancelReset(ctx, 0))
	}
	// Output:
	// true <nil>
	// false <nil>
}

// Parked entries are listed a page at a time.
func ExampleClient_Parked() {
	client, done := bonusPayout()
	defer done()
	var page admin.ParkedPage
	for {
		entries, err := client.Parked(context.Background(), page)
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
	// 16-0 rejected 400 c-1 {"ClaimID":"c-1","Cents":1250}
	// 16-1 rejected 400 c-2 {"ClaimID":"c-2","Cents":1250}
}

// An entry that will never be started is discarded. Consumer.Replay, in package redisstream, starts parked entries.
func ExampleClient_Discard() {
	client, done := bonusPayout()
	defer done()
	ctx := context.Background()
	entries, err := client.Parked(ctx, admin.ParkedPage{Limit: 1})
	if err != nil {
		panic(err)
	}
	fmt.Println("discarded:", client.Discard(ctx, entries[0].ID))
	fmt.Println("not parked:", errors.Is(client.Discard(ctx, entries[0].ID), admin.ErrNotParked))
	left, err := client.Parked(ctx, admin.ParkedPage{})
	if err != nil {
		panic(err)
	}
	fmt.Println("left:", len(left), left[0].Key)
	// Output:
	// discarded: <nil>
	// not parked: true
	// left: 1 c-2
}
