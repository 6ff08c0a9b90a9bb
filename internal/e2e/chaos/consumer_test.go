package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/redisevents/restatestart"
)

// consumerVariable in its environment, with a consumerConfig in JSON, makes the test binary a service that consumes, in
// place of running tests.
const consumerVariable = "CHAOS_CONSUMER"

const consumerName = "payout"

// drainTimeout is how long a consumer's batch may take once it is asked to end.
const drainTimeout = 2 * time.Second

// consumerConfig is all that the service needs to know.
type consumerConfig struct {
	Redis     redisConfig
	Topic     string
	Ingress   string
	Index     int // of Count instances
	Count     int
	BatchSize int
	ReadAhead int
	Parallel  int
	Each      bool // positions are written with each batch
	Broken    breakage
}

// redisConfig is where the service finds Redis.
type redisConfig struct {
	Addresses []string
	Master    string // of a sentinel; its addresses are those of the sentinels then
	Cluster   bool
	Username  string
	Password  string
}

// connect makes a client as a service does, but for times that suit a run of minutes.
func (c redisConfig) connect() redis.UniversalClient {
	const timeout = time.Second
	quiet := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch {
	case c.Master != "":
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: c.Master, SentinelAddrs: c.Addresses, DisableIdentity: true,
			DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
		})
	case c.Cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: c.Addresses, DisableIdentity: true, MaintNotificationsConfig: quiet,
			DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
		})
	default:
		return redis.NewClient(&redis.Options{
			Addr: c.Addresses[0], Username: c.Username, Password: c.Password, DisableIdentity: true,
			MaintNotificationsConfig: quiet, DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout,
		})
	}
}

// runConsumer is a service's main: it consumes until SIGTERM and returns the exit code.
func runConsumer(text string) int {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := consume(ctx, text, logger); err != nil {
		logger.Error("ended", slog.Any("error", err))
		return 1
	}
	logger.Info("ended")
	return 0
}

func consume(ctx context.Context, text string, logger *slog.Logger) error {
	var config consumerConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	client := config.Redis.connect()
	defer func() { _ = client.Close() }()
	starter, err := restatestart.New(hasClaim, payoutOf, restatestart.Options{
		Ingress: config.Ingress, MaxParallelism: config.Parallel, MaxAttempts: 3, AttemptTimeout: time.Second,
		RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	handler, err := config.Broken.wrap(starter)
	if err != nil {
		return err
	}
	persist := restatestart.PersistBackground
	if config.Each {
		persist = restatestart.PersistEachBatch
	}
	consumer, err := restatestart.NewConsumer(client, config.Topic, restatestart.JSON[message], handler,
		restatestart.ConsumerOptions{
			Consumer: consumerName, InstanceCount: config.Count, InstanceIndex: &config.Index, BatchSize: config.BatchSize, ReadAhead: config.ReadAhead,
			Persist: persist, PersistInterval: 100 * time.Millisecond, Block: 500 * time.Millisecond,
			HoldMin: 50 * time.Millisecond, HoldMax: time.Second, DrainTimeout: drainTimeout, Logger: logger,
		})
	if err != nil {
		return err
	}
	asked := make(chan time.Time, 1)
	go func() {
		<-ctx.Done()
		asked <- time.Now()
	}()
	if err := consumer.Run(ctx); err != nil {
		return err
	}
	took := time.Since(<-asked)
	logger.Info("run returned", slog.Duration("after", took))
	if took > drainTimeout+time.Second+busy {
		return fmt.Errorf("Run took %s to return", took)
	}
	return nil
}

// busy is what a machine with much to do may add to a time.
const busy = 500 * time.Millisecond

// breakage is what is wrong with a consumer on purpose; empty: nothing.
type breakage string

// The breakages that the checker is tried with.
const (
	// savesEarly says that a batch is done before Restate has answered.
	savesEarly breakage = "saves early"
	// swallows takes a start that was not accepted for done.
	swallows breakage = "swallows"
	// reverses posts each batch from its end.
	reverses breakage = "reverses"
)

// wrap makes the handler that has it.
func (b breakage) wrap(starter *restatestart.Starter[message]) (restatestart.Handler[message], error) {
	type batch = []restatestart.Message[message]
	switch b {
	case "":
		return starter, nil
	case savesEarly:
		var behind sync.Mutex
		return restatestart.HandlerFunc[message](func(ctx context.Context, messages batch) error {
			go func() {
				behind.Lock()
				defer behind.Unlock()
				for starter.Handle(ctx, messages) != nil && ctx.Err() == nil {
					continue
				}
			}()
			return nil
		}), nil
	case swallows:
		return restatestart.HandlerFunc[message](func(ctx context.Context, messages batch) error {
			_ = starter.Handle(ctx, messages)
			return nil
		}), nil
	case reverses:
		return restatestart.HandlerFunc[message](func(ctx context.Context, messages batch) error {
			for _, m := range slices.Backward(messages) {
				if err := starter.Handle(ctx, batch{m}); err != nil {
					return fmt.Errorf("in reverse: %w", err)
				}
			}
			return nil
		}), nil
	default:
		return nil, fmt.Errorf("there is no breakage %q", b)
	}
}
