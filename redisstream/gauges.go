package redisstream

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/telemetry"
)

// gauges report what Status shows at the time of collection. What is not known is not reported, nor is a partition
// that was assigned elsewhere.
type gauges struct {
	blocked    metric.Int64ObservableGauge
	blockedFor metric.Float64ObservableGauge
	lagEntries metric.Int64ObservableGauge
	lagTime    metric.Float64ObservableGauge
	trimIn     metric.Int64ObservableGauge
	length     metric.Int64ObservableGauge
	stopped    metric.Int64ObservableGauge
}

func newGauges(meter *telemetry.Meter) gauges {
	return gauges{
		blocked:    meter.Gauge("streams.blocked", "status", "1 while something holds the partition and it tries again, else 0."),
		blockedFor: meter.FloatGauge("streams.block.duration_ms", "ms", "For how long something has held the partition; 0 when nothing does."),
		lagEntries: meter.Gauge("streams.lag.entries", "entries", "Entries of the stream behind the position."),
		lagTime:    meter.FloatGauge("streams.lag.ms", "ms", "Age of the oldest message that was read and not yet processed; 0 when there is none."),
		trimIn:     meter.Gauge("streams.trim.in", "s", "Time until trimming reaches the position, if that does not move."),
		length:     meter.Gauge("streams.stream.length", "entries", "Entries in the stream, processed ones included."),
		stopped:    meter.Gauge("streams.partitions.stopped", "partitions", "Partitions that an error of the handler has stopped."),
	}
}

// watch reports the gauges of a loop until stop is called.
func (m *metrics) watch(loop *stream.Loop) (stop func()) {
	g := m.gauges
	return m.meter.Observe(func(observer metric.Observer) { m.observe(observer, loop) },
		g.blocked, g.blockedFor, g.lagEntries, g.lagTime, g.trimIn, g.length, g.stopped)
}

func (m *metrics) observe(observer metric.Observer, loop *stream.Loop) {
	now := time.Now()
	since := func(then time.Time) float64 { return max(0, float64(now.Sub(then))/float64(time.Millisecond)) }
	partitions, _, _ := loop.Status()
	var stopped int64
	for _, status := range partitions {
		attributes := m.of(status.Partition)
		if status.State == StateStopped && status.Err != nil { // else Run is ending
			stopped++
		}
		switch {
		case status.Blocked != nil && status.State == StateBlocked:
			observer.ObserveInt64(m.gauges.blocked, 1, attributes.gauge)
			observer.ObserveFloat64(m.gauges.blockedFor, since(status.Blocked.Since), attributes.gauge)
		case status.State != StateStarting:
			observer.ObserveInt64(m.gauges.blocked, 0, attributes.gauge)
			observer.ObserveFloat64(m.gauges.blockedFor, 0, attributes.gauge)
		}
		if status.LagKnown {
			observer.ObserveInt64(m.gauges.lagEntries, status.Lag, attributes.gauge)
		}
		switch {
		case !status.Oldest.IsZero():
			observer.ObserveFloat64(m.gauges.lagTime, since(status.Oldest), attributes.gauge)
		case status.State == StateIdle:
			observer.ObserveFloat64(m.gauges.lagTime, 0, attributes.gauge)
		}
		if status.TrimIn != nil {
			observer.ObserveInt64(m.gauges.trimIn, int64(status.TrimIn.Seconds()), attributes.gauge)
		}
		if status.Sampled {
			observer.ObserveInt64(m.gauges.length, status.Length, attributes.length)
		}
	}
	observer.ObserveInt64(m.gauges.stopped, stopped, metric.WithAttributeSet(attribute.NewSet(m.with()...)))
}
