package restatestart

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redisevents/restatestart/internal/stream"
)

// loopGauges are observed whenever somebody collects: they are what Status says at that moment. What is not known has
// no value, and a partition that is another instance's by now has none either.
type loopGauges struct {
	blocked    metric.Int64ObservableGauge
	blockedFor metric.Float64ObservableGauge
	lagEntries metric.Int64ObservableGauge
	lagTime    metric.Float64ObservableGauge
	trimIn     metric.Int64ObservableGauge
	length     metric.Int64ObservableGauge
	stopped    metric.Int64ObservableGauge
}

func newLoopGauges(meter *instruments) loopGauges {
	return loopGauges{
		blocked:    meter.gauge("streams.blocked", "status", "1 while something holds the partition and it tries again, else 0."),
		blockedFor: meter.floatGauge("streams.block.duration_ms", "ms", "For how long something has held the partition; 0 when nothing does."),
		lagEntries: meter.gauge("streams.lag.entries", "entries", "Entries of the stream behind the position."),
		lagTime:    meter.floatGauge("streams.lag.ms", "ms", "Age of the oldest message that is read and not done; 0 when there is none."),
		trimIn:     meter.gauge("streams.trim.in", "s", "Time until trimming reaches the position, if that goes on to stand."),
		length:     meter.gauge("streams.stream.length", "entries", "Entries in the stream, done ones included."),
		stopped:    meter.gauge("streams.partitions.stopped", "partitions", "Partitions that an error of the handler has stopped."),
	}
}

// watch observes a group until it is told to stop.
func (m *loopMetrics) watch(group *stream.Group) (unwatch func()) {
	defer passOver()
	g := m.gauges
	registration, err := m.meter.RegisterCallback(func(_ context.Context, observer metric.Observer) error {
		m.observe(observer, group)
		return nil
	}, g.blocked, g.blockedFor, g.lagEntries, g.lagTime, g.trimIn, g.length, g.stopped)
	if err != nil {
		return func() {}
	}
	return func() {
		defer passOver()
		_ = registration.Unregister()
	}
}

func (m *loopMetrics) observe(observer metric.Observer, group *stream.Group) {
	now := time.Now()
	since := func(then time.Time) float64 { return max(0, float64(now.Sub(then))/float64(time.Millisecond)) }
	partitions, _, _ := group.Status()
	var stopped int64
	for _, status := range partitions {
		labels := m.labels(status.Partition)
		if status.State == stream.Stopped && status.Err != nil { // else it is the run that ends
			stopped++
		}
		switch {
		case status.Blocked != nil && status.State == stream.Holding:
			observer.ObserveInt64(m.gauges.blocked, 1, labels.gauge)
			observer.ObserveFloat64(m.gauges.blockedFor, since(status.Blocked.Since), labels.gauge)
		case status.State != stream.Starting:
			observer.ObserveInt64(m.gauges.blocked, 0, labels.gauge)
			observer.ObserveFloat64(m.gauges.blockedFor, 0, labels.gauge)
		}
		if status.LagKnown {
			observer.ObserveInt64(m.gauges.lagEntries, status.Lag, labels.gauge)
		}
		switch {
		case !status.Oldest.IsZero():
			observer.ObserveFloat64(m.gauges.lagTime, since(status.Oldest), labels.gauge)
		case status.State == stream.Idle:
			observer.ObserveFloat64(m.gauges.lagTime, 0, labels.gauge)
		}
		if status.TrimIn != nil {
			observer.ObserveInt64(m.gauges.trimIn, int64(status.TrimIn.Seconds()), labels.gauge)
		}
		if status.Sampled {
			observer.ObserveInt64(m.gauges.length, status.Length, labels.length)
		}
	}
	observer.ObserveInt64(m.gauges.stopped, stopped, metric.WithAttributeSet(attribute.NewSet(m.and()...)))
}
