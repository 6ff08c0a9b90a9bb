package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// Meter makes instruments. It is not safe for concurrent use.
type Meter struct {
	meter metric.Meter
	guard *Guard

	// Err is the first error of making an instrument.
	Err error
}

// Meter returns a provider's meter, one that records nothing when the provider panics.
func (g *Guard) Meter(provider metric.MeterProvider, scope string) (meter *Meter) {
	meter = &Meter{meter: noop.Meter{}, guard: g}
	defer g.catch()
	meter.meter = provider.Meter(scope)
	return meter
}

// instrument makes an instrument, one that records nothing when that panics.
func instrument[I any](m *Meter, silent I, create func() (I, error)) (made I) {
	made = silent //nolint:wastedassign // what is returned after a panic
	defer m.guard.catch()
	created, err := create()
	if m.Err == nil {
		m.Err = err
	}
	return created
}

// Counter counts up.
type Counter struct {
	counter metric.Int64Counter
	guard   *Guard
}

// Counter makes a Counter.
func (m *Meter) Counter(name, unit, description string) Counter {
	return Counter{instrument[metric.Int64Counter](m, noop.Int64Counter{}, func() (metric.Int64Counter, error) {
		return m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	}), m.guard}
}

// Add adds n.
func (c Counter) Add(ctx context.Context, n int64, options ...metric.AddOption) {
	defer c.guard.catch()
	c.counter.Add(ctx, n, options...)
}

// Enabled reports that it is recorded.
func (c Counter) Enabled(ctx context.Context) (enabled bool) {
	defer c.guard.catch()
	return c.counter.Enabled(ctx)
}

// UpDownCounter counts up and down.
type UpDownCounter struct {
	counter metric.Int64UpDownCounter
	guard   *Guard
}

// UpDownCounter makes an UpDownCounter.
func (m *Meter) UpDownCounter(name, unit, description string) UpDownCounter {
	return UpDownCounter{instrument[metric.Int64UpDownCounter](m, noop.Int64UpDownCounter{}, func() (metric.Int64UpDownCounter, error) {
		return m.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	}), m.guard}
}

// Add adds n, which may be negative.
func (c UpDownCounter) Add(ctx context.Context, n int64) {
	defer c.guard.catch()
	c.counter.Add(ctx, n)
}

// Histogram records values.
type Histogram struct {
	histogram metric.Float64Histogram
	guard     *Guard
}

// Histogram makes a Histogram with the given bounds of its buckets.
func (m *Meter) Histogram(name, unit, description string, bounds []float64) Histogram {
	return Histogram{instrument[metric.Float64Histogram](m, noop.Float64Histogram{}, func() (metric.Float64Histogram, error) {
		return m.meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
	}), m.guard}
}

// Record records a value.
func (h Histogram) Record(ctx context.Context, value float64, options ...metric.RecordOption) {
	defer h.guard.catch()
	h.histogram.Record(ctx, value, options...)
}

// Enabled reports that it is recorded.
func (h Histogram) Enabled(ctx context.Context) (enabled bool) {
	defer h.guard.catch()
	return h.histogram.Enabled(ctx)
}

// SizeHistogram records whole numbers.
type SizeHistogram struct {
	histogram metric.Int64Histogram
	guard     *Guard
}

// SizeHistogram makes a SizeHistogram with the given bounds of its buckets.
func (m *Meter) SizeHistogram(name, unit, description string, bounds []float64) SizeHistogram {
	return SizeHistogram{instrument[metric.Int64Histogram](m, noop.Int64Histogram{}, func() (metric.Int64Histogram, error) {
		return m.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
	}), m.guard}
}

// Record records a value.
func (h SizeHistogram) Record(ctx context.Context, value int64, options ...metric.RecordOption) {
	defer h.guard.catch()
	h.histogram.Record(ctx, value, options...)
}

// Gauge makes a gauge for the callback of Observe.
func (m *Meter) Gauge(name, unit, description string) metric.Int64ObservableGauge {
	return instrument[metric.Int64ObservableGauge](m, noop.Int64ObservableGauge{}, func() (metric.Int64ObservableGauge, error) {
		return m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	})
}

// FloatGauge makes a gauge for the callback of Observe.
func (m *Meter) FloatGauge(name, unit, description string) metric.Float64ObservableGauge {
	return instrument[metric.Float64ObservableGauge](m, noop.Float64ObservableGauge{}, func() (metric.Float64ObservableGauge, error) {
		return m.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	})
}

// Observe registers a callback that reports gauges at each collection, until stop is called.
func (m *Meter) Observe(callback func(metric.Observer), gauges ...metric.Observable) (stop func()) {
	stop = func() {}
	defer m.guard.catch()
	registration, err := m.meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		defer m.guard.catch()
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
