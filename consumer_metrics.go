package restatestart

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redisevents/restatestart/internal/stream"
)

// ConsumerScopeName is the instrumentation scope of a Consumer's spans and metrics. Their names, units and attributes
// are those of RedisEvents where they mean the same, so that one dashboard serves both.
const ConsumerScopeName = "RedisEvents"

// The buckets of a batch's duration in milliseconds, and of its size.
var (
	batchMilliseconds = []float64{1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000, 300000} //nolint:gochecknoglobals // a constant
	batchSizes        = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000}                                        //nolint:gochecknoglobals // a constant
)

// loopMetrics is what a Consumer reports to a meter, and the stream.Observer of its loop. A panic of a meter is passed
// over, as with a Starter's.
type loopMetrics struct {
	topic, consumer attribute.KeyValue
	prefix          []attribute.KeyValue // the KeyPrefix, if there is one
	meter           metric.Meter

	consumed      metric.Int64Counter
	filtered      metric.Int64Counter
	reads         metric.Int64Counter
	failures      metric.Int64Counter
	lostMessages  metric.Int64Counter
	putAside      metric.Int64Counter
	gaps          metric.Int64Counter
	flushFailures metric.Int64Counter
	durations     metric.Float64Histogram
	sizes         metric.Int64Histogram
	gauges        loopGauges

	counted  []metric.AddOption    // under the topic and the consumer
	recorded []metric.RecordOption // the same

	mu         sync.Mutex
	partitions map[int]*partitionLabels
}

// partitionLabels are what the measurements of one partition are filed under.
type partitionLabels struct {
	counted []metric.AddOption
	lost    map[string][]metric.AddOption // by cause
	parked  map[string][]metric.AddOption // by event
	gaps    [len(gapKindNames)][]metric.AddOption
	gauge   metric.MeasurementOption
	length  metric.MeasurementOption // without the consumer
}

func newLoopMetrics(topic string, options ConsumerOptions) (*loopMetrics, error) {
	m := &loopMetrics{
		topic: text("topic", topic), consumer: text("consumer", options.Consumer),
		meter: options.MeterProvider.Meter(ConsumerScopeName), partitions: map[int]*partitionLabels{},
	}
	if options.KeyPrefix != "" {
		m.prefix = []attribute.KeyValue{text("key_prefix", options.KeyPrefix)}
	}
	m.counted, m.recorded = counted(m.and()...), recorded(m.and()...)
	meter := instruments{meter: m.meter}
	m.consumed = meter.counter("streams.consumed", "messages", "Messages that the handler is done with.")
	m.filtered = meter.counter("streams.filtered", "messages", "Messages passed over because they are of none of the Types.")
	m.reads = meter.counter("streams.reads", "{read}", "Reads that were answered, with something or with nothing: the heartbeat of a partition.")
	m.failures = meter.counter("streams.errors", "messages", "Hand-overs that did not work out, and outages of reading.")
	m.lostMessages = meter.counter("streams.lost", "messages", "Messages that were given up on.")
	m.putAside = meter.counter("streams.parked", "messages", "Messages that were parked, and parked ones that were replayed or discarded.")
	m.gaps = meter.counter("streams.gaps", "{gap}", "Holes in a stream: entries that vanished before they were read.")
	m.flushFailures = meter.counter("streams.positions.flush_failures", "failures", "Writes of positions that failed.")
	m.durations = meter.histogram("streams.batch.duration", "ms", "Time that one call of the handler took.", batchMilliseconds)
	m.sizes = meter.sizes("streams.batch.size", "messages", "Messages of one call of the handler.", batchSizes)
	m.gauges = newLoopGauges(&meter)
	return m, meter.err
}

// and are the attributes of this consumer and more.
func (m *loopMetrics) and(more ...attribute.KeyValue) []attribute.KeyValue {
	return slices.Concat([]attribute.KeyValue{m.topic, m.consumer}, m.prefix, more)
}

