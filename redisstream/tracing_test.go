package redisstream_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/restatetest"
)

// No span is open while a partition is held.
func TestEachDeliveryOfAHeldBatchHasASpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		fake := restatetest.New(t)
		fake.Script("bad", restatetest.Status(404, "gone").For(2*time.Second))
		e.publish(0, "a", "bad")
		e.run(testkit.NewStarter(t, fake, nil, restatestart.Options{TracerProvider: telemetry.Tracer, MaxParallelism: 1}))
		testkit.Pass(500 * time.Millisecond)
		assert.Len(t, telemetry.Spans.Started(), 3)
		assert.Len(t, telemetry.Spans.Ended(), 3, "none is open while the partition is held")
		testkit.Pass(10 * time.Second)
		const (
			accepted = "client restate.start Payout under streams.process claims {http.response.status_code=202 messaging.message.id=%s restate.invocation.id restate.key=%s restate.start.attempts=1 restate.start.duplicate=false}"
			refused  = "client restate.start Payout under streams.process claims, Error not_found {error.type=404 http.response.status_code=404 messaging.message.id=2-0 restate.key=bad restate.start.attempts=1 restate.start.reason=not_found}" +
				"\n  0s restate.start.attempt_failed {error.message=404: gone http.response.status_code=404 restate.start.attempt=1 restate.start.reason=not_found}"
			held = "consumer streams.process claims under nothing, Error %d of %d starts not accepted; start Payout/bad (entry 2-0): not_found after 1 attempt: 404: gone {error.type=BlockedError messaging.batch.message_count=%d messaging.message_id=2-0 streams.try=%d}"
			done = "consumer streams.process claims under nothing, Ok  {messaging.batch.message_count=1 messaging.message_id=2-0 streams.try=3}"
		)
		assert.Equal(t, []string{
			fmt.Sprintf(accepted, "1-0", "a"), refused, fmt.Sprintf(held, 1, 2, 2, 1),
			refused, fmt.Sprintf(held, 1, 1, 1, 2),
			fmt.Sprintf(accepted, "2-0", "bad"), done,
		}, telemetry.Ended())
	})
}

func TestAProcessSpanHasTheAttributesOfBothConventions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 4)
		testkit.Pass(time.Second) // the clock of a bubble begins in 2000
		now := time.Now()
		e.source.AddEntry(3, wire.Entry{ID: wire.ID{Ms: uint64(now.Add(-90 * time.Second).UnixMilli())}, Type: "ClaimMade", Body: `{"key":"a"}`, HasBody: true})
		e.source.AddEntry(3, wire.Entry{ID: wire.ID{Ms: uint64(now.Add(-60 * time.Second).UnixMilli())}, Type: "ClaimPaid", Body: `{"key":"b"}`, HasBody: true})
		e.run(&recorder{})
		testkit.Pass(time.Second)
		spans := telemetry.Spans.Ended()
		require.Len(t, spans, 1)
		assert.Equal(t, "RedisEvents", spans[0].InstrumentationScope().Name)
		assert.Equal(t, trace.SpanKindConsumer, spans[0].SpanKind())
		assert.Equal(t, map[string]any{
			"messaging.system": "redis_streams", "messaging.destination.name": "claims", "messaging.destination.partition.id": "3",
			"messaging.consumer.group.name": "payout", "messaging.operation.name": "process", "messaging.operation.type": "process",
			"messaging.batch.message_count": int64(2), "messaging.message.type": "ClaimMade",
			"messaging.destination": "claims", "messaging.partition": int64(3), "streams.consumer": "payout",
			"messaging.message_id": fmt.Sprintf("%d-0", now.Add(-60*time.Second).UnixMilli()),
			"streams.lag_ms":       float64(60000), "streams.try": int64(1),
		}, testkit.AttributesOf(spans[0]))
	})
}

