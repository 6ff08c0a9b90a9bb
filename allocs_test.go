package restatestart_test

import (
	"net/http"
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
// OpenTelemetry's global ones while nobody has set them. With the latter, the first start of each Handle call pays for
// finding out.
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

// What a start allocates beyond the same request of a bare http.Client: budgets, not measurements. BenchmarkHandle has
// those.
func TestAStartAllocatesLittleBeyondItsRequest(t *testing.T) {
	client := &http.Client{Transport: roundTripper(canned)}
	starter, err := restatestart.New(keepKeyed, payout, restatestart.Options{Ingress: "http://restate:8080", HTTPClient: client})
	require.NoError(t, err)
	const size = 1000
	kept, filtered := batchOf(keysOf(size)...), batchOf(make([]string, size)...)
	handle := func(batch []restatestart.Message[claim]) float64 {
		return testing.AllocsPerRun(5, func() { _ = starter.Handle(t.Context(), batch) }) / size
	}
	request := testing.AllocsPerRun(100, func() { bare(t, client, "k17") })
	assert.LessOrEqual(t, handle(kept)-request, 12.0)
	assert.Zero(t, handle(filtered))
}
