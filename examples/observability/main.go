// Observability is the service of examples/bonuspayout with metrics, traces, a dashboard and alerts: they show at 3 a.m. what is
// blocked, since when and why.
//
// It is configured by the environment:
//
//	REDIS_ADDR                   host:port of Redis                           localhost:6379
//	RESTATE_INGRESS              base URL of the Restate ingress              http://localhost:8080
//	HTTP_ADDR                    address of /metrics, /livez and /readyz      :8090
//	KEY_PREFIX                   prefix of every Redis key                    none
//	HOLD_MAX                     longest wait between retries of a hold       30s
//	OTEL_EXPORTER_OTLP_ENDPOINT  where traces go, such as http://tempo:4318   nowhere: tracing is off
//	OTEL_SERVICE_NAME            the service's name in traces                 bonus-payout
//
// # Metrics
//
// Scrape it and evaluate alerts.yml with a prometheus.yml of
//
//	global: {scrape_interval: 15s, evaluation_interval: 15s}
//	rule_files: [alerts.yml]
//	scrape_configs:
//	  - job_name: bonus-payout
//	    static_configs: [{targets: ["localhost:8090"]}]
//
// The rules use windows of minutes. They need a scrape at least once a minute and a HOLD_MAX of at most a minute: failures are
// counted when a held partition is retried. alerts_test.yml shows when each rule fires and when it stays silent; run it with
// `promtool test rules alerts_test.yml`.
//
// # Dashboard
//
// Import dashboard.json into Grafana 10 or 11 (Dashboards, New, Import) and choose that Prometheus as its data source. The
// description of each panel says what to do when it looks bad. panels.png shows the main panels over ten minutes: before, during
// and after an outage of Restate.
//
// # Traces
//
// With OTEL_EXPORTER_OTLP_ENDPOINT set, each handler call is a span `streams.process {topic}`, and each start a span
// `restate.start {workflow}` that is a child of its producer's span and carries workflow, key and entry id. Metrics carry none
// of these.
//
// # Health
//
// /livez and /readyz return the consumer's Status as JSON, with workflow, key, entry id and reason of what is blocked. Do not
// expose the port: the answers contain business keys.
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

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/redisstream"
)

const serviceName = "bonus-payout"

func main() {
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := listenAndRun(ctx, logger); err != nil {
		logger.Error("service failed", slog.Any("error", err))
		os.Exit(1)
	}
}

func listenAndRun(ctx context.Context, logger *slog.Logger) error {
	config, err := readConfig(os.Getenv)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", config.httpAddr)
	if err != nil {
		return err
	}
	return run(ctx, config, listener, logger)
}

// run serves until ctx is cancelled or a part of the service fails. It closes the listener.
func run(ctx context.Context, config config, listener net.Listener, logger *slog.Logger) (err error) {
	defer listener.Close()
	telemetry, err := newTelemetry(ctx, config.tracing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, withGrace(ctx, telemetry.shutdown)) }()
	rdb := redis.NewClient(&redis.Options{Addr: config.redisAddr})
	defer func() { err = errors.Join(err, rdb.Close()) }()
	starter, err := newStarter(restatestart.Options{
		Ingress: config.ingress, MeterProvider: telemetry.metrics, TracerProvider: telemetry.traces, Logger: logger,
	})
	if err != nil {
		return err
	}
	defer starter.CloseIdleConnections()
	consumer, err := redisstream.NewConsumer(rdb, redisstream.Topic(topic), redisstream.JSON[BetSettled], starter, redisstream.Options{
		Consumer: serviceName, KeyPrefix: config.keyPrefix, HoldMax: config.holdMax,
		MeterProvider: telemetry.metrics, TracerProvider: telemetry.traces, Logger: logger,
	})
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(telemetry.registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /", redisstream.Health(consumer)) // /livez and /readyz
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}

	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve metrics and health: %w", err)
		}
		return nil
	})
	work.Go(func() error {
		err := consumer.Run(ctx)
		// Only now, so that probes and scrapes are answered while the last batches finish.
		return errors.Join(err, withGrace(ctx, server.Shutdown))
	})
	return work.Wait()
}

// withGrace gives stop 5 s, even if ctx is already cancelled.
func withGrace(ctx context.Context, stop func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return stop(ctx)
}
