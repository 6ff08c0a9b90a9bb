package redisstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/telemetry"
)

// ScopeName is the instrumentation scope of a Consumer's spans and metrics. Their names, units and attributes
// are those of RedisEvents where they mean the same, so that one dashboard serves both.
const ScopeName = telemetry.ConsumerScope

// The buckets of a batch's duration in milliseconds, and of its size.
var (
	batchMilliseconds = []float64{1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000, 300000} //nolint:gochecknoglobals // a constant
	batchSizes        = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}                                        //nolint:gochecknoglobals // a constant
)

// metrics are the instruments of a Consumer, and the observer of its loop.
type metrics struct {
	consumer []attribute.KeyValue // topic, consumer and perhaps the KeyPrefix
	stream   []attribute.KeyValue // without the consumer
	meter    *telemetry.Meter

	consumed      telemetry.Counter
	filtered      telemetry.Counter
	reads         telemetry.Counter
	failures      telemetry.Counter
	lostMessages  telemetry.Counter
	gaps          telemetry.Counter
	flushFailures telemetry.Counter
	durations     telemetry.Histogram
	sizes         telemetry.SizeHistogram
	gauges        gauges

	counted  []metric.AddOption    // with the topic and the consumer
	recorded []metric.RecordOption // the same

	mu         sync.Mutex
	partitions map[int]*partitionAttributes
}

// partitionAttributes are those of the measurements of one partition.
type partitionAttributes struct {
	counted []metric.AddOption
	lost    map[string][]metric.AddOption  // by cause
	gaps    map[GapKind][]metric.AddOption // by kind
	gauge   metric.MeasurementOption
	length  metric.MeasurementOption // without the consumer
}

func newMetrics(meter *telemetry.Meter, topic string, options Options) *metrics {
	m := &metrics{
		consumer: telemetry.ConsumerAttributes(topic, options.Consumer, options.KeyPrefix),
		meter:    meter, partitions: map[int]*partitionAttributes{},
	}
	m.stream = slices.DeleteFunc(slices.Clone(m.consumer), func(a attribute.KeyValue) bool { return a.Key == "consumer" })
	m.counted, m.recorded = telemetry.Adds(m.with()...), telemetry.Records(m.with()...)
	m.consumed = meter.Counter("streams.consumed", "messages", "Messages that the handler has processed.")
	m.filtered = meter.Counter("streams.filtered", "messages", "Messages skipped because they are of none of the Types.")
	m.reads = meter.Counter("streams.reads", "{read}", "Reads that were answered, empty ones included: the heartbeat of a partition.")
	m.failures = meter.Counter("streams.errors", "messages", "Deliveries that failed, and outages of reading.")
	m.lostMessages = meter.Counter("streams.lost", "messages", "Messages that were skipped for an error, or vanished unread.")
	m.gaps = meter.Counter("streams.gaps", "{gap}", "Gaps in a stream: entries that vanished before they were read.")
	m.flushFailures = meter.Counter("streams.positions.flush_failures", "failures", "Writes of positions that failed.")
	m.durations = meter.Histogram("streams.batch.duration", "ms", "Duration of one call of the handler.", batchMilliseconds)
	m.sizes = meter.SizeHistogram("streams.batch.size", "messages", "Messages of one call of the handler.", batchSizes)
	m.gauges = newGauges(meter)
	return m
}

// with returns the attributes of this consumer and more.
func (m *metrics) with(more ...attribute.KeyValue) []attribute.KeyValue {
	return slices.Concat(m.consumer, more)
}

