package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	redis.SetLogger(&logging.VoidLogger{}) // it logs every refused connection
	goleak.VerifyTestMain(m)
}

func TestTheConfigIsReadFromTheEnvironment(t *testing.T) {
	t.Parallel()
	environment := map[string]string{
		"REDIS_ADDR": "redis:6379", "KEY_PREFIX": "production:re:", "HTTP_ADDR": "", "HOLD_MAX": "5s", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://tempo:4318",
	}
	got, err := readConfig(func(name string) string { return environment[name] })
	require.NoError(t, err)
	assert.Equal(t, config{
		redisAddr: "redis:6379", ingress: "http://localhost:8080", httpAddr: ":8090", keyPrefix: "production:re:",
		holdMax: 5 * time.Second, tracing: true,
	}, got)

	_, err = readConfig(func(name string) string { return map[string]string{"HOLD_MAX": "soon"}[name] })
	require.ErrorContains(t, err, "HOLD_MAX")
}

func TestAnInvalidIngressStopsTheService(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), config{redisAddr: "127.0.0.1:1", ingress: "restate"}, listen(t), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "Options.Ingress")
}

func TestTracesAreExportedToTheConfiguredEndpoint(t *testing.T) {
	var posts atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/traces" {
			posts.Add(1)
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)

	telemetry, err := newTelemetry(t.Context(), true)
	require.NoError(t, err)
	_, span := telemetry.traces.Tracer("test").Start(context.Background(), "one")
	span.End()
	require.NoError(t, withGrace(t.Context(), telemetry.shutdown))
	assert.EqualValues(t, 1, posts.Load(), "shutdown exports the remaining spans")
}
