package restatestart_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

func TestEachStartHasASpanUnderItsProducersAndThePostCarriesIt(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	telemetry := record()
	shared := http.Header{"X-Tenant": {"a"}}
	starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		start, err := payout(message)
		start.Header = shared
		return start, err
	}, restatestart.Options{TracerProvider: telemetry.tracer, MaxParallelism: 1})
	ctx, process := telemetry.tracer.Tracer("loop").Start(t.Context(), "streams.process claims")
	batch := batchOf("a", "b", "c")
	batch[0].TraceParent = producer
	batch[1].TraceParent = "00-junk"
	require.NoError(t, starter.Handle(ctx, batch))
	process.End()

	const rest = " {http.response.status_code=202 messaging.message.id=%d-0 restate.invocation.id restate.key=%s restate.start.attempts=1 restate.start.duplicate=false}"
	assert.Equal(t, []string{
		"client restate.start Payout under producer, linked to streams.process claims" + fmt.Sprintf(rest, 1, "a"),
		"client restate.start Payout under streams.process claims" + fmt.Sprintf(rest, 2, "b"),
		"client restate.start Payout under streams.process claims" + fmt.Sprintf(rest, 3, "c"),
		"internal streams.process claims under nothing {}",
	}, telemetry.ended())
	spans := telemetry.spans.Ended()
	assert.Equal(t, producerTrace, spans[0].SpanContext().TraceID().String())
	assert.Equal(t, "RedisEvents.Restate", spans[0].InstrumentationScope().Name)
	for i, request := range fake.Requests() {
		sent := fmt.Sprintf("00-%s-%s-01", spans[i].SpanContext().TraceID(), spans[i].SpanContext().SpanID())
		assert.Equal(t, sent, request.Header.Get("Traceparent"))
	}
	assert.Equal(t, http.Header{"X-Tenant": {"a"}}, shared, "what Map returned is left as it was")
}

func TestASpanNamesTheServerAndTheStart(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	for url, address := range map[string][2]any{
		"http://restate.test":              {"restate.test", int64(80)},
		"http://user:pass@10.0.0.7:8080/x": {"10.0.0.7", int64(8080)},
		"http://[::1]:9/":                  {"::1", int64(9)},
	} {
		telemetry := record()
		starter, err := restatestart.New(keepKeyed, payout, restatestart.Options{Ingress: url, HTTPClient: fake.Client(), TracerProvider: telemetry.tracer, MaxAttempts: 1})
		require.NoError(t, err)
		_ = starter.Handle(t.Context(), batchOf("a"))
		spans := telemetry.spans.Ended()
		require.Len(t, spans, 1)
		attributes := attributesOf(spans[0])
		for name, want := range map[string]any{
			"http.request.method": "POST", "server.address": address[0], "server.port": address[1], "restate.workflow": "Payout",
			"restate.key": "a", "restate.handler": "run", "streams.stream": "s:{claims}:0", "messaging.message.id": "1-0",
		} {
			assert.Equal(t, want, attributes[name], name)
		}
	}
}

// Whatever tracing is there or not: what a producer sent goes on, and what nobody sent does not appear.
func TestWithTracingOffTheProducersContextGoesOutAsItCame(t *testing.T) {
	t.Parallel()
	later := "01-" + producerTrace + "-" + producerSpan + "-03-what-may-come"
	headers, err := restatestart.NewHeaders(restatestart.Header{Name: "Tracestate", Value: "vendor=a:1,other=2"})
	require.NoError(t, err)
	junk, err := restatestart.NewHeaders(restatestart.Header{Name: "tracestate", Value: "no\nstate"})
	require.NoError(t, err)
	for name, provider := range map[string]trace.TracerProvider{"none": nil, "no-op": noop.NewTracerProvider()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := restatetest.New(t)
			shared := http.Header{"X-Tenant": {"a"}}
			starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
				start, err := payout(message)
				start.Header = shared
				return start, err
			}, restatestart.Options{TracerProvider: provider, MaxParallelism: 1})
			batch := batchOf("plain", "junk", "absent", "state", "bad state", "later", "broken")
			for i, context := range []string{producer, "00-junk", "", producer, producer, later, "00-" + producerTrace + "-" + producerSpan + "-01\r\n"} {
				batch[i].TraceParent = context
			}
			batch[2].Headers, batch[3].Headers, batch[4].Headers = headers, headers, junk
			require.NoError(t, starter.Handle(t.Context(), batch))
			want := map[string][2]string{"plain": {producer}, "state": {producer, "vendor=a:1,other=2"}, "bad state": {producer}, "later": {later}}
			require.Len(t, fake.Requests(), 7)
			for _, request := range fake.Requests() {
				sent := [2]string{request.Header.Get("Traceparent"), request.Header.Get("Tracestate")}
				assert.Equal(t, want[request.Key], sent, request.Key)
				assert.Equal(t, "a", request.Header.Get("X-Tenant"))
			}
			assert.Equal(t, http.Header{"X-Tenant": {"a"}}, shared, "what Map returned is left as it was")
		})
	}
}

