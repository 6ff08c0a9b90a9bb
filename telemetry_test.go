package restatestart_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

// Everything that is reported of one Handle call, for each way that it can go, in virtual time.
func TestS6S10EverythingThatAHandleCallReports(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		keys    []string
		arrange func(fake *restatetest.Server)
		known   bool          // the keys were started before
		cancel  time.Duration // 0: not at all; below: before it begins
		metrics []string
		spans   []string
	}{
		"all accepted": {
			keys: []string{"a", "b", ""},
			metrics: []string{
				"restate.start.accepted{restate.start.duplicate=false,workflow=Payout} total 2",
				"restate.start.attempts{outcome=accepted,status_class=2xx} total 2",
				"restate.start.duration{outcome=accepted,workflow=Payout} 2 in 0.0",
				"restate.start.filtered{} total 1",
			},
			spans: []string{
				"client restate.start Payout under nothing {http.response.status_code=202 messaging.message.id=1-0 restate.invocation.id restate.key=a restate.start.attempts=1 restate.start.duplicate=false}",
				"client restate.start Payout under nothing {http.response.status_code=202 messaging.message.id=2-0 restate.invocation.id restate.key=b restate.start.attempts=1 restate.start.duplicate=false}",
			},
		},
		"duplicates": {
			keys: []string{"a"}, known: true,
			metrics: []string{
				"restate.start.accepted{restate.start.duplicate=true,workflow=Payout} total 1",
				"restate.start.attempts{outcome=accepted,status_class=2xx} total 1",
				"restate.start.duration{outcome=accepted,workflow=Payout} 1 in 0.0",
			},
			spans: []string{
				"client restate.start Payout under nothing {http.response.status_code=202 messaging.message.id=1-0 restate.invocation.id restate.key=a restate.start.attempts=1 restate.start.duplicate=true}",
			},
		},
		"retries that help": {
			keys:    []string{"a"},
			arrange: func(fake *restatetest.Server) { fake.Script("a", restatetest.Drop(), restatetest.Status(503)) },
			metrics: []string{
				"restate.start.accepted{restate.start.duplicate=false,workflow=Payout} total 1",
				"restate.start.attempts{outcome=accepted,status_class=2xx} total 1",
				"restate.start.attempts{outcome=server,status_class=5xx} total 1",
				"restate.start.attempts{outcome=unreachable,status_class=none} total 1",
				"restate.start.duration{outcome=accepted,workflow=Payout} 1 in 0.6",
			},
			spans: []string{
				"client restate.start Payout under nothing {http.request.resend_count=2 http.response.status_code=202 messaging.message.id=1-0 restate.invocation.id restate.key=a restate.start.attempts=3 restate.start.duplicate=false}" +
					"\n  0s restate.start.attempt_failed {error.message=EOF restate.start.attempt=1 restate.start.reason=unreachable restate.start.wait_s=0.2}" +
					"\n  200ms restate.start.attempt_failed {error.message=503: Service Unavailable http.response.status_code=503 restate.start.attempt=2 restate.start.reason=server restate.start.wait_s=0.4}",
			},
		},
		"retries that do not": {
			keys: []string{"a"},
			arrange: func(fake *restatetest.Server) {
				fake.Script("a", restatetest.Status(429).WithHeader("Retry-After", "7"))
			},
			metrics: []string{
				"restate.start.attempts{outcome=overloaded,status_class=4xx} total 1",
				"restate.start.blocked{} total 1",
				"restate.start.duration{outcome=failed,workflow=Payout} 1 in 0.0",
				"restate.start.failed{reason=overloaded} total 1",
			},
			spans: []string{
				"client restate.start Payout under nothing, Error overloaded {error.type=429 http.response.status_code=429 messaging.message.id=1-0 restate.key=a restate.start.attempts=1 restate.start.reason=overloaded}" +
					"\n  0s restate.start.attempt_failed {error.message=429: too many requests, the ingress is overloaded. Retry later. http.response.status_code=429 restate.start.attempt=1 restate.start.reason=overloaded restate.start.retry_after_s=7}",
			},
		},
		"rejected, and what waits for it": {
			keys:    []string{"a", "a"},
			arrange: func(fake *restatetest.Server) { fake.Script("a", restatetest.Status(400, "no")) },
			metrics: []string{
				"restate.start.attempts{outcome=rejected,status_class=4xx} total 1",
				"restate.start.blocked{} total 1",
				"restate.start.duration{outcome=failed,workflow=Payout} 1 in 0.0",
				"restate.start.failed{reason=predecessor} total 1",
				"restate.start.failed{reason=rejected} total 1",
			},
			spans: []string{
				"client restate.start Payout under nothing, Error predecessor {error.type=predecessor messaging.message.id=2-0 restate.key=a restate.start.attempts=0 restate.start.reason=predecessor}",
				"client restate.start Payout under nothing, Error rejected {error.type=400 http.response.status_code=400 messaging.message.id=1-0 restate.key=a restate.start.attempts=1 restate.start.reason=rejected}" +
					"\n  0s restate.start.attempt_failed {error.message=400: no http.response.status_code=400 restate.start.attempt=1 restate.start.reason=rejected}",
			},
		},
		"Keep panics": {
			keys: []string{"panic", "b"},
			metrics: []string{
				"restate.start.accepted{restate.start.duplicate=false,workflow=Payout} total 1",
				"restate.start.attempts{outcome=accepted,status_class=2xx} total 1",
				"restate.start.blocked{} total 1",
				"restate.start.duration{outcome=accepted,workflow=Payout} 1 in 0.0",
				"restate.start.failed{reason=panic} total 1",
			},
			spans: []string{
				"client restate.start Payout under nothing {http.response.status_code=202 messaging.message.id=2-0 restate.invocation.id restate.key=b restate.start.attempts=1 restate.start.duplicate=false}",
				"client restate.start under nothing, Error panic {error.type=panic messaging.message.id=1-0 restate.start.attempts=0 restate.start.reason=panic}",
			},
		},
		"shutdown": {
			keys: []string{"a"}, cancel: 100 * time.Millisecond,
			arrange: func(fake *restatetest.Server) { fake.Script("a", restatetest.Status(503).Always()) },
			metrics: []string{
				"restate.start.attempts{outcome=server,status_class=5xx} total 1",
				"restate.start.duration{outcome=failed,workflow=Payout} 1 in 0.1",
				"restate.start.failed{reason=shutdown} total 1", // and no batch is counted as blocked
			},
			spans: []string{
				"client restate.start Payout under nothing, Error shutdown {error.type=503 http.response.status_code=503 messaging.message.id=1-0 restate.key=a restate.start.attempts=1 restate.start.reason=shutdown}" +
					"\n  0s restate.start.attempt_failed {error.message=503: Service Unavailable http.response.status_code=503 restate.start.attempt=1 restate.start.reason=server restate.start.wait_s=0.2}",
			},
		},
		"shutdown before the first attempt": {
			keys: []string{"a"}, cancel: -1,
			metrics: []string{"restate.start.failed{reason=shutdown} total 1"}, // and no duration of nothing
			spans: []string{
				"client restate.start Payout under nothing, Error shutdown {error.type=shutdown messaging.message.id=1-0 restate.key=a restate.start.attempts=0 restate.start.reason=shutdown}",
			},
		},
		"nothing kept": {
			keys:    []string{"", "", ""},
			metrics: []string{"restate.start.filtered{} total 3"},
			spans:   []string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fake := restatetest.New(t)
				if row.known {
					require.NoError(t, starterOn(t, fake, nil, restatestart.Options{}).Handle(t.Context(), batchOf(row.keys...)))
				}
				if row.arrange != nil {
					row.arrange(fake)
				}
				telemetry := record()
				starter, err := restatestart.New(keepOrPanic, payout, restatestart.Options{
					Ingress: fake.URL(), HTTPClient: fake.Client(), NoJitter: true,
					TracerProvider: telemetry.tracer, MeterProvider: telemetry.meters,
				})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch {
				case row.cancel > 0:
					after(row.cancel, cancel)
				case row.cancel < 0:
					cancel()
				}
				_ = starter.Handle(ctx, batchOf(row.keys...))

				assert.Equal(t, row.metrics, withoutActive(telemetry.metrics(t)))
				assert.ElementsMatch(t, row.spans, telemetry.ended())
			})
		})
	}
}

