package restatestart_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

const producer = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// counters reads the counters of the starter's scope, as name{attributes}: value.
func counters(t *testing.T, reader metric.Reader) map[string]int64 {
	t.Helper()
	var metrics metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &metrics))
	values := map[string]int64{}
	for _, scope := range metrics.ScopeMetrics {
		assert.Equal(t, "RedisEvents.Restate", scope.Scope.Name)
		for _, instrument := range scope.Metrics {
			sum, ok := instrument.Data.(metricdata.Sum[int64])
			require.True(t, ok)
			for _, point := range sum.DataPoints {
				values[instrument.Name+"{"+point.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = point.Value
			}
		}
	}
	return values
}

func TestS6S10AcceptedDuplicateAndBlockedAreCountedApart(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	fake.Script("bad", restatetest.Status(400).Always())
	reader := metric.NewManualReader()
	starter := starterOn(t, fake, nil, restatestart.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	require.NoError(t, starter.Handle(t.Context(), batchOf("a", "b", "c")))
	require.NoError(t, starter.Handle(t.Context(), batchOf("a", "b")))
	require.Error(t, starter.Handle(t.Context(), batchOf("bad", "d")))
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, starter.Handle(cancelled, batchOf("e")))
	assert.Equal(t, map[string]int64{
		"restate.start.accepted{restate.start.duplicate=false}": 4,
		"restate.start.accepted{restate.start.duplicate=true}":  2,
		"restate.start.failed{reason=rejected}":                 1,
		"restate.start.failed{reason=shutdown}":                 1,
		"restate.start.blocked{}":                               1, // that of the shutdown is not counted
	}, counters(t, reader))
}

func TestEachStartHasASpanUnderItsProducersAndThePostCarriesIt(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	fake.Script("bad", restatetest.Status(400))
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	starter := starterOn(t, fake, nil, restatestart.Options{TracerProvider: provider, MaxParallelism: 1})
	ctx, process := provider.Tracer("loop").Start(t.Context(), "streams.process claims")
	batch := batchOf("a", "b", "bad")
	batch[0].TraceParent = producer
	batch[1].TraceParent = "00-junk"
	require.Error(t, starter.Handle(ctx, batch))
	process.End()

	ended := spans.Ended()
	require.Len(t, ended, 4)
	first, second, third := ended[0], ended[1], ended[2]
	assert.Equal(t, "restate.start Payout", first.Name())
	assert.Equal(t, trace.SpanKindClient, first.SpanKind())
	assert.Equal(t, "RedisEvents.Restate", first.InstrumentationScope().Name)
	assert.Equal(t, "4bf92f3577b34da6a3ce929d0e0e4736", first.Parent().TraceID().String())
	assert.Equal(t, "00f067aa0ba902b7", first.Parent().SpanID().String())
	require.Len(t, first.Links(), 1)
	assert.Equal(t, process.SpanContext().SpanID(), first.Links()[0].SpanContext.SpanID())
	assert.Equal(t, process.SpanContext().SpanID(), second.Parent().SpanID(), "without a producer it stands under the batch")
	assert.Equal(t, codes.Unset, first.Status().Code)
	assert.Equal(t, sdktrace.Status{Code: codes.Error, Description: "rejected"}, third.Status())
	for i, request := range fake.Requests() {
		sent := fmt.Sprintf("00-%s-%s-01", ended[i].SpanContext().TraceID(), ended[i].SpanContext().SpanID())
		assert.Equal(t, sent, request.Header.Get("Traceparent"))
	}
}

func TestWithTracingOffTheProducersContextGoesOutAsItCame(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	shared := http.Header{"X-Tenant": {"a"}}
	starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		start, err := payout(message)
		start.Header = shared
		return start, err
	}, restatestart.Options{})
	batch := batchOf("a", "b", "c")
	batch[0].TraceParent = producer
	batch[1].TraceParent = "00-junk"
	require.NoError(t, starter.Handle(t.Context(), batch))
	for _, request := range fake.Requests() {
		want := ""
		if request.Key == "a" {
			want = producer
		}
		assert.Equal(t, want, request.Header.Get("Traceparent"), request.Key)
		assert.Equal(t, "a", request.Header.Get("X-Tenant"))
	}
	assert.Equal(t, http.Header{"X-Tenant": {"a"}}, shared, "what Map returned is left as it was")
}

// S14: whatever goes wrong, and wherever it is told, nobody reads a credential or a body there.
func TestS14NeitherCredentialsNorBodiesLeaveTheirPlace(t *testing.T) {
	t.Parallel()
	secrets := []string{"t0psecret", "dXNlcjp0MHBzZWNyZXQ", "iban-DE00"} // the second is user:t0psecret in base64
	fake := restatetest.New(t)
	echo := restatetest.Answer(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, "you sent %v and %s", r.Header, body.String())
	})
	fake.Script("echo", echo.Always())
	fake.Script("drop", restatetest.Drop().Always())
	fake.Script("hang", restatetest.Status(503).Always())

	var log bytes.Buffer
	spans := tracetest.NewSpanRecorder()
	for _, options := range []restatestart.Options{
		{Ingress: strings.Replace(fake.URL(), "//", "//user:t0psecret@", 1)},
		{Ingress: fake.URL(), Header: http.Header{"Authorization": {"Bearer t0psecret"}}},
		{Ingress: strings.Replace(fake.URL(), "//", "//t0psecret@", 1)},
	} {
		options.HTTPClient, options.MaxAttempts = fake.Client(), 1
		options.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		options.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		reader := metric.NewManualReader()
		options.MeterProvider = metric.NewMeterProvider(metric.WithReader(reader))
		starter, err := restatestart.New(nil, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: map[string]string{"account": "iban-DE00"}}, nil
		}, options)
		require.NoError(t, err)
		err = starter.Handle(t.Context(), batchOf("echo", "drop", "hang"))
		blocked := blockedBy(t, err)
		require.Len(t, blocked.Failed, 3)
		encoded, failure := json.Marshal(blocked.Failed)
		require.NoError(t, failure)
		fmt.Fprintf(&log, "%s %+v %s", err.Error(), blocked.Failed, encoded)
		for _, cause := range blocked.Unwrap() {
			fmt.Fprintf(&log, " %v %+v", cause, cause)
		}
		fmt.Fprint(&log, counters(t, reader))
	}
	for _, span := range spans.Ended() {
		fmt.Fprintf(&log, "%s %v %v %v", span.Name(), span.Attributes(), span.Events(), span.Status())
	}
	assert.Contains(t, log.String(), "you sent")
	assert.Contains(t, log.String(), "start attempt failed")
	for _, secret := range secrets {
		assert.NotContains(t, log.String(), secret)
	}
	for _, request := range fake.Requests() {
		assert.NotEmpty(t, request.Header.Get("Authorization"), "it does reach the ingress")
	}
}
