// Bonuspayout is a service that starts a BonusPayout workflow for every settled bet with a bonus claim.
//
// It reads the RedisEvents topic bets_settled and is configured by the environment:
//
//	REDIS_ADDR       host:port of Redis               localhost:6379
//	RESTATE_INGRESS  base URL of the Restate ingress  http://localhost:8080
//	HTTP_ADDR        address of /livez and /readyz    :8090
//	KEY_PREFIX       prefix of every Redis key        none (services on .NET have one, such as production:re:)
//
// payout.go decides which messages start a workflow.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/redisstream"
)

func main() {
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	config := readConfig(os.Getenv)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", config.httpAddr)
	if err == nil {
		err = run(ctx, config, listener, logger)
	}
	if err != nil {
		logger.Error("service failed", slog.Any("error", err))
		os.Exit(1)
	}
}

type config struct{ redisAddr, ingress, httpAddr, keyPrefix string }

// readConfig treats an empty variable as unset.
func readConfig(getenv func(string) string) config {
	return config{
		redisAddr: cmp.Or(getenv("REDIS_ADDR"), "localhost:6379"),
		ingress:   cmp.Or(getenv("RESTATE_INGRESS"), "http://localhost:8080"),
		httpAddr:  cmp.Or(getenv("HTTP_ADDR"), ":8090"),
		keyPrefix: getenv("KEY_PREFIX"),
	}
}

// run serves until ctx is cancelled or a part of the service fails. It closes the listener.
func run(ctx context.Context, config config, listener net.Listener, logger *slog.Logger) (err error) {
	defer listener.Close()
	rdb := redis.NewClient(&redis.Options{Addr: config.redisAddr})
	defer func() { err = errors.Join(err, rdb.Close()) }()
	starter, err := newStarter(restatestart.Options{Ingress: config.ingress})
	if err != nil {
		return err
	}
	defer starter.CloseIdleConnections()
	consumer, err := redisstream.NewConsumer(rdb, redisstream.Topic(topic), redisstream.JSON[BetSettled], starter, redisstream.Options{
		Consumer:  "bonus-payout",
		KeyPrefix: config.keyPrefix,
		Logger:    logger,
	})
	if err != nil {
		return err
	}

	health := &http.Server{Handler: redisstream.Health(consumer), ReadHeaderTimeout: 5 * time.Second}
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		if err := health.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve health checks: %w", err)
		}
		return nil
	})
	work.Go(func() error {
		err := consumer.Run(ctx)
		// Only now, so that probes are answered while the last batches finish.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return errors.Join(err, health.Shutdown(ctx))
	})
	return work.Wait()
}
