package restatestart_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/restatetest"
)

func TestS6S10WhatAHandleCallReports(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		keys    []string
		arrange func(fake *restatetest.Server)
		known   bool          // the keys were started before
		cancel  time.Duration // 0: never; negative: before the call
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
		"accepted at the third attempt": {
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
		"a Retry-After beyond RetryMax": {
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
		"rejected, and the next one of its key": {
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
				"restate.start.failed{reason=shutdown} total 1", // no blocked batch
			},
			spans: []string{
				"client restate.start Payout under nothing, Error shutdown {error.type=503 http.response.status_code=503 messaging.message.id=1-0 restate.key=a restate.start.attempts=1 restate.start.reason=shutdown}" +
					"\n  0s restate.start.attempt_failed {error.message=503: Service Unavailable http.response.status_code=503 restate.start.attempt=1 restate.start.reason=server restate.start.wait_s=0.2}",
			},
		},
		"shutdown before the first attempt": {
			keys: []string{"a"}, cancel: -1,
			metrics: []string{"restate.start.failed{reason=shutdown} total 1"}, // no duration
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
					require.NoError(t, testkit.NewStarter(t, fake, nil, restatestart.Options{}).Handle(t.Context(), testkit.Batch(row.keys...)))
				}
				if row.arrange != nil {
					row.arrange(fake)
				}
				telemetry := testkit.Record()
				starter, err := restatestart.New(keepOrPanic, testkit.Payout, restatestart.Options{
					Ingress: fake.URL(), HTTPClient: fake.Client(), NoJitter: true,
					TracerProvider: telemetry.Tracer, MeterProvider: telemetry.Meters,
				})
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch {
				case row.cancel > 0:
					time.AfterFunc(row.cancel, cancel)
				case row.cancel < 0:
					cancel()
				}
				_ = starter.Handle(ctx, testkit.Batch(row.keys...))

				assert.Equal(t, row.metrics, telemetry.Metrics(t))
				assert.ElementsMatch(t, row.spans, telemetry.Ended())
			})
		})
	}
}

func keepOrPanic(message *restatestart.Message[testkit.Claim]) bool {
	if message.Value.Key == "panic" {
		panic("Keep")
	}
	return testkit.KeepKeyed(message)
}

func TestStartsInFlightAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.ScriptAll(restatetest.Delay(time.Second).Always())
		telemetry := testkit.Record()
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MeterProvider: telemetry.Meters, MaxParallelism: 3})
		go func() { _ = starter.Handle(t.Context(), testkit.Batch(testkit.Keys(5)...)) }()
		testkit.Pass(500 * time.Millisecond)
		assert.Contains(t, telemetry.AllMetrics(t), "restate.start.active{} total 3")
		testkit.Pass(time.Second)
		assert.Contains(t, telemetry.AllMetrics(t), "restate.start.active{} total 2")
		testkit.Pass(time.Second)
		assert.Contains(t, telemetry.AllMetrics(t), "restate.start.active{} total 0")
	})
}

// An alert on an increase does not see a series that appears with the first failure.
func TestTheSeriesOfAlertsBeginAtZero(t *testing.T) {
	t.Parallel()
	telemetry := testkit.Record()
	_, err := restatestart.New(testkit.KeepKeyed, testkit.Payout, restatestart.Options{Ingress: "http://restate", MeterProvider: telemetry.Meters})
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
	}, telemetry.AllMetrics(t))
}

// With 5000 keys, 50 error texts, 200 workflows and every status.
func TestTheAttributesOfAMetricAreBounded(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	telemetry := testkit.Record()
	starter, err := restatestart.New(keepOrPanic, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
		var number int
		_, _ = fmt.Sscanf(message.Value.Key, "k%d", &number)
		if number%100 == 1 {
			return restatestart.Start{}, fmt.Errorf("error %d", number%5000)
		}
		return restatestart.Start{Workflow: fmt.Sprintf("W%d", number%200), Key: message.Value.Key}, nil
	}, restatestart.Options{
		Ingress: fake.URL(), HTTPClient: fake.Client(), MaxAttempts: 1, MaxParallelism: 64, MeterProvider: telemetry.Meters,
		NoJitter: true,
	})
	require.NoError(t, err)
	for n := 1; n < 400; n++ {
		fake.Script(fmt.Sprintf("k%d", n+2), restatetest.Status(200+2*n, fmt.Sprintf("text %d", n)))
	}
	failure := starter.Handle(t.Context(), testkit.Batch(testkit.Keys(5000)...))
	require.Error(t, failure)

	var collected metricdata.ResourceMetrics
	require.NoError(t, telemetry.Reader.Collect(t.Context(), &collected))
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