// The rule is that of RedisEvents.
func TestABatchJoinsTheTraceOfItsMessages(t *testing.T) {
	t.Parallel()
	traceparent := func(traceDigit, spanDigit string) string {
		return "00-" + strings.Repeat(traceDigit, 32) + "-" + strings.Repeat(spanDigit, 16) + "-01"
	}
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("00-%s-%016x-01", strings.Repeat("a", 32), i+1)
	}
	for name, row := range map[string]struct {
		contexts []string
		parent   string
		links    string
	}{
		"no context":                         {contexts: []string{"", ""}},
		"one message":                        {contexts: []string{traceparent("a", "1")}, parent: "1"},
		"one malformed message":              {contexts: []string{"00-junk"}},
		"one trace":                          {contexts: []string{"", traceparent("a", "1"), traceparent("a", "2"), "", traceparent("a", "1"), traceparent("a", "2")}, parent: "1", links: "2 2"},
		"one trace, in upper and lower case": {contexts: []string{traceparent("a", "1"), strings.Replace(traceparent("a", "2"), "aaa", "AAA", 1)}, parent: "1"},
		"two traces":                         {contexts: []string{traceparent("a", "1"), traceparent("b", "2"), traceparent("a", "1")}, links: "1 2 1"},
		"one too short to have a trace":      {contexts: []string{traceparent("a", "1"), "00-aa", traceparent("a", "2")}, links: "1 2"},
		"the first one is malformed":         {contexts: []string{strings.Replace(traceparent("a", "1"), "00-", "ff-", 1), traceparent("a", "2")}, links: "2"},
		"more than sixteen messages":         {contexts: many, parent: "1", links: "2 3 4 5 6 7 8 9 a b c d e f 10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, telemetry := recordedEnv(t, 1)
				for i, parent := range row.contexts {
					e.source.AddEntry(0, wire.Entry{ID: wire.ID{Ms: uint64(i) + 1}, Body: "{}", HasBody: true, TraceParent: parent})
				}
				e.run(&recorder{})
				testkit.Pass(time.Second)
				spans := telemetry.Spans.Ended()
				require.Len(t, spans, 1)
				links := make([]string, 0, len(spans[0].Links()))
				for _, link := range spans[0].Links() {
					links = append(links, shortID(link.SpanContext.SpanID()))
				}
				parent := ""
				if spans[0].Parent().IsValid() {
					parent = shortID(spans[0].Parent().SpanID())
				}
				assert.Equal(t, row.parent, parent)
				assert.Equal(t, row.links, strings.Join(links, " "))
			})
		})
	}
}

// shortID is the digit that a span id is made of, or the number that it is.
func shortID(id trace.SpanID) string {
	if text := id.String(); strings.Count(text, text[:1]) == len(text) {
		return text[:1]
	}
	return strings.TrimLeft(id.String(), "0")
}

// Run never ends, and neither would a trace of all its batches.
func TestTheSpanThatRunIsCalledUnderIsNoParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		fake := restatetest.New(t)
		starting, span := telemetry.Tracer.Tracer("main").Start(context.Background(), "start-up")
		e.ctx = starting
		e.options.BatchSize = 1
		e.publish(0, testkit.Keys(100)...)
		e.run(testkit.NewStarter(t, fake, nil, restatestart.Options{TracerProvider: telemetry.Tracer}))
		span.End()
		testkit.Pass(time.Second)
		traces := map[trace.TraceID]int{}
		for _, ended := range telemetry.Spans.Ended() {
			traces[ended.SpanContext().TraceID()]++
		}
		assert.Len(t, traces, 101, "a hundred batches and the start-up")
		assert.Equal(t, 1, traces[span.SpanContext().TraceID()])
		assert.Len(t, telemetry.Spans.Ended(), len(telemetry.Spans.Started()))
	})
}

func TestABatchCutShortByAShutdownIsNoErrorOfItsSpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		fake := restatetest.New(t)
		fake.ScriptAll(restatetest.Hang().Always())
		e.publish(0, "a")
		e.run(testkit.NewStarter(t, fake, nil, restatestart.Options{AttemptTimeout: time.Hour}))
		require.NoError(t, e.stop())
		assert.Equal(t, []string{"consumer streams.process claims under nothing {messaging.batch.message_count=1 messaging.message_id=1-0 streams.try=1}"}, telemetry.Ended())
		for _, line := range telemetry.Metrics(t) {
			assert.NotContains(t, line, "streams.errors")
		}
	})
}
