package restatestart

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/redisevents/restatestart/internal/ingress"
)

// ScopeName is the instrumentation scope of a Starter's spans and metrics, the same as that of the .NET package,
// so that one dashboard serves both.
const ScopeName = "RedisEvents.Restate"

// telemetry is what a Starter reports: a client span and a count for each start, and a count for each batch that
// blocked.
type telemetry struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	starts     metric.Int64Counter // accepted
	failures   metric.Int64Counter
	blocked    metric.Int64Counter

	acceptedNow    metric.MeasurementOption
	acceptedBefore metric.MeasurementOption
}

func newTelemetry(options Options) (*telemetry, error) {
	meter := options.MeterProvider.Meter(ScopeName)
	t := &telemetry{
		tracer:         options.TracerProvider.Tracer(ScopeName),
		propagator:     options.Propagator,
		acceptedNow:    metric.WithAttributeSet(attribute.NewSet(attribute.Bool("restate.start.duplicate", false))),
		acceptedBefore: metric.WithAttributeSet(attribute.NewSet(attribute.Bool("restate.start.duplicate", true))),
	}
	var err error
	if t.starts, err = meter.Int64Counter("restate.start.accepted", metric.WithUnit("{start}"),
		metric.WithDescription("Starts that Restate accepted; a duplicate is one whose key it knew already.")); err != nil {
		return nil, err
	}
	if t.failures, err = meter.Int64Counter("restate.start.failed", metric.WithUnit("{start}"),
		metric.WithDescription("Starts that one Handle call did not get accepted, by reason.")); err != nil {
		return nil, err
	}
	if t.blocked, err = meter.Int64Counter("restate.start.blocked", metric.WithUnit("{batch}"),
		metric.WithDescription("Batches reported blocked; those cut short by a shutdown are not counted.")); err != nil {
		return nil, err
	}
	return t, nil
}

// begin opens the span of a start and writes its context into the send's headers. The parent is the message's
// producer, the batch's span is linked. With tracing off the producer's context goes out as it came.
func (t *telemetry) begin(ctx context.Context, traceParent string, send *ingress.Send) (context.Context, trace.Span) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindClient)}
	if traceParent != "" {
		batch := trace.SpanContextFromContext(ctx)
		produced := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceParent})
		if producer := trace.SpanContextFromContext(produced); producer.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, producer)
			if batch.IsValid() {
				options = append(options, trace.WithLinks(trace.Link{SpanContext: batch}))
			}
		}
	}
	ctx, span := t.tracer.Start(ctx, "restate.start "+send.Workflow, options...)
	if span.SpanContext().IsValid() {
		header := send.Header.Clone()
		if header == nil {
			header = make(http.Header, 2)
		}
		t.propagator.Inject(ctx, propagation.HeaderCarrier(header))
		send.Header = header
	}
	return ctx, span
}

// accepted counts a start. Nothing that goes wrong with that undoes it.
func (t *telemetry) accepted(ctx context.Context, span trace.Span, answer ingress.Answer) {
	defer func() { _ = recover() }()
	if answer.Previously {
		t.starts.Add(ctx, 1, t.acceptedBefore)
	} else {
		t.starts.Add(ctx, 1, t.acceptedNow)
	}
	if span.IsRecording() {
		span.SetAttributes(attribute.String("restate.invocation.id", answer.InvocationID), attribute.Bool("restate.start.duplicate", answer.Previously))
	}
}

// end closes the span of a start. It is called when everything else is over, and must not undo that.
func (t *telemetry) end(span trace.Span, message, stream string, send *ingress.Send, failed *FailedStart) {
	defer func() { _ = recover() }() // a panic of a tracer is no reason to lose or repeat a start
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("restate.workflow", send.Workflow), attribute.String("restate.key", ingress.Cut(send.Key, maxAttribute)),
			attribute.String("restate.handler", send.Handler), attribute.String("messaging.message.id", message),
			attribute.String("messaging.destination.name", stream))
		if failed != nil {
			span.SetAttributes(attribute.Int("restate.start.attempts", failed.Attempts), attribute.Int("http.response.status_code", failed.Status))
		}
	}
	if failed != nil {
		span.SetStatus(codes.Error, failed.Reason.String())
	}
	span.End()
}

// maxAttribute is how many bytes of a key go on a span; a key may be 64 KiB long.
const maxAttribute = 256

func (t *telemetry) batchBlocked(ctx context.Context, blocked *BlockedError) {
	defer func() { _ = recover() }() // as above, of a meter
	ctx = context.WithoutCancel(ctx)
	for _, failed := range blocked.Failed {
		t.failures.Add(ctx, 1, metric.WithAttributes(attribute.String("reason", failed.Reason.String())))
	}
	if !blocked.ShuttingDown {
		t.blocked.Add(ctx, 1)
	}
}
