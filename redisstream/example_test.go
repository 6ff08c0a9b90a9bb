package redisstream_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/adminapi/adminapitest"
	"github.com/redisevents/restatestart/preflight"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/redisstream/admin"
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

// doubles are a Redis and a Restate in this process, each with a client.
func doubles() (rdb *redis.Client, restate *restatetest.Server, done func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	rdb, restate = redis.NewClient(&redis.Options{Addr: server.Addr()}), restatetest.Start()
	return rdb, restate, func() {
		_ = rdb.Close()
		restate.Close()
		server.Close()
	}
}

func newStarter(restate *restatetest.Server) *restatestart.Starter[BetSettled] {
	starter, err := restatestart.New(withClaim, bonusPayout, restatestart.Options{Ingress: restate.URL(), HTTPClient: restate.Client()})
	if err != nil {
		panic(err)
	}
	return starter
}

func publish(rdb *redis.Client, bodies ...string) {
	for _, body := range bodies {
		rdb.XAdd(context.Background(), &redis.XAddArgs{Stream: "s:{bets_settled}:0", Values: []any{"b", body, "t", "BetSettled", "k", ""}})
	}
}

// runUntil runs a consumer until something is done, and returns what Run returned.
func runUntil(consumer *redisstream.Consumer[BetSettled], done func() bool) error {
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- consumer.Run(ctx) }()
	for !done() {
		time.Sleep(time.Millisecond) // real time: sockets do not work in a synctest bubble
	}
	stop()
	return <-stopped
}

// A Consumer reads a topic and hands its messages to a Starter.
func Example() {
	rdb, restate, done := doubles()
	defer done()
	consumer, err := redisstream.NewConsumer(rdb, redisstream.Topic("bets_settled"), redisstream.JSON[BetSettled], newStarter(restate),
		redisstream.Options{Consumer: "bonus-payout"})
	if err != nil {
		panic(err)
	}
	publish(rdb, `{"BetID":"b-1"}`, `{"BetID":"b-2","ClaimID":"c-2","Cents":1250}`)
	fmt.Println("stopped:", runUntil(consumer, func() bool { return len(restate.Starts()) > 0 }))
	for _, start := range restate.Starts() {
		fmt.Println(start.Workflow, start.Key, string(start.Body))
	}
	// Output:
	// stopped: <nil>
	// BonusPayout c-2 {"betId":"b-2","cents":1250}
}

