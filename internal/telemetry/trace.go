package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Tracer makes spans.
type Tracer struct {
	tracer trace.Tracer
	guard  *Guard
}

// Tracer returns a provider's tracer, one that makes no spans when the provider panics.
func (g *Guard) Tracer(provider trace.TracerProvider, scope string) (tracer Tracer) {
	tracer = Tracer{noop.Tracer{}, g}
	defer g.catch()
	tracer.tracer = provider.Tracer(scope)
	return tracer
}

// Off reports that the tracer never makes spans. When it is false, Start may still return none.
func (t Tracer) Off() bool {
	_, off := t.tracer.(noop.Tracer)
	return off
}

// Start begins a span. It returns none when the tracer makes none: the tracer of a global provider that is not set returns a
// span that does not record and has its parent's id.
func (t Tracer) Start(ctx context.Context, parent trace.SpanContext, name string, options ...trace.SpanStartOption) (span Span) {
	if t.Off() {
		return Span{}
	}
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

// Context returns a context that carries the span, ctx itself when there is none.
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

// End edits the span, if it records, and ends it.
func (s Span) End(edit func(span trace.Span)) {
	if s.span == nil {
		return
	}
	s.Edit(edit)
	defer s.guard.catch()
	s.span.End()
}
