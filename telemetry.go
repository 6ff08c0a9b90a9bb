package restatestart

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/redisevents/restatestart/internal/ingress"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/text"
	"github.com/redisevents/restatestart/internal/wire"
)

// ScopeName is the instrumentation scope of a Starter's spans and metrics, the same as that of the .NET package, so
// that one dashboard serves both.
const ScopeName = "RedisEvents.Restate"

const (
	// maxWorkflows is how many workflows the metrics tell apart; the rest are otherWorkflow. What Map chooses may depend
	// on what is in a message, and the attributes of a metric must be few.
	maxWorkflows  = 16
	otherWorkflow = "other"
)

// startBounds are the buckets of a start's duration in seconds: from an answer at once to one attempt after the
// other that runs into its timeout.
var startBounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120} //nolint:gochecknoglobals // a constant

// instruments are what a Starter reports with. Attributes are prepared, so that a measurement that nobody records
// allocates nothing.
type instruments struct {
	guard      *telemetry.Guard
	tracer     telemetry.Tracer
	propagator propagation.TextMapPropagator
	server     [2]attribute.KeyValue // the ingress's address and port

	accepted  telemetry.Counter
	attempts  telemetry.Counter
	durations telemetry.Histogram
	active    telemetry.UpDownCounter
	unkept    telemetry.Counter
	failed    telemetry.Counter
	blocked   telemetry.Counter

	outcomes  [len(reasonNames) + 1][len(statusClasses)][]metric.AddOption // of attempts, by reason; the last one is accepted
	reasons   [len(reasonNames)][]metric.AddOption
	workflows atomic.Pointer[map[string]*workflowAttributes]
	other     *workflowAttributes
}

