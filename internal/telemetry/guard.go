// Package telemetry is the boundary to the user's OpenTelemetry providers and log handler. Panics of theirs end here,
// in the methods of [Counter], [Histogram], [Span] and the like, and are logged: telemetry must neither lose nor repeat a start.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Guard makes the guarded counterparts of providers, and logs what they panic with.
type Guard struct {
	logger *slog.Logger

	mu     sync.Mutex
	logged LogLimiter
}

// NewGuard returns a guard that logs to a logger, guarded as well. Nil logs nothing.
func NewGuard(logger *slog.Logger) *Guard {
	if logger == nil {
		return &Guard{logger: slog.New(slog.DiscardHandler)}
	}
	return &Guard{logger: slog.New(guardedHandler{logger.Handler()})}
}

// Logger is the guarded logger.
func (g *Guard) Logger() *slog.Logger { return g.logger }

// catch ends a panic of a provider. It has to be deferred itself.
func (g *Guard) catch() {
	reason := recover()
	if reason == nil {
		return
	}
	g.mu.Lock()
	log := g.logged.Allow()
	g.mu.Unlock()
	if log {
		g.logger.Error("telemetry panicked", slog.String("panic", fmt.Sprint(reason)))
	}
}

// guardedHandler is a log handler whose panics are ignored: there is nowhere to log them.
type guardedHandler struct{ handler slog.Handler }

func ignorePanic() { _ = recover() }

func (h guardedHandler) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer ignorePanic()
	return h.handler.Enabled(ctx, level)
}

func (h guardedHandler) Handle(ctx context.Context, record slog.Record) error {
	defer ignorePanic()
	return h.handler.Handle(ctx, record)
}

func (h guardedHandler) WithAttrs(attributes []slog.Attr) (derived slog.Handler) {
	derived = h // where it panics
	defer ignorePanic()
	return guardedHandler{h.handler.WithAttrs(attributes)}
}

func (h guardedHandler) WithGroup(name string) (derived slog.Handler) {
	derived = h
	defer ignorePanic()
	return guardedHandler{h.handler.WithGroup(name)}
}

// Tracer makes spans.
type Tracer struct {
	tracer trace.Tracer
	guard  *Guard
}

// Tracer returns a provider's tracer.
func (g *Guard) Tracer(provider trace.TracerProvider, scope string) Tracer {
	return Tracer{provider.Tracer(scope), g}
}

// Off reports that the tracer never makes spans. Others may not either: see Start.
func (t Tracer) Off() bool {
	_, off := t.tracer.(noop.Tracer)
	return off
}

// Start begins a span. A span that the tracer did not make itself, as of one behind a global provider that is not set,
// carries its parent's id: it counts as none.
func (t Tracer) Start(ctx context.Context, parent trace.SpanContext, name string, options ...trace.SpanStartOption) (span Span) {
	defer t.guard.catch()
	_, made := t.tracer.Start(ctx, name, options...)
	if !made.IsRecording() && made.SpanContext().SpanID() == parent.SpanID() {
		return Span{}
	}
	return Span{made, t.guard}
}

// Span is a span, or none: the methods of the zero value do nothing.
type Span struct {
	span  trace.Span
	guard *Guard
}

// Exists reports that there is a span.
func (s Span) Exists() bool { return s.span != nil }

// Context returns a context that carries the span.
func (s Span) Context(ctx context.Context) context.Context {
	if s.span == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, s.span)
}

// Edit calls a function with the span, if it records.
func (s Span) Edit(edit func(span trace.Span)) {
	if s.span == nil {
		return
	}
	defer s.guard.catch()
	if s.span.IsRecording() {
		edit(s.span)
	}
}

// End edits the span a last time and ends it.
func (s Span) End(edit func(span trace.Span)) {
	if s.span == nil {
		return
	}
	s.Edit(edit)
	defer s.guard.catch()
	s.span.End()
}

