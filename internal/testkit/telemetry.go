package testkit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// Producer is a producer's traceparent, as an entry has it; ProducerTrace and ProducerSpan are its ids.
const (
	Producer      = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	ProducerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	ProducerSpan  = "00f067aa0ba902b7"
)

// Telemetry records spans and measurements. Give Tracer and Meters to the code under test.
type Telemetry struct {
	Spans  *tracetest.SpanRecorder
	Tracer *sdktrace.TracerProvider
	Reader *metric.ManualReader
	Meters *metric.MeterProvider
}

// Record returns an empty Telemetry.
func Record() *Telemetry {
	r := &Telemetry{Spans: tracetest.NewSpanRecorder(), Reader: metric.NewManualReader()}
	r.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.Spans))
	r.Meters = metric.NewMeterProvider(metric.WithReader(r.Reader))
	return r
}

// Metrics are the lines of AllMetrics without the counters that are 0.
func (r *Telemetry) Metrics(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(r.AllMetrics(t), func(line string) bool { return strings.HasSuffix(line, "} total 0") })
}

// AllMetrics are all measurements, sorted: `name{attributes} total 2` of a counter, `is 2` of a gauge, and `2 in 0.5` of a
// histogram with two values whose sum is 0.5.
func (r *Telemetry) AllMetrics(t *testing.T) []string {
	t.Helper()
	var collected metricdata.ResourceMetrics
	require.NoError(t, r.Reader.Collect(t.Context(), &collected))
	var lines []string
	for _, scope := range collected.ScopeMetrics {
		for _, instrument := range scope.Metrics {
			add := func(attributes attribute.Set, format string, values ...any) {
				lines = append(lines, fmt.Sprintf("%s{%s} ", instrument.Name, attributes.Encoded(attribute.DefaultEncoder()))+fmt.Sprintf(format, values...))
			}
			switch data := instrument.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					add(point.Attributes, "total %d", point.Value)
				}
			case metricdata.Gauge[int64]:
				for _, point := range data.DataPoints {
					add(point.Attributes, "is %d", point.Value)
				}
			case metricdata.Gauge[float64]:
				for _, point := range data.DataPoints {
					add(point.Attributes, "is %.0f", point.Value)
				}
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					add(point.Attributes, "%d in %.1f", point.Count, point.Sum)
				}
			case metricdata.Histogram[int64]:
				for _, point := range data.DataPoints {
					add(point.Attributes, "%d in %d", point.Count, point.Sum)
				}
			default:
				t.Fatalf("%s is a %T", instrument.Name, data)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// Ended are the ended spans, in order: kind and name, parent, links, status and attributes in one line, then a line for each
// event. A parent or link is given by the name of its span, not by its id: "producer" for Producer, "nothing" for none.
func (r *Telemetry) Ended() []string {
	spans := r.Spans.Ended()
	names := map[string]string{ProducerSpan: "producer", "0000000000000000": "nothing"}
	for _, span := range spans {
		names[span.SpanContext().SpanID().String()] = span.Name()
	}
	lines := make([]string, 0, len(spans))
	for _, span := range spans {
		var line strings.Builder
		fmt.Fprintf(&line, "%s %s under %s", span.SpanKind(), span.Name(), names[span.Parent().SpanID().String()])
		for _, link := range span.Links() {
			fmt.Fprintf(&line, ", linked to %s", names[link.SpanContext.SpanID().String()])
		}
		if status := span.Status(); status.Code != codes.Unset {
			fmt.Fprintf(&line, ", %s %s", status.Code, status.Description)
		}
		fmt.Fprintf(&line, " {%s}", render(span.Attributes()))
		for _, event := range span.Events() {
			fmt.Fprintf(&line, "\n  %s %s {%s}", event.Time.Sub(span.StartTime()).Round(time.Millisecond), event.Name, render(event.Attributes))
		}
		lines = append(lines, line.String())
	}
	return lines
}

// render leaves out the attributes that are the same on every span.
func render(attributes []attribute.KeyValue) string {
	texts := make([]string, 0, len(attributes))
	for _, pair := range attributes {
		switch pair.Key {
		case "http.request.method", "server.address", "server.port", "restate.handler", "streams.stream", "restate.workflow",
			"messaging.system", "messaging.destination", "messaging.destination.name", "messaging.partition", "messaging.destination.partition.id",
			"messaging.operation.name", "messaging.operation.type", "messaging.consumer.group.name", "streams.consumer", "streams.lag_ms":
		case "restate.invocation.id": // random
			texts = append(texts, string(pair.Key))
		default:
			texts = append(texts, fmt.Sprintf("%s=%s", pair.Key, pair.Value.String()))
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// AttributesOf are a span's attributes by name.
func AttributesOf(span sdktrace.ReadOnlySpan) map[string]any {
	values := map[string]any{}
	for _, pair := range span.Attributes() {
		values[string(pair.Key)] = pair.Value.AsInterface()
	}
	return values
}