func TestEachStartHasASpanUnderItsProducersAndSendsIt(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	telemetry := testkit.Record()
	shared := http.Header{"X-Tenant": {"a"}}
	starter := testkit.NewStarter(t, fake, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
		start, err := testkit.Payout(message)
		start.Header = shared
		return start, err
	}, restatestart.Options{TracerProvider: telemetry.Tracer, MaxParallelism: 1})
	ctx, process := telemetry.Tracer.Tracer("loop").Start(t.Context(), "streams.process claims")
	batch := testkit.Batch("a", "b", "c")
	batch[0].TraceParent = testkit.Producer
	batch[1].TraceParent = "00-junk"
	require.NoError(t, starter.Handle(ctx, batch))
	process.End()

	const rest = " {http.response.status_code=202 messaging.message.id=%d-0 restate.invocation.id restate.key=%s restate.start.attempts=1 restate.start.duplicate=false}"
	assert.Equal(t, []string{
		"client restate.start Payout under producer, linked to streams.process claims" + fmt.Sprintf(rest, 1, "a"),
		"client restate.start Payout under streams.process claims" + fmt.Sprintf(rest, 2, "b"),
		"client restate.start Payout under streams.process claims" + fmt.Sprintf(rest, 3, "c"),
		"internal streams.process claims under nothing {}",
	}, telemetry.Ended())
	spans := telemetry.Spans.Ended()
	assert.Equal(t, testkit.ProducerTrace, spans[0].SpanContext().TraceID().String())
	assert.Equal(t, "RedisEvents.Restate", spans[0].InstrumentationScope().Name)
	for i, request := range fake.Requests() {
		sent := fmt.Sprintf("00-%s-%s-01", spans[i].SpanContext().TraceID(), spans[i].SpanContext().SpanID())
		assert.Equal(t, sent, request.Header.Get("Traceparent"))
	}
	assert.Equal(t, http.Header{"X-Tenant": {"a"}}, shared, "what Map returned is unchanged")
}

func TestASpanNamesTheServerAndTheStart(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	for url, address := range map[string][2]any{
		"http://restate.test":              {"restate.test", int64(80)},
		"http://user:pass@10.0.0.7:8080/x": {"10.0.0.7", int64(8080)},
		"http://[::1]:9/":                  {"::1", int64(9)},
	} {
		telemetry := testkit.Record()
		starter, err := restatestart.New(testkit.KeepKeyed, testkit.Payout, restatestart.Options{Ingress: url, HTTPClient: fake.Client(), TracerProvider: telemetry.Tracer, MaxAttempts: 1})
		require.NoError(t, err)
		_ = starter.Handle(t.Context(), testkit.Batch("a"))
		spans := telemetry.Spans.Ended()
		require.Len(t, spans, 1)
		attributes := testkit.AttributesOf(spans[0])
		for name, want := range map[string]any{
			"http.request.method": "POST", "server.address": address[0], "server.port": address[1], "restate.workflow": "Payout",
			"restate.key": "a", "restate.handler": "run", "streams.stream": "s:{claims}:0", "messaging.message.id": "1-0",
		} {
			assert.Equal(t, want, attributes[name], name)
		}
	}
}

