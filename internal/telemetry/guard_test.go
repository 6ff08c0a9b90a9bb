package telemetry_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/testkit"
)

// What embeds a nil interface panics in each of its methods.
type (
	brokenTracers    struct{ trace.TracerProvider }
	brokenTracer     struct{ trace.Tracer }
	brokenSpan       struct{ trace.Span }
	brokenPropagator struct {
		propagation.TextMapPropagator
	}
	brokenMeters  struct{ metric.MeterProvider }
	brokenMeter   struct{ metric.Meter }
	brokenHandler struct{ slog.Handler }
)

// tracers are a provider of one tracer.
type tracers struct {
	tracenoop.TracerProvider

	tracer trace.Tracer
}

func (p tracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return p.tracer }

// brokenSpans makes spans that panic.
type brokenSpans struct{ tracenoop.Tracer }

func (brokenSpans) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	return ctx, endingSpan{}
}

// endingSpan panics when it is edited or ended.
type endingSpan struct{ brokenSpan }

func (endingSpan) IsRecording() bool { return true }

// meters are a provider of one meter.
type meters struct {
	metricnoop.MeterProvider

	meter metric.Meter
}

func (p meters) Meter(string, ...metric.MeterOption) metric.Meter { return p.meter }

// brokenInstruments makes instruments that panic.
type brokenInstruments struct{ metricnoop.Meter }

func (brokenInstruments) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return struct{ metric.Int64Counter }{}, nil
}

func (brokenInstruments) Int64UpDownCounter(string, ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	return struct{ metric.Int64UpDownCounter }{}, nil
}

func (brokenInstruments) Int64Histogram(string, ...metric.Int64HistogramOption) (metric.Int64Histogram, error) {
	return struct{ metric.Int64Histogram }{}, nil
}

func (brokenInstruments) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return struct{ metric.Float64Histogram }{}, nil
}

// RegisterCallback calls the callback with an observer that panics.
func (brokenInstruments) RegisterCallback(callback metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	return struct{ metric.Registration }{}, callback(context.Background(), struct{ metric.Observer }{})
}

func TestS9PanicsOfTelemetryAreCaughtAndLogged(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	meter := func(g *telemetry.Guard) *telemetry.Meter { return g.Meter(meters{meter: brokenInstruments{}}, "scope") }
	start := func(g *telemetry.Guard, tracer trace.Tracer) telemetry.Span {
		return g.Tracer(tracers{tracer: tracer}, "scope").Start(ctx, trace.SpanContext{}, "span")
	}
	for name, call := range map[string]func(g *telemetry.Guard){
		"propagator":      func(g *telemetry.Guard) { g.Inject(ctx, brokenPropagator{}, propagation.MapCarrier{}) },
		"tracer provider": func(g *telemetry.Guard) { assert.True(t, g.Tracer(brokenTracers{}, "scope").Off()) },
		"tracer":          func(g *telemetry.Guard) { assert.False(t, start(g, brokenTracer{}).Exists()) },
		"edited span":     func(g *telemetry.Guard) { start(g, brokenSpans{}).Edit(func(span trace.Span) { span.SetAttributes() }) },
		"ended span":      func(g *telemetry.Guard) { start(g, brokenSpans{}).End(func(trace.Span) {}) },
		"meter provider":  func(g *telemetry.Guard) { g.Meter(brokenMeters{}, "scope").Counter("a", "", "").Add(ctx, 1) },
		"making a counter": func(g *telemetry.Guard) {
			g.Meter(meters{meter: brokenMeter{}}, "scope").Counter("a", "", "").Add(ctx, 1)
		},
		"making a gauge":        func(g *telemetry.Guard) { g.Meter(meters{meter: brokenMeter{}}, "scope").Gauge("a", "", "") },
		"counter":               func(g *telemetry.Guard) { meter(g).Counter("a", "", "").Add(ctx, 1) },
		"counter's Enabled":     func(g *telemetry.Guard) { assert.False(t, meter(g).Counter("a", "", "").Enabled(ctx)) },
		"up-down counter":       func(g *telemetry.Guard) { meter(g).UpDownCounter("a", "", "").Add(ctx, 1) },
		"histogram":             func(g *telemetry.Guard) { meter(g).Histogram("a", "", "", nil).Record(ctx, 1) },
		"histogram's Enabled":   func(g *telemetry.Guard) { assert.False(t, meter(g).Histogram("a", "", "", nil).Enabled(ctx)) },
		"size histogram":        func(g *telemetry.Guard) { meter(g).SizeHistogram("a", "", "", nil).Record(ctx, 1) },
		"registering callbacks": func(g *telemetry.Guard) { g.Meter(meters{meter: brokenMeter{}}, "scope").Observe(nil)() },
		"observer": func(g *telemetry.Guard) {
			meter(g).Observe(func(observer metric.Observer) { observer.ObserveInt64(metricnoop.Int64ObservableGauge{}, 1) })
		},
		"unregistering callbacks": func(g *telemetry.Guard) { meter(g).Observe(func(metric.Observer) {})() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var log testkit.Log
				guard := telemetry.NewGuard(log.Logger())
				for range 10 {
					call(guard)
				}
				assert.Equal(t, 1, log.Count(`level=ERROR msg="telemetry panicked" panic="runtime error:`), log.String())
				testkit.Pass(telemetry.LogInterval)
				call(guard)
				assert.Equal(t, 2, log.Count("telemetry panicked"), "another line after LogInterval")
				call(telemetry.NewGuard(nil))
			})
		})
	}
}

