package telemetry

import (
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/redisevents/restatestart/internal/wire"
)

// Producer reads a message's trace context, and returns it with the traceparent and tracestate that it was read from. All three
// are zero when there is none or it is malformed.
func Producer(traceParent string, headers wire.Headers) (producer trace.SpanContext, parent, state string) {
	producer, valid := ParseTraceParent(traceParent)
	if !valid {
		return trace.SpanContext{}, "", ""
	}
	for header, err := range headers.All() {
		if err != nil || !strings.EqualFold(header.Name, headerTraceState) {
			continue
		}
		if parsed, err := trace.ParseTraceState(header.Value); err == nil && parsed.Len() > 0 {
			return producer.WithTraceState(parsed), traceParent, header.Value
		}
	}
	return producer, traceParent, ""
}

// headerTraceState is the message header with the producer's trace state: an entry has no field for it.
const headerTraceState = "tracestate"

// traceParentLength is the length of a traceparent of version 00. Later versions may append to it.
const traceParentLength = 55

// ParseTraceParent reads a W3C traceparent. It allocates nothing.
func ParseTraceParent(text string) (producer trace.SpanContext, valid bool) {
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
	// Other flags than these are not defined yet.
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

// isVisible reports whether a text may stand in a header.
func isVisible(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