// Inject writes the trace context of ctx into a carrier.
func (g *Guard) Inject(ctx context.Context, propagator propagation.TextMapPropagator, carrier propagation.TextMapCarrier) {
	defer g.catch()
	propagator.Inject(ctx, carrier)
}

// Meter makes instruments. What one of them failed with is in Err.
type Meter struct {
	meter metric.Meter
	guard *Guard
	Err   error
}

// Meter returns a provider's meter.
func (g *Guard) Meter(provider metric.MeterProvider, scope string) *Meter {
	return &Meter{meter: provider.Meter(scope), guard: g}
}

func (m *Meter) keep(err error) {
	if m.Err == nil {
		m.Err = err
	}
}

// Counter counts up.
type Counter struct {
	counter metric.Int64Counter
	guard   *Guard
}

// Counter makes one.
func (m *Meter) Counter(name, unit, description string) Counter {
	counter, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.keep(err)
	return Counter{counter, m.guard}
}

// Add counts.
func (c Counter) Add(ctx context.Context, n int64, options ...metric.AddOption) {
	defer c.guard.catch()
	c.counter.Add(ctx, n, options...)
}

// Enabled reports that somebody records it.
func (c Counter) Enabled(ctx context.Context) (enabled bool) {
	defer c.guard.catch()
	return c.counter.Enabled(ctx)
}

// UpDownCounter counts up and down.
type UpDownCounter struct {
	counter metric.Int64UpDownCounter
	guard   *Guard
}

// UpDownCounter makes one.
func (m *Meter) UpDownCounter(name, unit, description string) UpDownCounter {
	counter, err := m.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.keep(err)
	return UpDownCounter{counter, m.guard}
}

// Add counts.
func (c UpDownCounter) Add(ctx context.Context, n int64) {
	defer c.guard.catch()
	c.counter.Add(ctx, n)
}

// Histogram records values.
type Histogram struct {
	histogram metric.Float64Histogram
	guard     *Guard
}

// Histogram makes one.
func (m *Meter) Histogram(name, unit, description string, bounds []float64) Histogram {
	histogram, err := m.meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
	m.keep(err)
	return Histogram{histogram, m.guard}
}

// Record records a value.
func (h Histogram) Record(ctx context.Context, value float64, options ...metric.RecordOption) {
	defer h.guard.catch()
	h.histogram.Record(ctx, value, options...)
}

// Enabled reports that somebody records it.
func (h Histogram) Enabled(ctx context.Context) (enabled bool) {
	defer h.guard.catch()
	return h.histogram.Enabled(ctx)
}

// SizeHistogram records whole numbers.
type SizeHistogram struct {
	histogram metric.Int64Histogram
	guard     *Guard
}

// SizeHistogram makes one.
func (m *Meter) SizeHistogram(name, unit, description string, bounds []float64) SizeHistogram {
	histogram, err := m.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
	m.keep(err)
	return SizeHistogram{histogram, m.guard}
}

// Record records a value.
func (h SizeHistogram) Record(ctx context.Context, value int64, options ...metric.RecordOption) {
	defer h.guard.catch()
	h.histogram.Record(ctx, value, options...)
}

// Gauge makes a gauge that a callback of Observe reports.
func (m *Meter) Gauge(name, unit, description string) metric.Int64ObservableGauge {
	gauge, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.keep(err)
	return gauge
}

// FloatGauge makes a gauge that a callback of Observe reports.
func (m *Meter) FloatGauge(name, unit, description string) metric.Float64ObservableGauge {
	gauge, err := m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	m.keep(err)
	return gauge
}

// Observe registers a callback that reports gauges whenever somebody collects them, until stop is called.
func (m *Meter) Observe(callback func(metric.Observer), gauges ...metric.Observable) (stop func()) {
	stop = func() {}
	defer m.guard.catch()
	registration, err := m.meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		callback(observer)
		return nil
	}, gauges...)
	if err != nil {
		return stop
	}
	return func() {
		defer m.guard.catch()
		_ = registration.Unregister()
	}
}