// statusClasses are the values of status_class.
var statusClasses = [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx", "other"} //nolint:gochecknoglobals // a constant

func statusClass(status int) int {
	switch class := status / 100; {
	case status == 0:
		return 0
	case class >= 1 && class <= 5:
		return class
	default:
		return len(statusClasses) - 1
	}
}

// workflowAttributes are those of the measurements of one workflow.
type workflowAttributes struct {
	started, duplicate []metric.AddOption
	accepted, failed   []metric.RecordOption
}

func newWorkflowAttributes(workflow string) *workflowAttributes {
	name := telemetry.Text("workflow", workflow)
	return &workflowAttributes{
		started:   telemetry.Adds(name, attribute.Bool("restate.start.duplicate", false)),
		duplicate: telemetry.Adds(name, attribute.Bool("restate.start.duplicate", true)),
		accepted:  telemetry.Records(name, attribute.String("outcome", "accepted")),
		failed:    telemetry.Records(name, attribute.String("outcome", "failed")),
	}
}

func newInstruments(options Options, guard *telemetry.Guard, server [2]attribute.KeyValue) (*instruments, error) {
	i := &instruments{guard: guard, server: server, propagator: options.Propagator, other: newWorkflowAttributes(otherWorkflow)}
	i.tracer = i.guard.Tracer(options.TracerProvider, ScopeName)
	i.workflows.Store(&map[string]*workflowAttributes{})
	for class, status := range statusClasses {
		statusClass := attribute.String("status_class", status)
		for reason, name := range reasonNames {
			i.outcomes[reason][class] = telemetry.Adds(attribute.String("outcome", name), statusClass)
		}
		i.outcomes[len(reasonNames)][class] = telemetry.Adds(attribute.String("outcome", "accepted"), statusClass)
	}
	meter := i.guard.Meter(options.MeterProvider, ScopeName)
	i.accepted = meter.Counter("restate.start.accepted", "{start}", "Starts that Restate accepted; a duplicate is one whose key it knew already.")
	i.attempts = meter.Counter("restate.start.attempts", "{attempt}", "POSTs made, by what came of them.")
	i.durations = meter.Histogram("restate.start.duration", "s", "Time from a start's first attempt to its outcome, the waits between attempts included.", startBounds)
	i.active = meter.UpDownCounter("restate.start.active", "{start}", "Starts in flight, the waits between attempts included.")
	i.unkept = meter.Counter("restate.start.filtered", "{message}", "Messages that Keep dropped.")
	i.failed = meter.Counter("restate.start.failed", "{start}", "Starts that were not accepted within one Handle call, by reason.")
	i.blocked = meter.Counter("restate.start.blocked", "{batch}", "Handle calls that ended blocked; those cut short by a shutdown are not counted.")
	if meter.Err != nil {
		return nil, meter.Err
	}
	// The series that alerts are about begin at 0: one that appears with the first error looks as if there was none.
	for reason, name := range reasonNames {
		i.reasons[reason] = telemetry.Adds(attribute.String("reason", name))
		i.failed.Add(context.Background(), 0, i.reasons[reason]...)
	}
	i.blocked.Add(context.Background(), 0)
	return i, nil
}

// of returns the attributes of a workflow's measurements. The names that came first have their own, for as long as the
// Starter lives.
func (i *instruments) of(workflow string) *workflowAttributes {
	for {
		known := i.workflows.Load()
		if attributes, found := (*known)[workflow]; found {
			return attributes
		}
		if len(*known) == maxWorkflows {
			return i.other
		}
		more := make(map[string]*workflowAttributes, len(*known)+1)
		maps.Copy(more, *known)
		more[workflow] = newWorkflowAttributes(workflow)
		i.workflows.CompareAndSwap(known, &more)
	}
}

// filtered counts messages that were not kept.
func (i *instruments) filtered(ctx context.Context, messages int) {
	if messages > 0 {
		i.unkept.Add(ctx, int64(messages))
	}
}

// begin counts a start in flight.
func (i *instruments) begin(ctx context.Context) { i.active.Add(ctx, 1) }

// attempt counts what came of one POST.
func (i *instruments) attempt(ctx context.Context, reason Reason, status int) {
	outcome := int(reason)
	if reason == accepted {
		outcome = len(reasonNames)
	}
	i.attempts.Add(ctx, 1, i.outcomes[outcome][statusClass(status)]...)
}

// end counts a start that is no longer in flight. The answer is that of its last attempt; without an attempt there is
// no duration.
func (i *instruments) end(ctx context.Context, outcome *FailedStart, answer ingress.Answer, accepted bool, took time.Duration) {
	i.active.Add(ctx, -1)
	if outcome.Attempts == 0 || !i.accepted.Enabled(ctx) && !i.durations.Enabled(ctx) {
		return
	}
	attributes := i.of(outcome.Workflow)
	if !accepted {
		i.durations.Record(ctx, took.Seconds(), attributes.failed...)
		return
	}
	i.durations.Record(ctx, took.Seconds(), attributes.accepted...)
	if answer.Previously {
		i.accepted.Add(ctx, 1, attributes.duplicate...)
	} else {
		i.accepted.Add(ctx, 1, attributes.started...)
	}
}

// batchBlocked counts a batch that was not accepted as a whole.
func (i *instruments) batchBlocked(ctx context.Context, blocked *BlockedError) {
	ctx = context.WithoutCancel(ctx)
	for _, failed := range blocked.Failed {
		i.failed.Add(ctx, 1, i.reasons[failed.Reason]...)
	}
	if !blocked.ShuttingDown {
		i.blocked.Add(ctx, 1)
	}
}

// startSpan is the span of one start, over all its attempts.
type startSpan struct{ telemetry.Span }

// callTracing makes the spans of one Handle call.
type callTracing struct {
	*instruments

	ctx context.Context //nolint:containedctx // of the call, which this does not outlive

	// off reports that the tracer makes no spans. What is behind OpenTelemetry's global provider can change at any time
	// and cannot be asked for: the first start of each call finds out.
	off atomic.Bool
}

func (i *instruments) newCallTracing(ctx context.Context) *callTracing {
	t := &callTracing{instruments: i, ctx: ctx}
	t.off.Store(i.tracer.Off())
	return t
}

// beginSpan begins the span of a start, and puts the trace context that goes out with its POSTs into the send. The
// span's parent is the message's producer, and the batch's own span is linked; without a producer the batch's span is
// the parent. Without a span, the producer's trace context goes out as it came.
func (t *callTracing) beginSpan(send *ingress.Send, id, stream, traceParent string, headers wire.Headers) (context.Context, startSpan) {
	batch := trace.SpanContextFromContext(t.ctx)
	producer, parent, state := telemetry.Producer(traceParent, headers)
	if !t.off.Load() {
		span := t.startSpan(t.ctx, producer, batch, send, telemetry.Text("messaging.message.id", id), telemetry.Text("streams.stream", stream))
		if span.Exists() {
			ctx := span.Context(t.ctx)
			send.Header = t.inject(ctx, send.Header)
			return ctx, span
		}
		t.off.Store(true)
	}
	send.OmitID = true
	switch {
	case producer.IsValid():
		send.TraceParent, send.TraceState = parent, state
	case batch.IsValid():
		send.Header = t.inject(t.ctx, send.Header)
	}
	return t.ctx, startSpan{}
}

func (i *instruments) startSpan(ctx context.Context, producer, batch trace.SpanContext, send *ingress.Send, attributes ...attribute.KeyValue) startSpan {
	attributes = append(attributes, attribute.String("http.request.method", http.MethodPost), i.server[0], i.server[1])
	for _, part := range [...]attribute.KeyValue{
		telemetry.Text("restate.workflow", send.Workflow), telemetry.Text("restate.key", send.Key), telemetry.Text("restate.handler", send.Handler),
	} {
		if part.Value.AsString() != "" {
			attributes = append(attributes, part)
		}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...)}
	parent := batch
	if producer.IsValid() {
		parent, ctx = producer, trace.ContextWithRemoteSpanContext(ctx, producer)
		if batch.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: batch}))
		}
	}
	name := "restate.start"
	if send.Workflow != "" {
		name += " " + telemetry.Clean(send.Workflow)
	}
	return startSpan{i.tracer.Start(ctx, parent, name, options...)}
}

