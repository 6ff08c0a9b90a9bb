package e2e_test

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart"
)

// parkingConfig is what a service that parks is told: to consume, or, with ids given, to replay or discard those.
type parkingConfig struct {
	Replay  []string
	Discard []string
	Mended  bool // Map makes of every bet an input that Restate takes
	Kill    killing
}

// killing is where the service kills itself: before or after something that it does for the nth time. The zero value is
// nowhere.
type killing struct {
	What  step
	Nth   int // 0 is the first
	After bool
}

// step is something that the service does to the world around it.
type step string

const (
	stepPark     step = "park"     // the script that puts entries aside
	stepPosition step = "position" // the script that writes the position
	stepPost     step = "post"     // the request that starts a workflow
	stepRemove   step = "remove"   // the script that takes a parked entry out
)

// tooLarge makes an input that Restate refuses with 413 where its limit is 1 KiB.
const tooLarge = 2000

func consumeParking(ctx context.Context, config serviceConfig, client *redis.Client, logger *slog.Logger) error {
	parking := config.Parking
	killer := &killer{killing: parking.Kill, transport: &http.Transport{}, done: map[step]int{}}
	client.AddHook(killer)
	mapBet := func(m *restatestart.Message[bet]) (restatestart.Start, error) {
		start, err := payoutOf(m)
		if err == nil && !parking.Mended && strings.HasSuffix(m.Value.Claim, "-bad") {
			start.Input = bet{ID: strings.Repeat("x", tooLarge)}
		}
		return start, err
	}
	starter, err := restatestart.New(hasClaim, mapBet, restatestart.Options{Ingress: config.Ingress, HTTPClient: &http.Client{Transport: killer}})
	if err != nil {
		return err
	}
	consumer, err := restatestart.NewConsumer(client, config.Topic, restatestart.JSON[bet], starter, restatestart.ConsumerOptions{
		Consumer: consumerName, Logger: logger, HoldMin: 50 * time.Millisecond, PersistInterval: 50 * time.Millisecond,
		OnMalformed: restatestart.MalformedPark, OnRejected: restatestart.RejectedPark,
	})
	switch {
	case err != nil:
		return err
	case parking.Replay != nil:
		return consumer.Replay(ctx, parking.Replay...)
	case parking.Discard != nil:
		return consumer.Discard(ctx, parking.Discard...)
	default:
		return consumer.Run(ctx)
	}
}

// killer ends its own process with SIGKILL at one step. It is what stands between the service and its servers.
type killer struct {
	killing

	transport http.RoundTripper

	mu   sync.Mutex
	done map[step]int
}

// see does something that may be the step. What fails does not count: it is done again.
func (k *killer) see(what step, do func() error) error {
	if k.is(what, false) {
		die()
	}
	if err := do(); err != nil {
		return err
	}
	if k.is(what, true) {
		die()
	}
	return nil
}

// is tells whether this is the step, and counts it once it is done: starts are made at the same time.
func (k *killer) is(what step, after bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	nth := k.done[what]
	if after {
		k.done[what]++
	}
	return what != "" && what == k.What && nth == k.Nth && after == k.After
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // until the signal is there
}

// RoundTrip implements http.RoundTripper.
func (k *killer) RoundTrip(request *http.Request) (response *http.Response, err error) {
	err = k.see(stepPost, func() error {
		response, err = k.transport.RoundTrip(request)
		return err
	})
	return response, err
}

// DialHook implements redis.Hook.
func (k *killer) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (k *killer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (k *killer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		return k.see(stepOf(command), func() error { return next(ctx, command) })
	}
}

// stepOf tells the scripts apart by how many keys they have.
func stepOf(command redis.Cmder) step {
	const position = 9 // behind name, hash, number of keys, two keys, writer, time, process and partition
	args := command.Args()
	if name := command.Name(); name != "evalsha" && name != "eval" {
		return ""
	}
	switch keys := args[2]; {
	case keys == 6:
		return stepPark
	case keys == 5:
		return stepRemove
	case keys == 2 && len(args) > position && args[position] != "" && args[position] != uint64(0):
		return stepPosition // and no mere look for resets, nor a note of where nothing was done
	default:
		return ""
	}
}