func keepOrPanic(message *restatestart.Message[claim]) bool {
	if message.Value.Key == "panic" {
		panic("Keep")
	}
	return keepKeyed(message)
}

// withoutActive checks that nothing is under way any more.
func withoutActive(lines []string) []string {
	kept := []string{}
	for _, line := range lines {
		if line != "restate.start.active{} total 0" {
			kept = append(kept, line)
		}
	}
	return kept
}

func TestStartsUnderWayAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.ScriptAll(restatetest.Delay(time.Second).Always())
		telemetry := record()
		starter := starterOn(t, fake, nil, restatestart.Options{MeterProvider: telemetry.meters, MaxParallelism: 3})
		go func() { _ = starter.Handle(t.Context(), batchOf(keysOf(5)...)) }()
		pass(500 * time.Millisecond)
		assert.Contains(t, telemetry.allMetrics(t), "restate.start.active{} total 3")
		pass(time.Second)
		assert.Contains(t, telemetry.allMetrics(t), "restate.start.active{} total 2")
		pass(time.Second)
		assert.Contains(t, telemetry.allMetrics(t), "restate.start.active{} total 0")
	})
}

// An alert on an increase does not see a series appear with its first trouble.
func TestTheSeriesThatAlertsAreAboutBeginAtZero(t *testing.T) {
	t.Parallel()
	telemetry := record()
	_, err := restatestart.New(keepKeyed, payout, restatestart.Options{Ingress: "http://restate", MeterProvider: telemetry.meters})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"restate.start.blocked{} total 0",
		"restate.start.failed{reason=encode} total 0",
		"restate.start.failed{reason=invalid} total 0",
		"restate.start.failed{reason=malformed} total 0",
		"restate.start.failed{reason=map} total 0",
		"restate.start.failed{reason=not_found} total 0",
		"restate.start.failed{reason=overloaded} total 0",
		"restate.start.failed{reason=panic} total 0",
		"restate.start.failed{reason=predecessor} total 0",
		"restate.start.failed{reason=rejected} total 0",
		"restate.start.failed{reason=server} total 0",
		"restate.start.failed{reason=shutdown} total 0",
		"restate.start.failed{reason=timeout} total 0",
		"restate.start.failed{reason=unauthorized} total 0",
		"restate.start.failed{reason=unknown} total 0",
		"restate.start.failed{reason=unreachable} total 0",
	}, telemetry.allMetrics(t))
}

