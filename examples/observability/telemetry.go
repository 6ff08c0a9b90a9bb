package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// telemetry holds the providers that the library gets. No global provider is set: two services may run in one process.
type telemetry struct {
	registry *prometheus.Registry // served at /metrics
	metrics  *sdkmetric.MeterProvider
	traces   trace.TracerProvider
	exported *sdktrace.TracerProvider // nil when tracing is off
}

func newTelemetry(ctx context.Context, tracing bool) (*telemetry, error) {
	// The environment comes last, so that OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
	service, err := resource.New(ctx,
		resource.WithTelemetrySDK(), resource.WithAttributes(attribute.String("service.name", serviceName)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe the service: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		return nil, fmt.Errorf("export metrics: %w", err)
	}
	t := &telemetry{
		registry: registry,
		// No views: the library's histograms come with suitable buckets.
		metrics: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithResource(service)),
		traces:  noop.NewTracerProvider(),
	}
	if tracing {
		spans, err := otlptracehttp.New(ctx)
		if err != nil {
			return nil, fmt.Errorf("export traces: %w", err)
		}
		t.exported = sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans), sdktrace.WithResource(service))
		t.traces = t.exported
	}
	return t, nil
}

// shutdown exports the remaining spans.
func (t *telemetry) shutdown(ctx context.Context) error {
	err := t.metrics.Shutdown(ctx)
	if t.exported != nil {
		err = errors.Join(err, t.exported.Shutdown(ctx))
	}
	if err != nil {
		return fmt.Errorf("stop telemetry: %w", err)
	}
	return nil
}
