package restatestart

import (
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// traceParentLength is that of a traceparent of version 00, and of the part of a later one that is known.
const traceParentLength = 55

// parseTraceParent reads a W3C traceparent. It allocates nothing, and says no to one that is malformed: that is no
// reason to do anything about a message but to trace it on its own.
func parseTraceParent(text string) (trace.SpanContext, bool) {
	if len(text) < traceParentLength || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return trace.SpanContext{}, false
	}
	version, flags := text[:2], text[53:traceParentLength]
	switch later := text[traceParentLength:]; {
	case !isLowerHex(version) || version == "ff" || !isLowerHex(flags):
		return trace.SpanContext{}, false
	case later != "" && (version == "00" || later[0] != '-' || len(text) > maxAttribute || !isVisible(later)):
		return trace.SpanContext{}, false
	}
	traceID, err := trace.TraceIDFromHex(text[3:35])
	if err != nil {
		return trace.SpanContext{}, false
	}
	spanID, err := trace.SpanIDFromHex(text[36:52])
	if err != nil {
		return trace.SpanContext{}, false
	}
	// Of the flags, version 00 knows sampled and random; what is not known is not passed on.
	known := trace.TraceFlags(fromHex(flags[0])<<4|fromHex(flags[1])) & (trace.FlagsSampled | trace.FlagsRandom)
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: known, Remote: true}), true
}

func isLowerHex(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) < 0
}

func fromHex(digit byte) byte {
	if digit <= '9' {
		return digit - '0'
	}
	return digit - 'a' + 10
}

// isVisible tells that a text may stand in a header.
func isVisible(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// headerTraceState is the name of the header under which a producer may hand on its vendors' trace state: an entry
// has no field for it.
const headerTraceState = "tracestate"

// producerOf is the trace context of whoever published a message, and the two texts that say the same, as they came.
// Where there is none, or a malformed one, it is zero and they are empty.
func producerOf[T any](message *Message[T]) (producer trace.SpanContext, traceParent, traceState string) {
	producer, valid := parseTraceParent(message.TraceParent)
	if !valid {
		return trace.SpanContext{}, "", ""
	}
	for header, err := range message.Headers.packed.All() {
		if err != nil || !strings.EqualFold(header.Name, headerTraceState) {
			continue
		}
		if state, err := trace.ParseTraceState(header.Value); err == nil && state.Len() > 0 {
			return producer.WithTraceState(state), message.TraceParent, header.Value
		}
	}
	return producer, message.TraceParent, ""
}
