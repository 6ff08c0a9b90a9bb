package redisstream_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/restatetest"
)

var instrumentRow = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (counter|up-down counter|gauge|histogram), ([a-z{}]+) \\| ([^|]+) \\|")

// docs/metrics.md has every instrument of both scopes, with its kind, unit and attributes, and no other.
func TestTheInstrumentsAreThoseOfTheDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	documented := map[string]string{}
	for _, row := range instrumentRow.FindAllStringSubmatch(string(page), -1) {
		attributes := strings.Split(strings.NewReplacer("`", "", "–", "").Replace(row[4]), ", ")
		documented[row[1]] = instrumentOf(row[2], row[3], attributes)
	}
	assert.Equal(t, documented, reportedInstruments(t))
}

func instrumentOf(kind, unit string, attributes []string) string {
	slices.Sort(attributes)
	return kind + ", " + unit + ": " + strings.Join(attributes, ", ")
}

// reportedInstruments are those that an SDK collects after something of each kind has happened.
func reportedInstruments(t *testing.T) map[string]string {
	t.Helper()
	reported := map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		fake := restatetest.New(t)
		fake.Script("bad", restatetest.Status(400).Times(1))
		e.publish(0, "a", "bad", "")
		e.run(testkit.NewStarter(t, fake, nil, restatestart.Options{MeterProvider: telemetry.Meters}))
		testkit.Pass(10 * time.Second)
		fake.Script("stuck", restatetest.Status(400).Always())
		e.publish(0, testkit.Keys(30)...)
		testkit.Pass(time.Second)
		e.publish(0, "stuck")
		for range 20 { // trimming comes closer to the blocked partition's position
			e.publish(0, "k1")
			e.source.Trim(0, 30)
			testkit.Pass(5 * time.Second)
		}
		e.consumer.Reporting(t.Context())() // what does not happen in memory
		e.consumer.Observer().DeliveryFailed(0, stream.Verdict{})
		var collected metricdata.ResourceMetrics
		require.NoError(t, telemetry.Reader.Collect(t.Context(), &collected))
		for _, scope := range collected.ScopeMetrics {
			for _, instrument := range scope.Metrics {
				kind, attributes := kindOf(t, instrument)
				reported[instrument.Name] = instrumentOf(kind, instrument.Unit, attributes)
				assert.NotEmpty(t, instrument.Description)
			}
		}
		require.NoError(t, e.stop())
	})
	return reported
}

func kindOf(t *testing.T, instrument metricdata.Metrics) (kind string, attributes []string) {
	t.Helper()
	var set attribute.Set
	switch data := instrument.Data.(type) {
	case metricdata.Sum[int64]:
		kind, set = "up-down counter", data.DataPoints[0].Attributes
		if data.IsMonotonic {
			kind = "counter"
		}
	case metricdata.Gauge[int64]:
		kind, set = "gauge", data.DataPoints[0].Attributes
	case metricdata.Gauge[float64]:
		kind, set = "gauge", data.DataPoints[0].Attributes
	case metricdata.Histogram[float64]:
		kind, set = "histogram", data.DataPoints[0].Attributes
	case metricdata.Histogram[int64]:
		kind, set = "histogram", data.DataPoints[0].Attributes
	default:
		t.Fatalf("%s is a %T", instrument.Name, data)
	}
	for _, pair := range set.ToSlice() {
		attributes = append(attributes, string(pair.Key))
	}
	return kind, attributes
}
