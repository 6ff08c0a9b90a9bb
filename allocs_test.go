package restatestart_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
)

// With nobody listening, no message pays for telemetry: neither with providers that do nothing, nor with
// OpenTelemetry's global ones while nobody has set them.
func TestTelemetryThatNobodyRecordsAllocatesNothing(t *testing.T) {
	for name, options := range map[string]restatestart.Options{
		"no-op":   {TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider()},
		"not set": {},
	} {
		t.Run(name, func(t *testing.T) {
			options.Ingress = "http://restate"
			starter, err := restatestart.New(keepKeyed, payout, options)
			require.NoError(t, err)
			batch := batchOf("a", "b")
			batch[1].TraceParent = producer
			for i := range batch {
				report := starter.Reporting(t.Context(), &batch[i])
				report() // the first of a batch finds out, and the first of a workflow is remembered
				assert.Zero(t, testing.AllocsPerRun(100, report), batch[i].TraceParent)
			}

			consumer, err := restatestart.NewConsumerOn(restatestart.Backend{Source: &streamtest.Source{}, Store: &position.Memory{}},
				"claims", restatestart.JSON[claim], starter, restatestart.ConsumerOptions{
					Consumer: "payout", TracerProvider: options.TracerProvider, MeterProvider: options.MeterProvider,
				})
			require.NoError(t, err)
			report := consumer.Reporting(t.Context())
			report()
			assert.Zero(t, testing.AllocsPerRun(100, report))
		})
	}
}
