package restatestart_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/admin/admintest"
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

// A stream in, started workflows out. Redis and Restate are doubles here.
func Example() {
	server := miniredis.NewMiniRedis()
	_ = server.Start()
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	restate := restatetest.Start()
	defer restate.Close()

	starter, err := restatestart.New(withClaim, bonusPayout, restatestart.Options{
		Ingress: restate.URL(), HTTPClient: restate.Client(),
	})
	if err != nil {
		panic(err)
	}
	consumer, err := restatestart.NewConsumer(rdb, "bets_settled", restatestart.JSON[BetSettled], starter,
		restatestart.ConsumerOptions{Consumer: "bonus-payout"})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- consumer.Run(ctx) }()

	for _, body := range []string{`{"BetID":"b-1"}`, `{"BetID":"b-2","ClaimID":"c-2","Cents":1250}`} {
		rdb.XAdd(ctx, &redis.XAddArgs{Stream: "s:{bets_settled}:0", Values: []any{"b", body, "t", "BetSettled", "k", ""}})
	}
	for len(restate.Starts()) == 0 {
		time.Sleep(time.Millisecond) // real time: there is a Redis in it
	}
	stop()
	fmt.Println("stopped:", <-stopped)
	for _, start := range restate.Starts() {
		fmt.Println(start.Workflow, start.Key, string(start.Body))
	}
	// Output:
	// stopped: <nil>
	// BonusPayout c-2 {"betId":"b-2","cents":1250}
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

// A service with a go-redis loop of its own makes messages of what it read, and moves on when Handle returns nil.
func ExampleNewMessage() {
	restate := restatetest.Start()
	defer restate.Close()
	starter, err := restatestart.New(withClaim, bonusPayout, restatestart.Options{Ingress: restate.URL(), HTTPClient: restate.Client()})
	if err != nil {
		panic(err)
	}
	read := []redis.XMessage{ // of XREAD or XREADGROUP
		{ID: "17-0", Values: map[string]any{"b": `{"BetID":"b-1","ClaimID":"c-1","Cents":500}`, "t": "BetSettled"}},
		{ID: "17-1", Values: map[string]any{"payload": "of another kind"}},
	}
	var batch []restatestart.Message[BetSettled]
	for _, entry := range read {
		message, err := restatestart.NewMessage("bets", 0, entry, restatestart.JSON[BetSettled])
		if errors.Is(err, restatestart.ErrMalformed) {
			fmt.Println(err)
			continue
		}
		batch = append(batch, message)
	}
	fmt.Println("handled:", starter.Handle(context.Background(), batch))
	// Output:
	// entry 17-1 of bets: malformed entry: there is no field "b"
	// handled: <nil>
}

// Any handler can take the place of a Starter, or stand before one.
func ExampleHandlerFunc() {
	restate := restatetest.Start()
	defer restate.Close()
	starter, err := restatestart.New(withClaim, bonusPayout, restatestart.Options{Ingress: restate.URL(), HTTPClient: restate.Client()})
	if err != nil {
		panic(err)
	}
	counting := restatestart.HandlerFunc[BetSettled](func(ctx context.Context, batch []restatestart.Message[BetSettled]) error {
		fmt.Println("messages:", len(batch))
		return starter.Handle(ctx, batch)
	})
	fmt.Println("handled:", counting.Handle(context.Background(), make([]restatestart.Message[BetSettled], 3)))
	// Output:
	// messages: 3
	// handled: <nil>
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

// JSON refuses what would make a wrong start of a broken body.
func ExampleJSON() {
	for _, body := range []string{`{"ClaimID":"c-1"}`, `{"ClaimID":"c-1"} {}`, ``, `{"Cents":"twelve"}`} {
		bet, err := restatestart.JSON[BetSettled]([]byte(body))
		fmt.Printf("%q %v\n", bet.ClaimID, err)
	}
	// Output:
	// "c-1" <nil>
	// "" invalid character '{' after top-level value
	// "" body is empty
	// "" field Cents, at byte 17, does not fit int64
}

// The status of a consumer is what a health endpoint is made of. A blocked partition is not a dead one.
func ExampleConsumer_Status() {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer func() { _ = rdb.Close() }()
	consumer, err := restatestart.NewConsumer(rdb, "bets_settled", restatestart.JSON[BetSettled],
		restatestart.HandlerFunc[BetSettled](func(context.Context, []restatestart.Message[BetSettled]) error { return nil }),
		restatestart.ConsumerOptions{Consumer: "bonus-payout"})
	if err != nil {
		panic(err)
	}
	fmt.Println(consumer.Status().State) // Run was not called yet
	// Output: starting
}

// An operator steps over a message that will never be accepted. The consumer need not run.
func ExamplePositions() {
	server := miniredis.NewMiniRedis()
	_ = server.Start()
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	for _, id := range []string{"17-0", "17-1", "17-2"} {
		_, _ = server.XAdd("s:{bets_settled}:0", id, []string{"b", `{}`})
	}
	server.HSet("p:{bets_settled}:bonus-payout", "0", "17-0|")

	positions, err := restatestart.NewPositions(rdb, "bets_settled", restatestart.PositionsOptions{Consumer: "bonus-payout"})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	preview, err := positions.Preview(ctx, 0, restatestart.ToID("17-1"))
	if err != nil {
		panic(err)
	}
	fmt.Println("from", preview.From, "to", preview.To, "skips", preview.Skipped, "and reads again", preview.Again)
	if _, err := positions.Reset(ctx, 0, restatestart.ToID("17-1")); err != nil {
		panic(err)
	}
	list, err := positions.List(ctx)
	if err != nil {
		panic(err)
	}
	for _, at := range list {
		fmt.Println(at.Stream, "lag", *at.Lag, "waiting for the consumer to go on behind", at.Pending.To)
	}
	// Output:
	// from 17-0 to 17-1 skips 1 and reads again 0
	// s:{bets_settled}:0 lag 1 waiting for the consumer to go on behind 17-1
}

// A strict preflight makes a misspelt handler an error of Run, before anything is read.
func ExamplePreflight() {
	restate := admintest.New("1.7.12") // a double of Restate's admin API, with a workflow BonusPayout whose handler is run
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer func() { _ = rdb.Close() }()
	consumer, err := restatestart.NewConsumer(rdb, "bets_settled", restatestart.JSON[BetSettled],
		restatestart.HandlerFunc[BetSettled](func(context.Context, []restatestart.Message[BetSettled]) error { return nil }),
		restatestart.ConsumerOptions{Consumer: "bonus-payout", Preflight: &restatestart.Preflight{
			AdminURL:         "http://restate:9070",
			Workflows:        []restatestart.PreflightWorkflow{{Name: "BonusPayout", Handler: "Run"}},
			RedeliveryWindow: 72 * time.Hour,
			Strict:           true,
			HTTPClient:       restate.Client(),
		}})
	if err != nil {
		panic(err)
	}
	err = consumer.Run(context.Background())
	if failed, ok := errors.AsType[*restatestart.PreflightError](err); ok {
		for _, finding := range failed.Findings {
			fmt.Println(finding.Code, "-", finding.Text)
		}
	}
	// Output:
	// retention - BonusPayout: it is forgotten 1d after its completion, by its workflow_completion_retention, and the redelivery window is 72h0m0s
	// handler_unknown - BonusPayout: it has no handler Run; that is run
}