func TestWithoutTracingTheProducersContextIsForwarded(t *testing.T) {
	t.Parallel()
	later := "01-" + testkit.ProducerTrace + "-" + testkit.ProducerSpan + "-03-what-may-come"
	headers, err := restatestart.NewHeaders(restatestart.Header{Name: "Tracestate", Value: "vendor=a:1,other=2"})
	require.NoError(t, err)
	junk, err := restatestart.NewHeaders(restatestart.Header{Name: "tracestate", Value: "no\nstate"})
	require.NoError(t, err)
	for name, provider := range map[string]trace.TracerProvider{"none": nil, "no-op": tracenoop.NewTracerProvider()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := restatetest.New(t)
			shared := http.Header{"X-Tenant": {"a"}}
			starter := testkit.NewStarter(t, fake, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
				start, err := testkit.Payout(message)
				start.Header = shared
				return start, err
			}, restatestart.Options{TracerProvider: provider, MaxParallelism: 1})
			batch := testkit.Batch("plain", "junk", "absent", "state", "bad state", "later", "broken")
			for i, context := range []string{testkit.Producer, "00-junk", "", testkit.Producer, testkit.Producer, later, "00-" + testkit.ProducerTrace + "-" + testkit.ProducerSpan + "-01\r\n"} {
				batch[i].TraceParent = context
			}
			batch[2].Headers, batch[3].Headers, batch[4].Headers = headers, headers, junk
			require.NoError(t, starter.Handle(t.Context(), batch))
			want := map[string][2]string{"plain": {testkit.Producer}, "state": {testkit.Producer, "vendor=a:1,other=2"}, "bad state": {testkit.Producer}, "later": {later}}
			require.Len(t, fake.Requests(), 7)
			for _, request := range fake.Requests() {
				sent := [2]string{request.Header.Get("Traceparent"), request.Header.Get("Tracestate")}
				assert.Equal(t, want[request.Key], sent, request.Key)
				assert.Equal(t, "a", request.Header.Get("X-Tenant"))
			}
			assert.Equal(t, http.Header{"X-Tenant": {"a"}}, shared, "what Map returned is unchanged")
		})
	}
}

func TestWithoutTracingAndAProducerTheCallersContextIsSent(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	ctx, span := testkit.Record().Tracer.Tracer("loop").Start(t.Context(), "mine")
	defer span.End()
	require.NoError(t, testkit.NewStarter(t, fake, nil, restatestart.Options{}).Handle(ctx, testkit.Batch("a")))
	assert.Equal(t, fmt.Sprintf("00-%s-%s-01", span.SpanContext().TraceID(), span.SpanContext().SpanID()), fake.Requests()[0].Header.Get("Traceparent"))
}

func TestASpanThatIsNotSampledIsSentAsSuch(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	batch := testkit.Batch("a")
	batch[0].TraceParent = testkit.Producer
	require.NoError(t, testkit.NewStarter(t, fake, nil, restatestart.Options{TracerProvider: provider}).Handle(t.Context(), batch))
	sent := fake.Requests()[0].Header.Get("Traceparent")
	assert.Equal(t, testkit.ProducerTrace, sent[3:35])
	assert.NotEqual(t, testkit.ProducerSpan, sent[36:52])
	assert.Equal(t, "-00", sent[52:])
}

func TestASpanKeepsItsProducersTraceState(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	headers, err := restatestart.NewHeaders(restatestart.Header{Name: "tracestate", Value: "vendor=a:1"})
	require.NoError(t, err)
	batch := testkit.Batch("a")
	batch[0].TraceParent, batch[0].Headers = testkit.Producer, headers
	require.NoError(t, testkit.NewStarter(t, fake, nil, restatestart.Options{TracerProvider: testkit.Record().Tracer}).Handle(t.Context(), batch))
	assert.Equal(t, "vendor=a:1", fake.Requests()[0].Header.Get("Tracestate"))
}

func TestOptionsPropagatorIsUsed(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	starter := testkit.NewStarter(t, fake, nil, restatestart.Options{TracerProvider: testkit.Record().Tracer, Propagator: tenantPropagator{}})
	require.NoError(t, starter.Handle(t.Context(), testkit.Batch("a")))
	assert.NotEmpty(t, fake.Requests()[0].Header.Get("X-Trace"))
	assert.Empty(t, fake.Requests()[0].Header.Get("Traceparent"))
}

type tenantPropagator struct{ propagation.TraceContext }

func (tenantPropagator) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	carrier.Set("X-Trace", trace.SpanContextFromContext(ctx).TraceID().String())
}

