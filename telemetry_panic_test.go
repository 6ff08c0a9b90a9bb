package restatestart_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

type panickingPropagator struct{ propagation.TraceContext }

func (panickingPropagator) Inject(context.Context, propagation.TextMapCarrier) { panic("propagator") }

type panickingTracer struct{ tracenoop.TracerProvider }

func (panickingTracer) Tracer(string, ...trace.TracerOption) trace.Tracer { return panickingTracing{} }

type panickingTracing struct{ tracenoop.Tracer }

func (panickingTracing) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	panic("tracer")
}

func TestS9APanicOfTelemetryKeepsNoStartFromBeingMade(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]restatestart.Options{
		"propagator": {Propagator: panickingPropagator{}, TracerProvider: sdktrace.NewTracerProvider()},
		"tracer":     {TracerProvider: panickingTracer{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := restatetest.New(t)
			batch := batchOf("a", "b")
			batch[0].TraceParent = producer
			require.NoError(t, starterOn(t, fake, nil, options).Handle(t.Context(), batch))
			fake.ExpectStarted(t, "Payout", "a", "b")
		})
	}
}

type panickingMeter struct{ noop.MeterProvider }

func (panickingMeter) Meter(string, ...metric.MeterOption) metric.Meter { return panickingCounters{} }

type panickingCounters struct{ noop.Meter }

func (panickingCounters) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return panickingCounter{}, nil
}

type panickingCounter struct{ noop.Int64Counter }

func (panickingCounter) Add(context.Context, int64, ...metric.AddOption) { panic("meter") }

func TestS9APanicOfAMeterUndoesNoAcceptance(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	fake.Script("bad", restatetest.Status(400))
	starter := starterOn(t, fake, nil, restatestart.Options{MeterProvider: panickingMeter{}})
	require.NoError(t, starter.Handle(t.Context(), batchOf("a", "b")))
	assert.Equal(t, restatestart.ReasonRejected, onlyFailure(t, starter.Handle(t.Context(), batchOf("bad"))).Reason)
}