// A service with its own go-redis loop makes messages of the entries that it reads, and continues when Handle returns nil.
func ExampleNewMessage() {
	_, restate, done := doubles()
	defer done()
	starter := newStarter(restate)
	read := []redis.XMessage{ // from XREAD or XREADGROUP
		{ID: "17-0", Values: map[string]any{"b": `{"BetID":"b-1","ClaimID":"c-1","Cents":500}`, "t": "BetSettled"}},
		{ID: "17-1", Values: map[string]any{"payload": "of another kind"}},
	}
	var batch []restatestart.Message[BetSettled]
	for _, entry := range read {
		message, err := redisstream.NewMessage("bets", 0, entry, redisstream.JSON[BetSettled])
		if errors.Is(err, redisstream.ErrMalformed) {
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

// Any function can be the handler, and call a Starter.
func ExampleHandlerFunc() {
	_, restate, done := doubles()
	defer done()
	starter := newStarter(restate)
	counting := redisstream.HandlerFunc[BetSettled](func(ctx context.Context, batch []restatestart.Message[BetSettled]) error {
		fmt.Println("messages:", len(batch))
		return starter.Handle(ctx, batch)
	})
	fmt.Println("handled:", counting.Handle(context.Background(), make([]restatestart.Message[BetSettled], 3)))
	// Output:
	// messages: 3
	// handled: <nil>
}

// JSON refuses bodies that other decoders make something of.
func ExampleJSON() {
	for _, body := range []string{`{"ClaimID":"c-1"}`, `{"ClaimID":"c-1"} {}`, ``, `{"Cents":"twelve"}`} {
		bet, err := redisstream.JSON[BetSettled]([]byte(body))
		fmt.Printf("%q %v\n", bet.ClaimID, err)
	}
	// Output:
	// "c-1" <nil>
	// "" invalid character '{' after top-level value
	// "" body is empty
	// "" field Cents, at byte 17, does not fit int64
}

// Status shows what each partition is doing, also before Run is called and after it has returned.
func ExampleConsumer_Status() {
	rdb, restate, done := doubles()
	defer done()
	consumer, err := redisstream.NewConsumer(rdb, redisstream.Topic("bets_settled"), redisstream.JSON[BetSettled], newStarter(restate),
		redisstream.Options{Consumer: "bonus-payout"})
	if err != nil {
		panic(err)
	}
	fmt.Println(consumer.Status().State)
	publish(rdb, `{"BetID":"b-1"}`, `{"BetID":"b-2","ClaimID":"c-2","Cents":1250}`)
	processed := func() int64 {
		for _, partition := range consumer.Status().Partitions {
			return partition.Processed
		}
		return 0
	}
	fmt.Println("stopped:", runUntil(consumer, func() bool { return processed() == 2 }))
	status := consumer.Status()
	fmt.Println(status.State, status.Partitions[0].Stream, status.Partitions[0].Delivered)
	// Output:
	// starting
	// stopped: <nil>
	// stopped s:{bets_settled}:0 2
}

// With StrictPreflight a misspelt handler is an error of Run, before anything is read.
func ExampleConsumer_Run_preflight() {
	restate := adminapitest.New("1.7.12") // a double of the admin API, with a workflow BonusPayout whose handler is run
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
	defer func() { _ = rdb.Close() }()
	consumer, err := redisstream.NewConsumer(rdb, redisstream.Topic("bets_settled"), redisstream.JSON[BetSettled],
		redisstream.HandlerFunc[BetSettled](func(context.Context, []restatestart.Message[BetSettled]) error { return nil }),
		redisstream.Options{
			Consumer: "bonus-payout",
			Preflight: &preflight.Options{
				AdminURL:         "http://restate:9070",
				Workflows:        []preflight.Workflow{{Name: "BonusPayout", Handler: "Run"}},
				RedeliveryWindow: 72 * time.Hour,
				HTTPClient:       restate.Client(),
			},
			StrictPreflight: true,
		})
	if err != nil {
		panic(err)
	}
	err = consumer.Run(context.Background())
	if failed, ok := errors.AsType[*preflight.Error](err); ok {
		for _, finding := range failed.Findings {
			fmt.Println(finding.Code, "-", finding.Text)
		}
	}
	// Output:
	// retention - BonusPayout: its workflow_completion_retention of 1d is shorter than the redelivery window of 72h0m0s
	// handler_unknown - BonusPayout: it has no handler Run; the one that runs the workflow is run
}

// Once the cause is fixed, by a deployment of the workflow or of this service, parked entries are delivered again. An entry
// that fails once more stays parked.
func ExampleConsumer_Replay() {
	rdb, restate, done := doubles()
	defer done()
	consumer, err := redisstream.NewConsumer(rdb, redisstream.Topic("bets_settled"), redisstream.JSON[BetSettled], newStarter(restate),
		redisstream.Options{Consumer: "bonus-payout", OnRejected: redisstream.RejectedPark, HoldMin: time.Millisecond})
	if err != nil {
		panic(err)
	}
	restate.Script("c-1", restatetest.Status(400, "input validation error").Times(2))
	restate.Script("c-2", restatetest.Status(400, "input validation error").Always())
	publish(rdb, `{"ClaimID":"c-1","Cents":500}`, `{"ClaimID":"c-2","Cents":1250}`)
	client, err := admin.New(rdb, "bets_settled", admin.Options{Consumer: "bonus-payout"})
	if err != nil {
		panic(err)
	}
	parked := func() (ids []string) {
		entries, err := client.Parked(context.Background(), admin.ParkedPage{})
		if err != nil {
			panic(err)
		}
		for _, entry := range entries {
			ids = append(ids, entry.ID)
		}
		return ids
	}
	fmt.Println("stopped:", runUntil(consumer, func() bool { return len(parked()) == 2 }))

	err = consumer.Replay(context.Background(), parked()...)
	if failed, ok := errors.AsType[*admin.ParkedError](err); ok {
		for _, entry := range failed.Failed {
			if blocked, ok := errors.AsType[*restatestart.BlockedError](entry.Err); ok {
				fmt.Println("still parked:", blocked.Failed[0].Key, blocked.Failed[0].Status)
			}
		}
	}
	for _, start := range restate.Starts() {
		fmt.Println("started:", start.Key)
	}
	fmt.Println("parked:", len(parked()))
	// Output:
	// stopped: <nil>
	// still parked: c-2 400
	// started: c-1
	// parked: 1
}
