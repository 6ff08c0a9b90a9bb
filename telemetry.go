package restatestart

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redisevents/restatestart/internal/ingress"
)

// ScopeName is the instrumentation scope of a Starter's spans and metrics, the same as that of the .NET package,
// so that one dashboard serves both.
const ScopeName = "RedisEvents.Restate"

const (
	// maxWorkflows is how many workflows the metrics tell apart; the rest are otherWorkflow. What Map chooses may
	// depend on what is in a message, and a metric's attributes must not.
	maxWorkflows  = 16
	otherWorkflow = "other"
	// maxAttribute is how many bytes of a text go into a span or a metric; a key may be 64 KiB long.
	maxAttribute = 256
)

// startBounds are the buckets of a start's duration in seconds: from an answer at once to one attempt after the
// other running into its timeout.
var startBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120} //nolint:gochecknoglobals // a constant

// telemetry is what a Starter reports to a meter. Nothing that goes wrong here undoes a start or keeps one from being
// made: a panic of a meter is passed over. What a measurement is filed under is prepared, so that one that nobody
// records allocates nothing.
type telemetry struct {
	starts    metric.Int64Counter // accepted
	attempts  metric.Int64Counter
	durations metric.Float64Histogram
	active    metric.Int64UpDownCounter
	unkept    metric.Int64Counter
	failures  metric.Int64Counter
	blocked   metric.Int64Counter

	outcomes  [len(reasonNames) + 1][len(statusClasses)][]metric.AddOption // of attempts, by reason; the last are accepted
	reasons   [len(reasonNames)][]metric.AddOption
	workflows atomic.Pointer[map[string]*workflowLabels]
	other     *workflowLabels
}

// statusClasses are the values of status_class.
var statusClasses = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx", "other"} //nolint:gochecknoglobals // a constant

func classOf(status int) int {
	switch class := status / 100; {
	case status == 0:
		return 0
	case class >= 1 && class <= 5:
		return class
	default:
		return len(statusClasses) - 1
	}
}

// workflowLabels are what the measurements of one workflow are filed under.
type workflowLabels struct {
	acceptedNow, acceptedBefore []metric.AddOption
	accepted, failed            []metric.RecordOption
}

func newWorkflowLabels(workflow string) *workflowLabels {
	name := text("workflow", workflow)
	return &workflowLabels{
		acceptedNow:    counted(name, attribute.Bool("restate.start.duplicate", false)),
		acceptedBefore: counted(name, attribute.Bool("restate.start.duplicate", true)),
		accepted:       recorded(name, attribute.String("outcome", "accepted")),
		failed:         recorded(name, attribute.String("outcome", "failed")),
	}
}

func counted(attributes ...attribute.KeyValue) []metric.AddOption {
	return []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}

func recorded(attributes ...attribute.KeyValue) []metric.RecordOption {
	return []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attributes...))}
}

func newTelemetry(options Options) (*telemetry, error) {
	t := &telemetry{other: newWorkflowLabels(otherWorkflow)}
	t.workflows.Store(&map[string]*workflowLabels{})
	for class, status := range statusClasses {
		under := attribute.String("status_class", status)
		for reason, name := range reasonNames {
			t.outcomes[reason][class] = counted(attribute.String("outcome", name), under)
		}
		t.outcomes[len(reasonNames)][class] = counted(attribute.String("outcome", "accepted"), under)
	}
	meter := instruments{meter: options.MeterProvider.Meter(ScopeName)}
	t.starts = meter.counter("restate.start.accepted", "{start}", "Starts that Restate accepted; a duplicate is one whose key it knew already.")
	t.attempts = meter.counter("restate.start.attempts", "{attempt}", "POSTs made, by what came of them.")
	t.durations = meter.histogram("restate.start.duration", "s", "Time from a start's first attempt to its outcome, the waits between attempts included.", startBounds)
	t.active = meter.upDownCounter("restate.start.active", "{start}", "Starts under way, the waits between attempts included.")
	t.unkept = meter.counter("restate.start.filtered", "{message}", "Messages that Keep turned away.")
	t.failures = meter.counter("restate.start.failed", "{start}", "Starts that one Handle call did not get accepted, by reason.")
	t.blocked = meter.counter("restate.start.blocked", "{batch}", "Handle calls that ended blocked; those cut short by a shutdown are not counted.")
	if meter.err != nil {
		return nil, meter.err
	}
	for reason, name := range reasonNames {
		t.reasons[reason] = counted(attribute.String("reason", name))
	}
	t.beginAtZero()
	return t, nil
}

