package restatestart

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redisevents/restatestart/internal/ingress"
)

// tracing makes the spans of one Handle call. As with telemetry, nothing that goes wrong here touches a start.
type tracing struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	server     [2]attribute.KeyValue // the ingress's address and port

	// off tells that the tracer makes no spans. What is behind OpenTelemetry's global provider can change at any
	// time, and cannot be asked for: the first start of each call finds out, and spares the others the trouble.
	off atomic.Bool
}

// newTracing begins the tracing of one Handle call.
func (s *Starter[T]) newTracing() *tracing {
	t := &tracing{tracer: s.tracer, propagator: s.options.Propagator, server: s.server}
	if _, none := s.tracer.(noop.Tracer); none {
		t.off.Store(true)
	}
	return t
}

// startSpan is the span of one start, over all its attempts. The zero value is the span of a start that is not
// traced.
type startSpan struct{ trace.Span }

// beginSpan begins the span of a start, and puts the trace context that goes out with its POSTs into the send. The
// span's parent is the message's producer, and the batch's own span is linked; without a producer the batch's span is
// the parent. A tracer that makes no span passes on what the producer sent.
func beginSpan[T any](ctx context.Context, t *tracing, message *Message[T], send *ingress.Send) (traced context.Context, span startSpan) {
	defer passOver()
	traced = ctx
	batch := trace.SpanContextFromContext(ctx)
	producer, traceParent, traceState := producerOf(message)
	if !t.off.Load() {
		span = t.start(ctx, producer, batch, send, text("messaging.message.id", message.ID), text("streams.stream", message.Stream))
		if span.Span != nil {
			traced = trace.ContextWithSpan(ctx, span.Span)
			send.Header = t.inject(traced, send.Header)
			return traced, span
		}
		t.off.Store(true)
	}
	switch {
	case producer.IsValid():
		send.TraceParent, send.TraceState = traceParent, traceState
	case batch.IsValid():
		send.Header = t.inject(ctx, send.Header)
	}
	return traced, span
}

// start asks the tracer for a span. One that is not of its own making, as of a tracer that does nothing, is none.
func (t *tracing) start(ctx context.Context, producer, batch trace.SpanContext, send *ingress.Send, attributes ...attribute.KeyValue) (span startSpan) {
	defer passOver()
	attributes = append(attributes, attribute.String("http.request.method", http.MethodPost), t.server[0], t.server[1])
	for _, part := range [...]attribute.KeyValue{text("restate.workflow", send.Workflow), text("restate.key", send.Key), text("restate.handler", send.Handler)} {
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
		name += " " + clean(send.Workflow)
	}
	_, made := t.tracer.Start(ctx, name, options...)
	if !made.IsRecording() && made.SpanContext().SpanID() == parent.SpanID() {
		return span
	}
	return startSpan{made}
}

// inject writes the trace context of ctx into a copy of the header: the header itself may be shared. What cannot be
// sent, whatever a propagator makes of its baggage, is left out: it would keep the start from being made.
func (t *tracing) inject(ctx context.Context, header http.Header) http.Header {
	injected := make(http.Header, 2)
	t.propagator.Inject(ctx, propagation.HeaderCarrier(injected))
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

// attemptFailed notes one attempt that was not accepted, and how long the next one waits, 0 when there is none.
func (s startSpan) attemptFailed(failed *FailedStart, wait time.Duration) {
	if s.Span == nil {
		return
	}
	defer passOver()
	if !s.IsRecording() {
		return
	}
	attributes := []attribute.KeyValue{
		attribute.Int("restate.start.attempt", failed.Attempts),
		attribute.String("restate.start.reason", failed.Reason.String()),
		text("error.message", errorLine(failed.Err)),
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
	s.AddEvent("restate.start.attempt_failed", trace.WithAttributes(attributes...))
}

// end closes the span of a start. The answer is that of the last attempt.
func (s startSpan) end(outcome *FailedStart, answer ingress.Answer, accepted bool) {
	if s.Span == nil {
		return
	}
	defer passOver()
	defer s.End()
	if !s.IsRecording() {
		return
	}
	s.SetAttributes(attribute.Int("restate.start.attempts", outcome.Attempts))
	if outcome.Attempts > 1 {
		s.SetAttributes(attribute.Int("http.request.resend_count", outcome.Attempts-1))
	}
	if answer.Status != 0 {
		s.SetAttributes(attribute.Int("http.response.status_code", answer.Status))
	}
	if accepted {
		s.SetAttributes(attribute.Bool("restate.start.duplicate", answer.Previously))
		if answer.InvocationID != "" {
			s.SetAttributes(text("restate.invocation.id", answer.InvocationID))
		}
		return
	}
	errorType := outcome.Reason.String()
	if outcome.Status != 0 {
		errorType = strconv.Itoa(outcome.Status)
	}
	s.SetAttributes(attribute.String("error.type", errorType), attribute.String("restate.start.reason", outcome.Reason.String()))
	s.SetStatus(codes.Error, outcome.Reason.String())
}

// unposted makes the span of a start that no POST was made for.
func unposted[T any](ctx context.Context, t *tracing, current *start[T]) {
	_, span := beginSpan(ctx, t, current.message, &current.send)
	span.end(&current.failure, ingress.Answer{}, false)
}

// text is an attribute that is valid UTF-8 and of bounded length, whatever it is made of.
func text(name, value string) attribute.KeyValue { return attribute.String(name, clean(value)) }

func clean(value string) string {
	if len(value) <= maxAttribute && utf8.ValidString(value) {
		return value
	}
	return ingress.Cut(strings.ToValidUTF8(ingress.Cut(value, 4*maxAttribute), "\uFFFD"), maxAttribute)
}
