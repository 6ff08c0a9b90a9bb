package restatestart

import (
	"context"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redisevents/restatestart/internal/stream"
)

// maxLinks is how many messages of a batch are looked at for links.
const maxLinks = 16

// processSpan is the span of one call of the handler. The zero value is that of a call that is not traced.
type processSpan struct{ trace.Span }

// beginProcess begins the span of one call of the handler. A batch that is handed over again gets another one: no
// span is open while a partition is held.
func (c *Consumer[T]) beginProcess(ctx context.Context, batch stream.Batch, messages []Message[T]) (context.Context, processSpan) {
	if _, none := c.tracer.(noop.Tracer); none {
		return ctx, processSpan{}
	}
	span := c.startProcess(ctx, batch, messages)
	if span.Span != nil {
		ctx = trace.ContextWithSpan(ctx, span.Span)
	}
	return ctx, span
}

// startProcess asks the tracer for the span. One that is not of its own making is none.
func (c *Consumer[T]) startProcess(ctx context.Context, batch stream.Batch, messages []Message[T]) (span processSpan) {
	defer passOver()
	parent, links := originOf(messages)
	attributes := []attribute.KeyValue{
		// OpenTelemetry's names.
		attribute.String("messaging.system", "redis_streams"),
		text("messaging.destination.name", c.topic),
		attribute.String("messaging.destination.partition.id", strconv.Itoa(batch.Partition)),
		text("messaging.consumer.group.name", c.options.Consumer),
		attribute.String("messaging.operation.name", "process"),
		attribute.String("messaging.operation.type", "process"),
		attribute.Int("messaging.batch.message_count", len(messages)),
		// Those of RedisEvents, beside messaging.system and the number of messages.
		text("messaging.destination", c.topic),
		attribute.Int("messaging.partition", batch.Partition),
		attribute.String("messaging.message_id", batch.Last.String()),
		text("streams.consumer", c.options.Consumer),
		attribute.Float64("streams.lag_ms", lagOf(batch)),
		// Ours.
		attribute.Int("streams.try", batch.Try),
	}
	if name := messages[0].Type; name != "" {
		attributes = append(attributes, text("messaging.message.type", name))
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...), trace.WithLinks(links...)}
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent) // else a root: Run sees to it that there is no other one
	}
	_, made := c.tracer.Start(ctx, "streams.process "+clean(c.topic), options...)
	if !made.IsRecording() && made.SpanContext().SpanID() == parent.SpanID() {
		return span
	}
	return processSpan{made}
}

// end closes the span. A shutdown is no error of the batch, and only one that worked after it did not is told to have
// worked, as in RedisEvents.
func (s processSpan) end(ctx context.Context, try int, err error) {
	if s.Span == nil {
		return
	}
	defer passOver()
	defer s.End()
	blocked, _ := blockedIn(err)
	switch {
	case err == nil && try > 1:
		s.SetStatus(codes.Ok, "")
	case err == nil, ctx.Err() != nil, blocked != nil && blocked.ShuttingDown:
	default:
		s.SetAttributes(attribute.String("error.type", errorTypeOf(err, blocked)))
		s.SetStatus(codes.Error, clean(errorLine(err)))
	}
}

func errorTypeOf(err error, blocked *BlockedError) string {
	verdict := stream.Verdict{Err: err, Cause: causeHandler}
	if blocked != nil {
		verdict.Cause = causeStarts
	}
	return exceptionOf(verdict)
}

// lagOf is the age of the last message of a batch in milliseconds.
func lagOf(batch stream.Batch) float64 {
	last := batch.Entries[len(batch.Entries)-1].ID
	return max(0, float64(time.Since(time.UnixMilli(int64(last.Ms))))/float64(time.Millisecond))
}

// originOf finds whose trace a batch belongs to, as RedisEvents does: to that of its messages when there is one
// trace, with the first of them for a parent and the others linked, and to none of them when there are several, which
// are linked all. A message that came with no trace context belongs to any.
func originOf[T any](messages []Message[T]) (parent trace.SpanContext, links []trace.Link) {
	if len(messages) == 1 {
		parent, _, _ = producerOf(&messages[0])
		return parent, nil
	}
	if first := sameTrace(messages); first != nil {
		parent, _, _ = producerOf(first)
	}
	for i := range messages[:min(len(messages), maxLinks)] {
		context, _, _ := producerOf(&messages[i])
		if context.IsValid() && context.SpanID() != parent.SpanID() {
			links = append(links, trace.Link{SpanContext: context})
		}
	}
	return parent, links
}

// traceIDEnd is where the trace id of a traceparent ends; it begins at 3.
const traceIDEnd = 35

// sameTrace is the first message with a trace context, if no other one is of another trace.
func sameTrace[T any](messages []Message[T]) (first *Message[T]) {
	for i := range messages {
		switch context := messages[i].TraceParent; {
		case context == "":
		case len(context) < traceIDEnd:
			return nil
		case first == nil:
			first = &messages[i]
		case !strings.EqualFold(context[3:traceIDEnd], first.TraceParent[3:traceIDEnd]):
			return nil
		}
	}
	return first
}
