package redisstream

import (
	"context"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/text"
	"github.com/redisevents/restatestart/internal/wire"
)

// maxLinks is how many messages of a batch may be linked.
const maxLinks = 16

// processSpan is the span of one call of the handler.
type processSpan struct{ telemetry.Span }

// beginProcess begins the span of one call of the handler. A batch that is delivered again gets another one: no span is
// open while a partition is held.
func (c *Consumer[T]) beginProcess(ctx context.Context, batch stream.Batch, messages []restatestart.Message[T]) (context.Context, processSpan) {
	if c.tracer.Off() {
		return ctx, processSpan{}
	}
	parent, links := originOf(messages)
	attributes := []attribute.KeyValue{
		// OpenTelemetry's names.
		attribute.String("messaging.system", "redis_streams"),
		telemetry.Text("messaging.destination.name", c.topic),
		attribute.String("messaging.destination.partition.id", strconv.Itoa(batch.Partition)),
		telemetry.Text("messaging.consumer.group.name", c.options.Consumer),
		attribute.String("messaging.operation.name", "process"),
		attribute.String("messaging.operation.type", "process"),
		attribute.Int("messaging.batch.message_count", len(messages)),
		// Those of RedisEvents, besides messaging.system and the number of messages.
		telemetry.Text("messaging.destination", c.topic),
		attribute.Int("messaging.partition", batch.Partition),
		attribute.String("messaging.message_id", batch.Last.String()),
		telemetry.Text("streams.consumer", c.options.Consumer),
		attribute.Float64("streams.lag_ms", lagOf(batch)),
		// Ours.
		attribute.Int("streams.try", batch.Attempt),
	}
	if name := messages[0].Type; name != "" {
		attributes = append(attributes, telemetry.Text("messaging.message.type", name))
	}
	starting := ctx
	if parent.IsValid() {
		starting = trace.ContextWithRemoteSpanContext(ctx, parent) // else it is a root: Run removes any other parent
	}
	span := c.tracer.Start(starting, parent, "streams.process "+telemetry.Clean(c.topic),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...), trace.WithLinks(links...))
	return span.Context(ctx), processSpan{span}
}

// end ends the span. A shutdown is no error of the batch, and the status is Ok only of a batch that failed before, as in
// RedisEvents.
func (s processSpan) end(ctx context.Context, attempt int, err error) {
	s.End(func(span trace.Span) {
		blocked, _ := blockedIn(err)
		switch {
		case err == nil && attempt > 1:
			span.SetStatus(codes.Ok, "")
		case err == nil, ctx.Err() != nil, blocked != nil && blocked.ShuttingDown:
		default:
			verdict := stream.Verdict{Err: err, Cause: causeHandler}
			if blocked != nil {
				verdict.Cause = causeStarts
			}
			span.SetAttributes(attribute.String("error.type", exceptionType(verdict)))
			span.SetStatus(codes.Error, telemetry.Clean(text.ErrorLine(err)))
		}
	})
}

// lagOf is the age of the last message of a batch in milliseconds.
func lagOf(batch stream.Batch) float64 {
	last := batch.Entries[len(batch.Entries)-1].ID
	return max(0, float64(time.Since(time.UnixMilli(int64(last.Ms))))/float64(time.Millisecond))
}

// originOf decides which trace a batch belongs to, as RedisEvents does: to that of its messages when they are of one
// trace, with the first for a parent and the others linked; to none of them when there are several, and all are linked. A
// message without a trace context belongs to any.
func originOf[T any](messages []restatestart.Message[T]) (parent trace.SpanContext, links []trace.Link) {
	if len(messages) == 1 {
		parent = producerOf(&messages[0])
		return parent, nil
	}
	if first := sameTrace(messages); first != nil {
		parent = producerOf(first)
	}
	for i := range messages[:min(len(messages), maxLinks)] {
		context := producerOf(&messages[i])
		if context.IsValid() && context.SpanID() != parent.SpanID() {
			links = append(links, trace.Link{SpanContext: context})
		}
	}
	return parent, links
}

// traceIDEnd is where the trace id of a traceparent ends; it begins at 3.
const traceIDEnd = 35

// sameTrace is the first message with a trace context, if no other one is of another trace.
func sameTrace[T any](messages []restatestart.Message[T]) (first *restatestart.Message[T]) {
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

func producerOf[T any](message *restatestart.Message[T]) trace.SpanContext {
	producer, _, _ := telemetry.Producer(message.TraceParent, wire.Headers(message.Headers))
	return producer
}
