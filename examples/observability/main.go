// Observability is the service of examples/bonuspayout with metrics, traces, a dashboard and alerts: what shows at
// 3 a.m. what is blocked, since when and why.
//
// It is configured by the environment:
//
//	REDIS_ADDR                   host:port of Redis                           localhost:6379
//	RESTATE_INGRESS              base URL of the Restate ingress              http://localhost:8080
//	HTTP_ADDR                    where /metrics, /livez and /readyz are       :8090
//	KEY_PREFIX                   in front of every Redis key                  none
//	HOLD_MAX                     the longest wait of a held partition         30s
//	OTEL_EXPORTER_OTLP_ENDPOINT  where traces go, such as http://tempo:4318   nowhere: tracing is off
//	OTEL_SERVICE_NAME            the service's name in traces                 bonus-payout
//
// # Metrics
//
// Let Prometheus scrape it and evaluate alerts.yml, with a prometheus.yml of
//
//	global: {scrape_interval: 15s, evaluation_interval: 15s}
//	rule_files: [alerts.yml]
//	scrape_configs:
//	  - job_name: bonus-payout
//	    static_configs: [{targets: ["localhost:8090"]}]
//
// The rules look at windows of minutes. They need a scrape at least once a minute, and HOLD_MAX at a minute or less: a counter
// of failures moves only when a held partition is tried again. alerts_test.yml shows of each rule when it fires and when it
// keeps quiet; `promtool test rules alerts_test.yml` runs it, and so does `make observability`.
//
// # Dashboard
//
// Import dashboard.json into Grafana 10 or 11 (Dashboards, New, Import) and choose the Prometheus above as its data source. Each
// panel says in its description what to do when it looks bad. panels.png shows the main ones before, during and after an outage
// of Restate; `make picture` draws it anew.
//
// # Traces
//
// With OTEL_EXPORTER_OTLP_ENDPOINT set, each handler call is a span `streams.process {topic}` and each start a span
// `restate.start {workflow}` below its producer's, with workflow, key and entry id: what no metric may carry.
//
// # Health
//
// /livez and /readyz answer with the Status of the consumer as JSON: workflow, key, entry id and reason of what is blocked. Keep
// the port inside: they name business keys.
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

const serviceName = "bonus-payout"

func main() {
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	config, err := readConfig(os.Getenv)
	if err == nil {
		err = run(ctx, config, logger)
	}
	if err != nil {
		logger.Error("the service ends", slog.Any("error", err))
		os.Exit(1)
	}
}

// run serves until ctx is cancelled, or until something ends that the service cannot be without.
func run(ctx context.Context, config config, logger *slog.Logger) (err error) {
	telemetry, err := newTelemetry(ctx, config.tracing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, within(ctx, telemetry.shutdown)) }()
	rdb := redis.NewClient(&redis.Options{Addr: config.redisAddr})
	defer func() { err = errors.Join(err, rdb.Close()) }()
	starter, err := newStarter(restatestart.Options{
		Ingress: config.ingress, MeterProvider: telemetry.metrics, TracerProvider: telemetry.traces, Logger: logger,
	})
	if err != nil {
		return err
	}
	defer starter.CloseIdleConnections()
	consumer, err := restatestart.NewConsumer(rdb, topic, restatestart.JSON[BetSettled], starter, restatestart.ConsumerOptions{
		Consumer: serviceName, KeyPrefix: config.keyPrefix, HoldMax: config.holdMax,
		MeterProvider: telemetry.metrics, TracerProvider: telemetry.traces, Logger: logger,
	})
	if err != nil {
		return err
	}

	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", config.httpAddr)
	if err != nil {
		return fmt.Errorf("listen for scrapes: %w", err)
	}
	logger.InfoContext(ctx, "metrics and health", slog.String("addr", listener.Addr().String()))
	server := &http.Server{Handler: routes(telemetry.registry, consumer), ReadHeaderTimeout: 5 * time.Second}

	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve metrics and health: %w", err)
		}
		return nil
	})
	work.Go(func() error {
		err := consumer.Run(ctx)
		// Not before: while the batches in hand are finished, the service is alive and should be seen to be.
		return errors.Join(err, within(ctx, server.Shutdown))
	})
	return work.Wait()
}

// within lets what ends the service take 5 s, although ctx has ended.
func within(ctx context.Context, end func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return end(ctx)
}