// labels finds what a partition's measurements are filed under. Those that alerts are about begin at 0.
func (m *loopMetrics) labels(partition int) *partitionLabels {
	m.mu.Lock()
	defer m.mu.Unlock()
	labels := m.partitions[partition]
	if labels == nil {
		number := attribute.Int("partition", partition)
		labels = &partitionLabels{
			counted: counted(m.and(number)...), lost: map[string][]metric.AddOption{}, parked: map[string][]metric.AddOption{},
			gauge:  metric.WithAttributeSet(attribute.NewSet(m.and(number)...)),
			length: metric.WithAttributeSet(attribute.NewSet(append([]attribute.KeyValue{m.topic, number}, m.prefix...)...)),
		}
		m.partitions[partition] = labels
		m.consumed.Add(context.Background(), 0, labels.counted...)
		for kind, name := range gapKindNames {
			labels.gaps[kind] = counted(m.and(number, attribute.String("kind", name))...)
			if GapKind(kind) != GapUnknown {
				m.gaps.Add(context.Background(), 0, labels.gaps[kind]...)
			}
		}
		for _, cause := range [...]string{causeMalformed, causeHandler, causeVanished} {
			labels.lost[cause] = counted(m.and(number, attribute.String("cause", cause))...)
			m.lostMessages.Add(context.Background(), 0, labels.lost[cause]...)
		}
		for _, event := range [...]parkedEvent{entryParked, entryReplayed, entryDiscarded} {
			labels.parked[event.kind()] = counted(m.and(number, attribute.String("event", event.kind()))...)
			m.putAside.Add(context.Background(), 0, labels.parked[event.kind()]...)
		}
	}
	return labels
}

// begin makes the series that a consumer has from the start.
func (m *loopMetrics) begin(partitions []int) {
	defer passOver()
	m.filtered.Add(context.Background(), 0, m.counted...)
	m.flushFailures.Add(context.Background(), 0, m.counted...)
	for _, partition := range partitions {
		m.labels(partition)
	}
}

// Read implements stream.Observer, as do those that follow.
func (m *loopMetrics) Read(partition int) {
	defer passOver()
	m.reads.Add(context.Background(), 1, m.labels(partition).counted...)
}

func (m *loopMetrics) ReadFailed(int) { m.failed("transport", "RedisError") }

func (m *loopMetrics) Failed(_ int, verdict stream.Verdict) {
	m.failed(policyOf(verdict.Action), exceptionOf(verdict))
}

func (m *loopMetrics) Passed(partition int, page stream.Page, left stream.Left) {
	defer passOver()
	m.consumed.Add(context.Background(), int64(len(page.Entries)-left.Skipped-left.Dropped-left.Parked), m.labels(partition).counted...)
	m.lost(partition, causeMalformed, left.Skipped)
	m.lost(partition, causeHandler, left.Dropped)
	if others := page.Read - len(page.Entries); others > 0 {
		m.filtered.Add(context.Background(), int64(others), m.counted...)
	}
}

func (m *loopMetrics) SaveFailed() {
	defer passOver()
	m.flushFailures.Add(context.Background(), 1, m.counted...)
}

func (m *loopMetrics) failed(policy, exception string) {
	defer passOver()
	m.failures.Add(context.Background(), 1,
		metric.WithAttributes(m.and(attribute.String("policy", policy), attribute.String("exception.type", exception))...))
}

// lost counts messages that were given up on.
func (m *loopMetrics) lost(partition int, cause string, messages int) {
	defer passOver()
	if messages == 0 {
		return
	}
	m.lostMessages.Add(context.Background(), int64(messages), m.labels(partition).lost[cause]...)
}

// parked counts a message that was parked, replayed or discarded.
func (m *loopMetrics) parked(partition int, event parkedEvent) {
	defer passOver()
	if event.kind() != "" {
		m.putAside.Add(context.Background(), 1, m.labels(partition).parked[event.kind()]...)
	}
}

// gap counts a hole, and what was lost in it, as far as that is known.
func (m *loopMetrics) gap(partition int, gap Gap) {
	defer passOver()
	if gap.Lost != nil {
		m.lost(partition, causeVanished, int(*gap.Lost))
	}
	m.gaps.Add(context.Background(), 1, m.labels(partition).gaps[gap.Kind]...)
}

// handled measures one call of the handler.
func (m *loopMetrics) handled(ctx context.Context, messages int, took time.Duration) {
	defer passOver()
	m.durations.Record(ctx, float64(took)/float64(time.Millisecond), m.recorded...)
	m.sizes.Record(ctx, int64(messages), m.recorded...)
}

// policyOf is what RedisEvents calls an answer to an error.
func policyOf(action stream.Action) string {
	switch action {
	case stream.Skip:
		return "best_effort"
	case stream.Stop:
		return "stop_partition"
	case stream.Fail:
		return "fail"
	default:
		return "block"
	}
}

// exceptionOf classifies an error. The names of a handler's own types of error are not told apart: there may be any
// number of them.
func exceptionOf(verdict stream.Verdict) string {
	switch _, panicked := errors.AsType[*PanicError](verdict.Err); {
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