// of returns the attributes of a partition's measurements. The series that alerts are about begin at 0.
func (m *metrics) of(partition int) *partitionAttributes {
	m.mu.Lock()
	defer m.mu.Unlock()
	attributes := m.partitions[partition]
	if attributes != nil {
		return attributes
	}
	number := attribute.Int("partition", partition)
	attributes = &partitionAttributes{
		counted: telemetry.Adds(m.with(number)...), lost: map[string][]metric.AddOption{}, gaps: map[GapKind][]metric.AddOption{},
		gauge:  metric.WithAttributeSet(attribute.NewSet(m.with(number)...)),
		length: metric.WithAttributeSet(attribute.NewSet(slices.Concat(m.stream, []attribute.KeyValue{number})...)),
	}
	m.partitions[partition] = attributes
	m.consumed.Add(context.Background(), 0, attributes.counted...)
	for _, kind := range stream.GapKinds() {
		attributes.gaps[kind] = telemetry.Adds(m.with(number, attribute.String("kind", kind.String()))...)
		m.gaps.Add(context.Background(), 0, attributes.gaps[kind]...)
	}
	for _, cause := range [...]string{causeMalformed, causeHandler, causeVanished} {
		attributes.lost[cause] = telemetry.Adds(m.with(number, attribute.String("cause", cause))...)
		m.lostMessages.Add(context.Background(), 0, attributes.lost[cause]...)
	}
	return attributes
}

// begin begins the series that a consumer has from the start.
func (m *metrics) begin(partitions []int) {
	m.filtered.Add(context.Background(), 0, m.counted...)
	m.flushFailures.Add(context.Background(), 0, m.counted...)
	for _, partition := range partitions {
		m.of(partition)
	}
}

// Read implements stream.Observer, as do those that follow.
func (m *metrics) Read(partition int) {
	m.reads.Add(context.Background(), 1, m.of(partition).counted...)
}

func (m *metrics) ReadFailed(int) { m.failed("transport", "RedisError") }

func (m *metrics) DeliveryFailed(_ int, verdict stream.Verdict) {
	m.failed(policyName(verdict.Policy), exceptionType(verdict))
}

func (m *metrics) Processed(partition int, page stream.Page, left stream.Unprocessed) {
	m.consumed.Add(context.Background(), int64(len(page.Entries)-left.Skipped-left.Dropped-left.Parked), m.of(partition).counted...)
	m.lost(partition, causeMalformed, left.Skipped)
	m.lost(partition, causeHandler, left.Dropped)
	if others := page.Read - len(page.Entries); others > 0 {
		m.filtered.Add(context.Background(), int64(others), m.counted...)
	}
}

func (m *metrics) CommitFailed() {
	m.flushFailures.Add(context.Background(), 1, m.counted...)
}

func (m *metrics) failed(policy, exception string) {
	m.failures.Add(context.Background(), 1,
		metric.WithAttributes(m.with(attribute.String("policy", policy), attribute.String("exception.type", exception))...))
}

// lost counts messages that were skipped or vanished.
func (m *metrics) lost(partition int, cause string, messages int) {
	if messages == 0 {
		return
	}
	m.lostMessages.Add(context.Background(), int64(messages), m.of(partition).lost[cause]...)
}

// gap counts a gap, and the entries lost in it where their number is known.
func (m *metrics) gap(partition int, gap Gap) {
	if gap.Lost != nil {
		m.lost(partition, causeVanished, int(*gap.Lost))
	}
	m.gaps.Add(context.Background(), 1, m.of(partition).gaps[gap.Kind]...)
}

// handled measures one call of the handler.
func (m *metrics) handled(ctx context.Context, messages int, took time.Duration) {
	m.durations.Record(ctx, float64(took)/float64(time.Millisecond), m.recorded...)
	m.sizes.Record(ctx, int64(messages), m.recorded...)
}

// policyName is what RedisEvents calls a policy.
func policyName(policy ErrorPolicy) string {
	switch policy {
	case ErrorSkip:
		return "best_effort"
	case ErrorStop:
		return "stop_partition"
	case ErrorFail:
		return "fail"
	default:
		return "block"
	}
}

// exceptionType classifies an error. The types of a handler's own errors are not told apart: there may be any number.
func exceptionType(verdict stream.Verdict) string {
	switch _, panicked := errors.AsType[*restatestart.PanicError](verdict.Err); {
	case verdict.Cause == causeStarts:
		return "BlockedError"
	case verdict.Cause == causeMalformed:
		return "MalformedError"
	case panicked:
		return "PanicError"
	default:
		return "Error"
	}
}

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
