package restatestart_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

type BetSettled struct {
	BetID   string
	ClaimID string // empty on most bets
	Cents   int64
}

type PayoutInput struct {
	BetID string `json:"betId"`
	Cents int64  `json:"cents"`
}

func withClaim(m *restatestart.Message[BetSettled]) bool { return m.Value.ClaimID != "" }

func bonusPayout(m *restatestart.Message[BetSettled]) (restatestart.Start, error) {
	return restatestart.Start{
		Workflow: "BonusPayout",
		Key:      m.Value.ClaimID,
		Input:    PayoutInput{BetID: m.Value.BetID, Cents: m.Value.Cents},
	}, nil
}

// A Starter without a loop: a batch of two messages, of which one is worth a start. The fake stands in for Restate.
func Example() {
	restate := restatetest.Start()
	defer restate.Close()

	starter, err := restatestart.New(withClaim, bonusPayout, restatestart.Options{Ingress: restate.URL(), HTTPClient: restate.Client()})
	if err != nil {
		panic(err)
	}
	batch := []restatestart.Message[BetSettled]{
		{ID: "17-0", Value: BetSettled{BetID: "b-1"}},
		{ID: "17-1", Value: BetSettled{BetID: "b-2", ClaimID: "c-2", Cents: 1250}},
	}
	for range 2 { // the second time the same batch is a duplicate
		if err := starter.Handle(context.Background(), batch); err != nil {
			panic(err)
		}
	}
	for _, start := range restate.Starts() {
		fmt.Printf("%s/%s %s\n", start.Workflow, start.Key, start.Body)
	}
	fmt.Println("duplicates:", restate.Duplicates())
	// Output:
	// BonusPayout/c-2 {"betId":"b-2","cents":1250}
	// duplicates: 1
}

// What was not accepted comes back as a BlockedError that says which start failed, and why.
func ExampleStarter_Handle() {
	restate := restatetest.Start()
	defer restate.Close()
	restate.Script("c-2", restatetest.Status(400, `{"message":"input validation error"}`))

	starter, err := restatestart.New(nil, bonusPayout, restatestart.Options{Ingress: restate.URL(), HTTPClient: restate.Client()})
	if err != nil {
		panic(err)
	}
	err = starter.Handle(context.Background(), []restatestart.Message[BetSettled]{
		{ID: "17-0", Value: BetSettled{BetID: "b-1", ClaimID: "c-1", Cents: 500}},
		{ID: "17-1", Value: BetSettled{BetID: "b-2", ClaimID: "c-2", Cents: 1250}},
	})
	if blocked, ok := errors.AsType[*restatestart.BlockedError](err); ok {
		fmt.Println("accepted:", blocked.Accepted)
		for _, failed := range blocked.Failed {
			fmt.Println(failed.EntryID, failed.Key, failed.Reason, failed.Status)
		}
	}
	fmt.Println(err)
	// Output:
	// accepted: 1
	// 17-1 c-2 rejected 400
	// 1 of 2 starts not accepted; start BonusPayout/c-2 (entry 17-1): rejected after 1 attempt: 400: input validation error
}

// A start with a delay, a header and an input that is JSON already.
func ExampleStart() {
	restate := restatetest.Start()
	defer restate.Close()

	remind := func(m *restatestart.Message[BetSettled]) (restatestart.Start, error) {
		return restatestart.Start{
			Workflow: "Reminder",
			Key:      m.Value.BetID,
			Input:    json.RawMessage(m.Body),
			Delay:    time.Hour,
			Header:   http.Header{"X-Brand": {"orange"}},
		}, nil
	}
	starter, err := restatestart.New(nil, remind, restatestart.Options{Ingress: restate.URL(), HTTPClient: restate.Client()})
	if err != nil {
		panic(err)
	}
	err = starter.Handle(context.Background(), []restatestart.Message[BetSettled]{
		{ID: "17-0", Value: BetSettled{BetID: "b-1"}, Body: []byte(`{"BetID":"b-1"}`)},
	})
	fmt.Println(err)
	fmt.Println(restate.Requests()[0].RequestURI, restate.Requests()[0].Header.Get("X-Brand"))
	// Output:
	// <nil>
	// /Reminder/b-1/run/send?delay=3600000ms orange
}

// Headers for the test of a Keep or Map that reads them.
func ExampleNewHeaders() {
	headers, err := restatestart.NewHeaders(restatestart.Header{Name: "brand", Value: "orange"})
	if err != nil {
		panic(err)
	}
	message := restatestart.Message[BetSettled]{ID: "17-0", Headers: headers}
	brand, found, err := message.Headers.Lookup("brand")
	fmt.Println(brand, found, err)
	// Output: orange true <nil>
}