// B36: whatever the input, a metric's attributes are few. 5000 keys, 50 texts of errors, 200 workflows, every status.
func TestAttributesAreFewWhateverTheInput(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	telemetry := record()
	starter, err := restatestart.New(keepOrPanic, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		var number int
		_, _ = fmt.Sscanf(message.Value.Key, "k%d", &number)
		if number%100 == 1 {
			return restatestart.Start{}, fmt.Errorf("error %d", number%5000)
		}
		return restatestart.Start{Workflow: fmt.Sprintf("W%d", number%200), Key: message.Value.Key}, nil
	}, restatestart.Options{
		Ingress: fake.URL(), HTTPClient: fake.Client(), MaxAttempts: 1, MaxParallelism: 64, MeterProvider: telemetry.meters,
		NoJitter: true,
	})
	require.NoError(t, err)
	for n := 1; n < 400; n++ {
		fake.Script(fmt.Sprintf("k%d", n+2), restatetest.Status(200+2*n, fmt.Sprintf("text %d", n)))
	}
	failure := starter.Handle(t.Context(), batchOf(keysOf(5000)...))
	require.Error(t, failure)

	var collected metricdata.ResourceMetrics
	require.NoError(t, telemetry.reader.Collect(t.Context(), &collected))
	sets, workflows := map[string]int{}, map[string]bool{}
	for _, scope := range collected.ScopeMetrics {
		for _, instrument := range scope.Metrics {
			for _, set := range attributeSets(t, instrument) {
				sets[instrument.Name]++
				if workflow, found := set.Value("workflow"); found {
					workflows[workflow.AsString()] = true
				}
				for _, pair := range set.ToSlice() {
					assert.NotRegexp(t, "k[0-9]|text|error [0-9]|http", pair.Value.String())
				}
			}
		}
	}
	for name, count := range sets {
		assert.LessOrEqual(t, count, 50, name)
	}
	assert.Len(t, workflows, 17)
	assert.Contains(t, workflows, "other")
}

func attributeSets(t *testing.T, instrument metricdata.Metrics) []attribute.Set {
	t.Helper()
	var sets []attribute.Set
	switch data := instrument.Data.(type) {
	case metricdata.Sum[int64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
	case metricdata.Histogram[float64]:
		for _, point := range data.DataPoints {
			sets = append(sets, point.Attributes)
		}
	default:
		t.Fatalf("%s is a %T", instrument.Name, data)
	}
	return sets
}
