// Bonuspayout is a service that starts a BonusPayout workflow for every settled bet with a bonus claim.
//
// It reads the RedisEvents topic bets_settled and is configured by the environment:
//
//	REDIS_ADDR       host:port of Redis               localhost:6379
//	RESTATE_INGRESS  base URL of the Restate ingress  http://localhost:8080
//	HTTP_ADDR        where /livez and /readyz are     :8090
//	KEY_PREFIX       in front of every Redis key      none (services on .NET have one, such as production:re:)
//
// What becomes a start is in payout.go.
package main

import (
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
)

func main() {
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, readConfig(os.Getenv), logger); err != nil {
		logger.Error("bonuspayout ends", slog.Any("error", err))
		os.Exit(1)
	}
}

// run serves until ctx is cancelled, or until something ends that the service cannot be without.
func run(ctx context.Context, config config, logger *slog.Logger) (err error) {
	rdb := redis.NewClient(&redis.Options{Addr: config.redisAddr})
	defer func() { err = errors.Join(err, rdb.Close()) }()
	starter, err := newStarter(restatestart.Options{Ingress: config.ingress})
	if err != nil {
		return err
	}
	defer starter.CloseIdleConnections()
	consumer, err := restatestart.NewConsumer(rdb, topic, restatestart.JSON[BetSettled], starter, restatestart.ConsumerOptions{
		Consumer:  "bonus-payout",
		KeyPrefix: config.keyPrefix,
		Logger:    logger,
	})
	if err != nil {
		return err
	}

	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", config.httpAddr)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w", err)
	}
	logger.InfoContext(ctx, "health checks", slog.String("addr", listener.Addr().String()))
	health := &http.Server{Handler: restatestart.Health(consumer), ReadHeaderTimeout: 5 * time.Second}

	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		if err := health.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve health checks: %w", err)
		}
		return nil
	})
	work.Go(func() error {
		err := consumer.Run(ctx)
		// Not before: while the batches in hand are finished, the service is alive and should be seen to be.
		return errors.Join(err, shutdown(ctx, health))
	})
	return work.Wait()
}

// shutdown lets the answers under way be given, although ctx has ended.
func shutdown(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return fmt.Errorf("stop serving health checks: %w", err)
	}
	return nil
}