// inject writes the trace context of ctx into a copy of a header, which may be shared. What cannot be sent (a
// propagator may write the user's baggage) is left out: it would keep the start from being made.
func (i *instruments) inject(ctx context.Context, header http.Header) http.Header {
	injected := make(http.Header, 2)
	i.guard.Inject(ctx, i.propagator, propagation.HeaderCarrier(injected))
	header = header.Clone()
	if header == nil {
		header = make(http.Header, len(injected))
	}
	for name, values := range injected {
		if ingress.CheckHeader(http.Header{name: values}) == nil {
			header[name] = values
		}
	}
	return header
}

// attemptFailed adds an event about an attempt that was not accepted, and the wait before the next one, 0 when there is
// none.
func (s startSpan) attemptFailed(failed *FailedStart, wait time.Duration) {
	s.Edit(func(span trace.Span) {
		attributes := []attribute.KeyValue{
			attribute.Int("restate.start.attempt", failed.Attempts),
			attribute.String("restate.start.reason", failed.Reason.String()),
			telemetry.Text("error.message", text.ErrorLine(failed.Err)),
		}
		if failed.Status != 0 {
			attributes = append(attributes, attribute.Int("http.response.status_code", failed.Status))
		}
		if failed.RetryAfter > 0 {
			attributes = append(attributes, attribute.Float64("restate.start.retry_after_s", failed.RetryAfter.Seconds()))
		}
		if wait > 0 {
			attributes = append(attributes, attribute.Float64("restate.start.wait_s", wait.Seconds()))
		}
		span.AddEvent("restate.start.attempt_failed", trace.WithAttributes(attributes...))
	})
}

// end ends the span of a start. The answer is that of its last attempt.
func (s startSpan) end(outcome *FailedStart, answer ingress.Answer, accepted bool) {
	s.End(func(span trace.Span) {
		span.SetAttributes(attribute.Int("restate.start.attempts", outcome.Attempts))
		if outcome.Attempts > 1 {
			span.SetAttributes(attribute.Int("http.request.resend_count", outcome.Attempts-1))
		}
		if answer.Status != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", answer.Status))
		}
		if accepted {
			span.SetAttributes(attribute.Bool("restate.start.duplicate", answer.Previously))
			if answer.InvocationID != "" {
				span.SetAttributes(telemetry.Text("restate.invocation.id", answer.InvocationID))
			}
			return
		}
		errorType := outcome.Reason.String()
		if outcome.Status != 0 {
			errorType = strconv.Itoa(outcome.Status)
		}
		span.SetAttributes(attribute.String("error.type", errorType), attribute.String("restate.start.reason", outcome.Reason.String()))
		span.SetStatus(codes.Error, outcome.Reason.String())
	})
}
