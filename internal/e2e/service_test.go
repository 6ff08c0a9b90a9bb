package e2e_test

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/redisstream/admin"
)

// serviceConfig configures a consumer in a process of its own.
type serviceConfig struct {
	Redis        string
	Topic        string
	Ingress      string
	DrainTimeout time.Duration
	Parks        bool
	Fixed        bool     // Map makes of every bet an input that Restate accepts
	Replay       []string // parked entries to replay, instead of consuming
	Discard      []string // parked entries to discard, instead of consuming
	Kill         killing
}

// killing is where the service kills itself: before or after the nth time that it does something. The zero value is nowhere.
type killing struct {
	Step  step
	Nth   int // 0 is the first
	After bool
}

// step is something that the service does to its servers.
type step string

const (
	stepPark     step = "park"     // the script that parks entries
	stepPosition step = "position" // the script that writes the position
	stepPost     step = "post"     // the request that starts a workflow
	stepRemove   step = "remove"   // the script that removes a parked entry
)

// tooLarge makes an input that Restate refuses with 413 where its limit is 1 KiB.
const tooLarge = 2000

func runService(ctx context.Context, config serviceConfig, logger *slog.Logger) error {
	client := redis.NewUniversalClient(kit.ClientOptions(config.Redis))
	defer func() { _ = client.Close() }()
	killer := &killer{killing: config.Kill, transport: &http.Transport{MaxIdleConnsPerHost: 64}, done: map[step]int{}}
	client.AddHook(killer)
	mapBet := func(m *restatestart.Message[kit.Bet]) (restatestart.Start, error) {
		start, err := payoutOf(m)
		if err == nil && !config.Fixed && strings.HasSuffix(m.Value.Claim, "-bad") {
			start.Input = kit.Bet{ID: strings.Repeat("x", tooLarge)}
		}
		return start, err
	}
	starter, err := restatestart.New(kit.HasClaim, mapBet, restatestart.Options{Ingress: config.Ingress, HTTPClient: &http.Client{Transport: killer}})
	if err != nil {
		return err
	}
	options := redisstream.Options{Consumer: kit.ConsumerName, DrainTimeout: config.DrainTimeout, Logger: logger}
	if config.Parks {
		options.HoldMin, options.PersistInterval = 50*time.Millisecond, 50*time.Millisecond
		options.OnMalformed, options.OnRejected = redisstream.MalformedPark, redisstream.RejectedPark
	}
	consumer, err := redisstream.NewConsumer(client, redisstream.Topic(config.Topic), redisstream.JSON[kit.Bet], starter, options)
	switch {
	case err != nil:
		return err
	case config.Replay != nil:
		return consumer.Replay(ctx, config.Replay...)
	case config.Discard != nil:
		operator, err := admin.New(client, config.Topic, admin.Options{Consumer: kit.ConsumerName})
		if err != nil {
			return err
		}
		return operator.Discard(ctx, config.Discard...)
	default:
		return consumer.Run(ctx)
	}
}

// startService starts a consumer in a process of its own. It is killed with the test, and its log is shown when the test
// failed.
func startService(t *testing.T, config serviceConfig) *kit.Process {
	t.Helper()
	p, err := kit.StartProcess(config, filepath.Join(t.TempDir(), "service.log"))
	require.NoError(t, err)
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the log of %s:\n%s", p, p.Log())
		}
	})
	return p
}

// terminate asks a service to end and waits for its exit code 0.
func terminate(t *testing.T, p *kit.Process, limit time.Duration) {
	t.Helper()
	p.Signal(syscall.SIGTERM)
	require.True(t, p.Await(limit), "it ends within %s", limit)
	require.Equal(t, "exit code 0", p.Ending())
}

// killer kills its own process with SIGKILL at one step. It stands between the service and its servers.
type killer struct {
	killing

	transport http.RoundTripper

	mu   sync.Mutex
	done map[step]int
}

// do does something that may be the step. A failure does not count: it is retried.
func (k *killer) do(what step, do func() error) error {
	k.killAt(what, false)
	err := do()
	if err == nil {
		k.killAt(what, true)
	}
	return err
}

func (k *killer) killAt(what step, after bool) {
	k.mu.Lock()
	nth := k.done[what]
	if after {
		k.done[what]++
	}
	k.mu.Unlock()
	if what != "" && what == k.Step && nth == k.Nth && after == k.After {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives
	}
}

// RoundTrip implements http.RoundTripper.
func (k *killer) RoundTrip(request *http.Request) (response *http.Response, err error) {
	err = k.do(stepPost, func() error {
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
		return k.do(stepOf(command), func() error { return next(ctx, command) })
	}
}

// stepOf tells the scripts apart by their number of keys.
func stepOf(command redis.Cmder) step {
	const position = 9 // after name, hash, number of keys, two keys, writer, time, process and partition
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
		return stepPosition // and no mere check for resets, nor a record of where nothing was done
	default:
		return ""
	}
}
