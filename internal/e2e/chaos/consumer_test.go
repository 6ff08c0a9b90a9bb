package chaos_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/redisstream"
)

const (
	// drainTimeout is how long a consumer's batch may take once it is asked to stop.
	drainTimeout = 2 * time.Second
	// slack is what a busy machine may add to a time.
	slack = 500 * time.Millisecond
)

// consumerConfig configures a consumer in a process of its own.
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
	Defect    defect
}

// redisConfig is how a consumer reaches Redis.
type redisConfig struct {
	Addresses []string
	Master    string // of a sentinel, whose addresses these are
	Cluster   bool
	Username  string
	Password  string
}

// connect makes a client as a service does, with timeouts that suit a run of minutes.
func (c redisConfig) connect() redis.UniversalClient {
	const timeout = time.Second
	options := kit.ClientOptions(c.Addresses...)
	options.MasterName, options.IsClusterMode, options.Username, options.Password = c.Master, c.Cluster, c.Username, c.Password
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = timeout, timeout, timeout
	return redis.NewUniversalClient(options)
}

// payoutOf starts a payout whose input names the entry, so that each request and each run shows its origin.
func payoutOf(m *restatestart.Message[kit.Bet]) (restatestart.Start, error) {
	return restatestart.Start{
		Workflow: payout.Workflow, Key: m.Value.Claim,
		Input: payout.Input{BetID: strconv.Itoa(m.Partition) + "/" + m.ID, Amount: 1},
	}, nil
}

// refOf parses what payoutOf wrote.
func refOf(input payout.Input) (check.Ref, error) {
	partition, id, _ := strings.Cut(input.BetID, "/")
	number, err := strconv.Atoi(partition)
	if err != nil {
		return check.Ref{}, fmt.Errorf("parse the entry %q: %w", input.BetID, err)
	}
	parsed, err := wire.ParseID(id)
	if err != nil {
		return check.Ref{}, fmt.Errorf("parse the entry %q: %w", input.BetID, err)
	}
	return check.Ref{Partition: number, ID: parsed}, nil
}

// runConsumer consumes until ctx ends.
func runConsumer(ctx context.Context, config consumerConfig, logger *slog.Logger) error {
	client := config.Redis.connect()
	defer func() { _ = client.Close() }()
	starter, err := restatestart.New(kit.HasClaim, payoutOf, restatestart.Options{
		Ingress: config.Ingress, MaxParallelism: config.Parallel, MaxAttempts: 3, AttemptTimeout: time.Second,
		RetryMin: 20 * time.Millisecond, RetryMax: 200 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	handler, err := config.Defect.wrap(starter)
	if err != nil {
		return err
	}
	persist := redisstream.PersistBackground
	if config.Each {
		persist = redisstream.PersistEachBatch
	}
	consumer, err := redisstream.NewConsumer(client, redisstream.Topic(config.Topic), redisstream.JSON[kit.Bet], handler,
		redisstream.Options{
			Consumer: kit.ConsumerName, InstanceCount: config.Count, InstanceIndex: &config.Index, BatchSize: config.BatchSize, ReadAhead: config.ReadAhead,
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
	if took > drainTimeout+time.Second+slack {
		return fmt.Errorf("Run took %s to return", took)
	}
	return nil
}

// defect is what is wrong with a consumer on purpose; empty: nothing.
type defect string

// The defects that the check must find.
const (
	// savesEarly takes a batch for done before Restate has answered.
	savesEarly defect = "saves early"
	// swallows takes a start that was not accepted for done.
	swallows defect = "swallows"
	// reverses posts each batch from its end.
	reverses defect = "reverses"
)

// wrap makes a handler that has the defect.
func (b defect) wrap(starter *restatestart.Starter[kit.Bet]) (redisstream.Handler[kit.Bet], error) {
	type batch = []restatestart.Message[kit.Bet]
	switch b {
	case "":
		return starter, nil
	case savesEarly:
		var behind sync.Mutex
		return redisstream.HandlerFunc[kit.Bet](func(ctx context.Context, messages batch) error {
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
		return redisstream.HandlerFunc[kit.Bet](func(ctx context.Context, messages batch) error {
			_ = starter.Handle(ctx, messages)
			return nil
		}), nil
	case reverses:
		return redisstream.HandlerFunc[kit.Bet](func(ctx context.Context, messages batch) error {
			for _, m := range slices.Backward(messages) {
				if err := starter.Handle(ctx, batch{m}); err != nil {
					return fmt.Errorf("in reverse: %w", err)
				}
			}
			return nil
		}), nil
	default:
		return nil, fmt.Errorf("there is no defect %q", b)
	}
}
