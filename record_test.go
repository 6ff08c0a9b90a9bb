package restatestart_test

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

// A producer's trace context, as an entry brings it.
const (
	producer      = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	producerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	producerSpan  = "00f067aa0ba902b7"
)

// telemetry records what is reported, for tests that compare all of it with a list.
type telemetry struct {
	spans  *tracetest.SpanRecorder
	tracer *sdktrace.TracerProvider
	reader *metric.ManualReader
	meters *metric.MeterProvider
}

func record() *telemetry {
	r := &telemetry{spans: tracetest.NewSpanRecorder(), reader: metric.NewManualReader()}
	r.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r.spans))
	r.meters = metric.NewMeterProvider(metric.WithReader(r.reader))
	return r
}

// metrics are all measurements but counters at 0, in order: name{attributes} value, where that of a histogram is how
// many there were and their sum.
func (r *telemetry) metrics(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(r.allMetrics(t), func(line string) bool { return strings.HasSuffix(line, "} total 0") })
}

func (r *telemetry) allMetrics(t *testing.T) []string {
	t.Helper()
	var collected metricdata.ResourceMetrics
	require.NoError(t, r.reader.Collect(t.Context(), &collected))
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

// ended are the spans that ended, in order, each as lines: kind and name, parent, links, status, attributes, events.
// What differs from run to run is named: the producer, and the other spans by their names.
func (r *telemetry) ended() []string {
	spans := r.spans.Ended()
	names := map[string]string{producerSpan: "producer", "0000000000000000": "nothing"}
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

// render leaves out what every span of these tests has alike.
func render(attributes []attribute.KeyValue) string {
	texts := make([]string, 0, len(attributes))
	for _, pair := range attributes {
		switch pair.Key {
		case "http.request.method", "server.address", "server.port", "restate.handler", "streams.stream", "restate.workflow",
			"messaging.system", "messaging.destination", "messaging.destination.name", "messaging.partition", "messaging.destination.partition.id",
			"messaging.operation.name", "messaging.operation.type", "messaging.consumer.group.name", "streams.consumer", "streams.lag_ms":
		case "restate.invocation.id": // the fake's own
			texts = append(texts, string(pair.Key))
		default:
			texts = append(texts, fmt.Sprintf("%s=%s", pair.Key, pair.Value.String()))
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

func attributesOf(span sdktrace.ReadOnlySpan) map[string]any {
	values := map[string]any{}
	for _, pair := range span.Attributes() {
		values[string(pair.Key)] = pair.Value.AsInterface()
	}
	return values
}