func TestEveryTextOnASpanIsValidAndBounded(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	telemetry := testkit.Record()
	random := rand.New(rand.NewPCG(1, 2))
	noise := func() string {
		bytes := make([]byte, random.IntN(2000))
		for i := range bytes {
			bytes[i] = byte(random.Uint32())
		}
		return string(bytes)
	}
	fake.ScriptAll(restatetest.Answer(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader([]int{202, 400, 503}[random.IntN(3)])
		_, _ = fmt.Fprintf(w, `{"invocationId":%q,"message":%q}`, noise(), noise())
	}).Always())
	starter := testkit.NewStarter(t, fake, func(message *restatestart.Message[testkit.Claim]) (restatestart.Start, error) {
		workflow, key := message.Value.Key, strings.Repeat("key\u00e9", random.IntN(500)+1)
		return restatestart.Start{Workflow: workflow, Key: key, Handler: strings.ToValidUTF8(noise(), "?") + "h"}, nil
	}, restatestart.Options{TracerProvider: telemetry.Tracer, MaxAttempts: 1, MaxParallelism: 1})
	for range 50 {
		batch := testkit.Batch("x"+noise(), strings.ToValidUTF8("y"+noise(), "?"))
		for i := range batch {
			batch[i].ID, batch[i].Stream = noise(), noise()
		}
		_ = starter.Handle(t.Context(), batch)
	}
	spans := telemetry.Spans.Ended()
	assert.Len(t, spans, 100)
	check := func(texts ...attribute.KeyValue) {
		for _, pair := range texts {
			assert.True(t, utf8.ValidString(pair.Value.String()), pair.Key)
			assert.LessOrEqual(t, len(pair.Value.String()), 256, pair.Key)
		}
	}
	for _, span := range spans {
		check(span.Attributes()...)
		check(attribute.String("name", strings.TrimPrefix(span.Name(), "restate.start ")), attribute.String("status", span.Status().Description))
		for _, event := range span.Events() {
			check(event.Attributes...)
		}
	}
}

type (
	panickingPropagator struct{ propagation.TraceContext }
	panickingTracers    struct{ tracenoop.TracerProvider }
	panickingTracer     struct{ tracenoop.Tracer }
	panickingMeters     struct{ metricnoop.MeterProvider }
	panickingMeter      struct{ metricnoop.Meter }
	panickingCounter    struct{ metricnoop.Int64Counter }
	panickingHandler    struct{ slog.Handler }
)

func (panickingPropagator) Inject(context.Context, propagation.TextMapCarrier) { panic("propagator") }

func (panickingTracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return panickingTracer{} }

func (panickingTracer) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	panic("tracer")
}

func (panickingMeters) Meter(string, ...metric.MeterOption) metric.Meter { return panickingMeter{} }

func (panickingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return panickingCounter{}, nil
}

func (panickingCounter) Add(context.Context, int64, ...metric.AddOption) { panic("meter") }

func (panickingHandler) Enabled(context.Context, slog.Level) bool { panic("log") }

func TestS9APanicOfTelemetryLosesNoStart(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]restatestart.Options{
		"propagator": {Propagator: panickingPropagator{}, TracerProvider: sdktrace.NewTracerProvider()},
		"tracer":     {TracerProvider: panickingTracers{}},
		"meter":      {MeterProvider: panickingMeters{}},
		"logger":     {Logger: slog.New(panickingHandler{})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := restatetest.New(t)
			fake.Script("bad", restatetest.Status(400))
			batch := testkit.Batch("a", "b", "bad")
			batch[0].TraceParent = testkit.Producer
			blocked := testkit.Blocked(t, testkit.NewStarter(t, fake, nil, options).Handle(t.Context(), batch))
			assert.Equal(t, 2, blocked.Accepted)
			require.Len(t, blocked.Failed, 1)
			assert.Equal(t, restatestart.ReasonRejected, blocked.Failed[0].Reason)
			fake.ExpectStarted(t, "Payout", "a", "b")
		})
	}
}

// invalidPropagator writes headers that cannot be sent.
type invalidPropagator struct{ propagation.TraceContext }

func (invalidPropagator) Inject(_ context.Context, carrier propagation.TextMapCarrier) {
	carrier.Set("baggage", "a\r\nb")
	carrier.Set("Idempotency-Key", "x")
	carrier.Set("X-Trace", "fine")
}

func TestS9WhatAPropagatorWritesAndCannotBeSentIsLeftOut(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	starter := testkit.NewStarter(t, fake, nil, restatestart.Options{TracerProvider: testkit.Record().Tracer, Propagator: invalidPropagator{}})
	require.NoError(t, starter.Handle(t.Context(), testkit.Batch("a")))
	header := fake.Requests()[0].Header
	assert.Equal(t, "fine", header.Get("X-Trace"))
	assert.Empty(t, header.Get("Baggage"))
	assert.Empty(t, header.Get("Idempotency-Key"))
}
