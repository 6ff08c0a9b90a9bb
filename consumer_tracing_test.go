package restatestart_test

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
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/restatetest"
)

// Everything that a partition reports that is held and recovers: no span is open while it is held, and each try has its
// own.
func TestEachTryOfAHeldBatchHasASpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		fake := restatetest.New(t)
		fake.Script("bad", restatetest.Status(404, "gone").For(2*time.Second))
		w.publish(0, "a", "bad")
		w.run(starterOn(t, fake, nil, restatestart.Options{TracerProvider: telemetry.tracer, MaxParallelism: 1}))
		pass(500 * time.Millisecond)
		assert.Len(t, telemetry.spans.Started(), 3)
		assert.Len(t, telemetry.spans.Ended(), 3, "none is open while the partition is held")
		pass(10 * time.Second)
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
		}, telemetry.ended())
		require.NoError(t, w.stop())
	})
}

func TestAProcessSpanHasTheAttributesOfBothConventions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 4)
		pass(time.Second) // the clock of a bubble begins in 2000
		now := time.Now()
		w.source.AddEntry(3, wire.Entry{ID: wire.ID{Ms: uint64(now.Add(-90 * time.Second).UnixMilli())}, Type: "ClaimMade", Body: `{"key":"a"}`, HasBody: true})
		w.source.AddEntry(3, wire.Entry{ID: wire.ID{Ms: uint64(now.Add(-60 * time.Second).UnixMilli())}, Type: "ClaimPaid", Body: `{"key":"b"}`, HasBody: true})
		w.run(&recorder{})
		pass(time.Second)
		spans := telemetry.spans.Ended()
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
		}, attributesOf(spans[0]))
		require.NoError(t, w.stop())
	})
}

// The rule of RedisEvents, case by case.
func TestABatchBelongsToTheTraceOfItsMessages(t *testing.T) {
	t.Parallel()
	context := func(traceDigit, spanDigit string) string {
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
		"no context":                     {contexts: []string{"", ""}},
		"one message":                    {contexts: []string{context("a", "1")}, parent: "1"},
		"one malformed message":          {contexts: []string{"00-junk"}},
		"one trace":                      {contexts: []string{"", context("a", "1"), context("a", "2"), "", context("a", "1"), context("a", "2")}, parent: "1", links: "22"},
		"one trace, in other letters":    {contexts: []string{context("a", "1"), strings.Replace(context("a", "2"), "aaa", "AAA", 1)}, parent: "1"},
		"two traces":                     {contexts: []string{context("a", "1"), context("b", "2"), context("a", "1")}, links: "121"},
		"one too short to have a trace":  {contexts: []string{context("a", "1"), "00-aa", context("a", "2")}, links: "12"},
		"the first one is malformed":     {contexts: []string{strings.Replace(context("a", "1"), "00-", "ff-", 1), context("a", "2")}, links: "2"},
		"links are of the first sixteen": {contexts: many, parent: "0000000000000001", links: "2 3 4 5 6 7 8 9 a b c d e f 10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, telemetry := recordedWorld(t, 1)
				for i, context := range row.contexts {
					w.source.AddEntry(0, wire.Entry{ID: wire.ID{Ms: uint64(i) + 1}, Body: "{}", HasBody: true, TraceParent: context})
				}
				w.run(&recorder{})
				pass(time.Second)
				spans := telemetry.spans.Ended()
				require.Len(t, spans, 1)
				links := make([]string, 0, len(spans[0].Links()))
				for _, link := range spans[0].Links() {
					links = append(links, shortID(link.SpanContext.SpanID()))
				}
				parent := ""
				if spans[0].Parent().IsValid() {
					parent = spans[0].Parent().SpanID().String()
				}
				if len(row.parent) == 1 {
					row.parent = strings.Repeat(row.parent, 16)
				}
				assert.Equal(t, row.parent, parent)
				separator := ""
				if strings.Contains(row.links, " ") {
					separator = " "
				}
				assert.Equal(t, row.links, strings.Join(links, separator))
				require.NoError(t, w.stop())
			})
		})
	}
}

// shortID is the digit that a test's span id is made of, or the number that it is.
func shortID(id trace.SpanID) string {
	if text := id.String(); strings.Count(text, text[:1]) == len(text) {
		return text[:1]
	}
	return strings.TrimLeft(id.String(), "0")
}

// B37: Run goes on for ever, and so would a trace that it was called under.
func TestWhatRunIsCalledUnderIsNoParentOfItsBatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		fake := restatetest.New(t)
		starting, span := telemetry.tracer.Tracer("main").Start(context.Background(), "start-up")
		w.under = starting
		w.options.BatchSize = 1
		w.publish(0, keysOf(100)...)
		w.run(starterOn(t, fake, nil, restatestart.Options{TracerProvider: telemetry.tracer}))
		span.End()
		pass(time.Second)
		traces := map[trace.TraceID]int{}
		for _, ended := range telemetry.spans.Ended() {
			traces[ended.SpanContext().TraceID()]++
		}
		assert.Len(t, traces, 101, "a hundred batches and the start-up")
		assert.Equal(t, 1, traces[span.SpanContext().TraceID()])
		assert.Len(t, telemetry.spans.Ended(), len(telemetry.spans.Started()))
		require.NoError(t, w.stop())
	})
}

// A shutdown is nobody's error.
func TestABatchThatAShutdownCutsShortIsNoErrorOfItsSpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		fake := restatetest.New(t)
		fake.ScriptAll(restatetest.Hang().Always())
		w.publish(0, "a")
		w.run(starterOn(t, fake, nil, restatestart.Options{AttemptTimeout: time.Hour}))
		require.NoError(t, w.stop())
		assert.Equal(t, []string{"consumer streams.process claims under nothing {messaging.batch.message_count=1 messaging.message_id=1-0 streams.try=1}"}, telemetry.ended())
		for _, line := range telemetry.metrics(t) {
			assert.NotContains(t, line, "streams.errors")
		}
	})
}