// A caller of Handle may have a trace of its own going, which this Starter's tracer is no part of.
func TestWithTracingOffTheCallersContextGoesOutWhereThereIsNoProducers(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	ctx, span := record().tracer.Tracer("loop").Start(t.Context(), "mine")
	defer span.End()
	require.NoError(t, starterOn(t, fake, nil, restatestart.Options{}).Handle(ctx, batchOf("a")))
	assert.Equal(t, fmt.Sprintf("00-%s-%s-01", span.SpanContext().TraceID(), span.SpanContext().SpanID()), fake.Requests()[0].Header.Get("Traceparent"))
}

// A start that is not sampled is traced all the same, by others perhaps: its own context goes out, marked so.
func TestAStartThatIsNotSampledSaysSo(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	batch := batchOf("a")
	batch[0].TraceParent = producer
	require.NoError(t, starterOn(t, fake, nil, restatestart.Options{TracerProvider: provider}).Handle(t.Context(), batch))
	sent := fake.Requests()[0].Header.Get("Traceparent")
	assert.Equal(t, producerTrace, sent[3:35])
	assert.NotEqual(t, producerSpan, sent[36:52])
	assert.Equal(t, "-00", sent[52:])
}

func TestTheProducersTraceStateIsHandedOnByTheSpan(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	headers, err := restatestart.NewHeaders(restatestart.Header{Name: "tracestate", Value: "vendor=a:1"})
	require.NoError(t, err)
	batch := batchOf("a")
	batch[0].TraceParent, batch[0].Headers = producer, headers
	require.NoError(t, starterOn(t, fake, nil, restatestart.Options{TracerProvider: record().tracer}).Handle(t.Context(), batch))
	assert.Equal(t, "vendor=a:1", fake.Requests()[0].Header.Get("Tracestate"))
}

func TestAPropagatorOfOnesOwnIsUsed(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	starter := starterOn(t, fake, nil, restatestart.Options{TracerProvider: record().tracer, Propagator: tenantPropagator{}})
	require.NoError(t, starter.Handle(t.Context(), batchOf("a")))
	assert.NotEmpty(t, fake.Requests()[0].Header.Get("X-Trace"))
	assert.Empty(t, fake.Requests()[0].Header.Get("Traceparent"))
}

type tenantPropagator struct{ propagation.TraceContext }

func (tenantPropagator) Inject(ctx context.Context, carrier propagation.TextMapCarrier) {
	carrier.Set("X-Trace", trace.SpanContextFromContext(ctx).TraceID().String())
}

// Whatever a message holds and the ingress answers: every text on a span is valid and short.
func TestEverythingOnASpanIsValidAndBounded(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	telemetry := record()
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
	starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		workflow, key := message.Value.Key, strings.Repeat("key\u00e9", random.IntN(500)+1)
		return restatestart.Start{Workflow: workflow, Key: key, Handler: strings.ToValidUTF8(noise(), "?") + "h"}, nil
	}, restatestart.Options{TracerProvider: telemetry.tracer, MaxAttempts: 1, MaxParallelism: 1})
	for range 50 {
		batch := batchOf("x"+noise(), strings.ToValidUTF8("y"+noise(), "?"))
		for i := range batch {
			batch[i].ID, batch[i].Stream = noise(), noise()
		}
		_ = starter.Handle(t.Context(), batch)
	}
	spans := telemetry.spans.Ended()
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