func TestS9PanicsOfALogHandlerAreIgnored(t *testing.T) {
	t.Parallel()
	guard := telemetry.NewGuard(slog.New(brokenHandler{}))
	guard.Logger().With("a", 1).WithGroup("g").Info("event")
	guard.Inject(t.Context(), brokenPropagator{}, propagation.MapCarrier{})
	require.NoError(t, guard.Logger().Handler().Handle(t.Context(), slog.Record{}))
}

func TestAnErrorOfMakingAnInstrumentIsKept(t *testing.T) {
	t.Parallel()
	meter := telemetry.NewGuard(nil).Meter(testkit.Record().Meters, "scope")
	meter.Counter("fine", "", "")
	require.NoError(t, meter.Err)
	meter.Counter("not a name", "", "")
	meter.Counter("fine too", "", "")
	require.ErrorContains(t, meter.Err, "not a name")
}

// Not parallel: it counts allocations, with OpenTelemetry's global providers, which nothing in this package sets.
func TestTelemetryThatIsNotRecordedAllocatesNothing(t *testing.T) {
	for name, providers := range map[string]struct {
		tracers trace.TracerProvider
		meters  metric.MeterProvider
	}{
		"no-op":   {tracenoop.NewTracerProvider(), metricnoop.NewMeterProvider()},
		"not set": {otel.GetTracerProvider(), otel.GetMeterProvider()},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			guard := telemetry.NewGuard(nil)
			meter := guard.Meter(providers.meters, "scope")
			counter, active := meter.Counter("a", "", ""), meter.UpDownCounter("b", "", "")
			histogram, sizes := meter.Histogram("c", "", "", nil), meter.SizeHistogram("d", "", "", nil)
			require.NoError(t, meter.Err)
			adds, records := telemetry.Adds(attribute.String("a", "b")), telemetry.Records(attribute.String("a", "b"))
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				counter.Add(ctx, 1, adds...)
				active.Add(ctx, 1)
				histogram.Record(ctx, 1, records...)
				sizes.Record(ctx, 1, records...)
				assert.False(t, counter.Enabled(ctx) || histogram.Enabled(ctx))
			}))

			// A global provider may be set at any time, so that Start has to ask it.
			tracer := guard.Tracer(providers.tracers, "scope")
			assert.Equal(t, name == "no-op", tracer.Off())
			producer, _ := telemetry.ParseTraceParent(testkit.Producer)
			for _, parent := range []trace.SpanContext{{}, producer} {
				assert.False(t, tracer.Start(trace.ContextWithSpanContext(ctx, parent), parent, "span").Exists())
			}
			if tracer.Off() {
				assert.Zero(t, testing.AllocsPerRun(100, func() { tracer.Start(ctx, trace.SpanContext{}, "span") }))
			}
			var none telemetry.Span
			assert.Zero(t, testing.AllocsPerRun(100, func() {
				none.Edit(func(trace.Span) { t.Error("there is no span") })
				none.End(nil)
				_ = none.Context(ctx)
			}))
			assert.Zero(t, testing.AllocsPerRun(100, func() { telemetry.ParseTraceParent(testkit.Producer) }))
		})
	}
}