// beginAtZero makes the series that alerts are about: one that appears with the first trouble looks as if there was
// none.
func (t *telemetry) beginAtZero() {
	defer passOver()
	for _, reason := range t.reasons {
		t.failures.Add(context.Background(), 0, reason...)
	}
	t.blocked.Add(context.Background(), 0)
}

// instruments makes instruments and keeps the first error.
type instruments struct {
	meter metric.Meter
	err   error
}

func (i *instruments) keep(err error) {
	if i.err == nil {
		i.err = err
	}
}

func (i *instruments) counter(name, unit, description string) metric.Int64Counter {
	counter, err := i.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
	i.keep(err)
	return counter
}

func (i *instruments) upDownCounter(name, unit, description string) metric.Int64UpDownCounter {
	counter, err := i.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
	i.keep(err)
	return counter
}

func (i *instruments) histogram(name, unit, description string, bounds []float64) metric.Float64Histogram {
	histogram, err := i.meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
	i.keep(err)
	return histogram
}

func (i *instruments) sizes(name, unit, description string, bounds []float64) metric.Int64Histogram {
	histogram, err := i.meter.Int64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
	i.keep(err)
	return histogram
}

func (i *instruments) gauge(name, unit, description string) metric.Int64ObservableGauge {
	gauge, err := i.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	i.keep(err)
	return gauge
}

func (i *instruments) floatGauge(name, unit, description string) metric.Float64ObservableGauge {
	gauge, err := i.meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description))
	i.keep(err)
	return gauge
}

// labels finds what a workflow's measurements are filed under. The names that came first are told apart, for as long
// as the Starter lives.
func (t *telemetry) labels(workflow string) *workflowLabels {
	for {
		known := t.workflows.Load()
		if labels, found := (*known)[workflow]; found {
			return labels
		}
		if len(*known) == maxWorkflows {
			return t.other
		}
		more := make(map[string]*workflowLabels, len(*known)+1)
		maps.Copy(more, *known)
		more[workflow] = newWorkflowLabels(workflow)
		t.workflows.CompareAndSwap(known, &more)
	}
}

// filtered counts messages that were not kept.
func (t *telemetry) filtered(ctx context.Context, messages int) {
	defer passOver()
	if messages > 0 {
		t.unkept.Add(ctx, int64(messages))
	}
}

// begin counts a start that is under way from now on.
func (t *telemetry) begin(ctx context.Context) {
	defer passOver()
	t.active.Add(ctx, 1)
}

// attempt counts what came of one POST.
func (t *telemetry) attempt(ctx context.Context, reason Reason, status int) {
	defer passOver()
	at := int(reason)
	if reason == accepted {
		at = len(reasonNames)
	}
	t.attempts.Add(ctx, 1, t.outcomes[at][classOf(status)]...)
}

// end counts a start that is not under way any more. The answer is that of its last attempt. How long it took says
// something only when there was one.
func (t *telemetry) end(ctx context.Context, outcome *FailedStart, answer ingress.Answer, accepted bool, took time.Duration) {
	defer passOver()
	t.active.Add(ctx, -1)
	if outcome.Attempts == 0 || !t.starts.Enabled(ctx) && !t.durations.Enabled(ctx) {
		return
	}
	labels := t.labels(outcome.Workflow)
	if !accepted {
		t.durations.Record(ctx, took.Seconds(), labels.failed...)
		return
	}
	t.durations.Record(ctx, took.Seconds(), labels.accepted...)
	if answer.Previously {
		t.starts.Add(ctx, 1, labels.acceptedBefore...)
	} else {
		t.starts.Add(ctx, 1, labels.acceptedNow...)
	}
}

// batchBlocked counts a batch that was not accepted as a whole.
func (t *telemetry) batchBlocked(ctx context.Context, blocked *BlockedError) {
	defer passOver()
	ctx = context.WithoutCancel(ctx)
	for _, failed := range blocked.Failed {
		t.failures.Add(ctx, 1, t.reasons[failed.Reason]...)
	}
	if !blocked.ShuttingDown {
		t.blocked.Add(ctx, 1)
	}
}

// passOver ends a panic of a meter or a tracer: it is no reason to lose or repeat a start.
func passOver() { _ = recover() }
