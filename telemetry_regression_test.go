package restatestart_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/restatetest"
)

// slow is a source that takes its time.
type slow struct {
	*streamtest.Source
	read, tail time.Duration
}

func (s slow) Read(ctx context.Context, partition int, ask stream.Ask) (stream.Answer, error) {
	time.Sleep(s.read)
	return s.Source.Read(ctx, partition, ask)
}

func (s slow) Tail(ctx context.Context, partition int) (stream.Tail, error) {
	tail, err := s.Source.Tail(ctx, partition)
	time.Sleep(s.tail)
	return tail, err
}

// A reader that is slower than its worker has nothing waiting, and is behind all the same.
func TestAPartitionIsNotIdleWhileThereIsMoreToRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		w.options.BatchSize = 10
		w.reads = slow{Source: w.source, read: 20 * time.Millisecond}
		w.publish(0, make([]string, 1000)...)
		w.run(&recorder{})
		for w.partition(0).Passed == 0 {
			pass(10 * time.Millisecond)
		}
		for w.partition(0).Passed < 990 {
			assert.Equal(t, restatestart.StateRunning, w.partition(0).State)
			assert.NotContains(t, telemetry.metrics(t), "streams.lag.ms"+ofPartition+" is 0")
			pass(110 * time.Millisecond)
		}
		pass(3 * time.Second)
		assert.Equal(t, restatestart.StateIdle, w.partition(0).State)
		require.NoError(t, w.stop())
	})
}

// A position that never stands still while Redis describes the stream is behind all the same.
func TestTheLagOfABusyPartitionGrowsWithTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.BatchSize = 10
		w.reads = slow{Source: w.source, tail: 50 * time.Millisecond}
		w.publish(0, "first")
		w.run(&recorder{fail: func([]restatestart.Message[claim]) error { time.Sleep(10 * time.Millisecond); return nil }})
		pass(11 * time.Second)
		require.Equal(t, int64(0), *w.partition(0).Lag)
		for range 20 {
			w.publish(0, make([]string, 2000)...) // of which 1000 are done in a second
			pass(time.Second)
		}
		partition := w.partition(0)
		require.NotNil(t, partition.Lag)
		assert.InDelta(t, 40001-partition.Passed, *partition.Lag, 10001, "it is at most a sample old")
		assert.Greater(t, *partition.Lag, int64(9000))
		require.NoError(t, w.stop())
	})
}

// An id is a time only if its producer had a clock in milliseconds.
func TestAnIdBeyondTheCalendarLeavesTheProbesAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		w.source.AddEntry(0, wire.Entry{ID: wire.ID{Ms: 1726000000000000}, Body: "{}", HasBody: true})
		w.run(&recorder{fail: func([]restatestart.Message[claim]) error { return errBoom }})
		pass(10 * time.Second)
		_, err := json.Marshal(w.consumer.Status())
		require.NoError(t, err)
		assert.Equal(t, "alive, ready", healthOf(t, w.consumer))
		assert.Contains(t, telemetry.metrics(t), "streams.lag.ms"+ofPartition+" is 0")
		require.NoError(t, w.stop())
	})
}

// panicking is a log handler that panics over everything.
type panicking struct{}

func (panicking) Enabled(context.Context, slog.Level) bool  { return true }
func (panicking) Handle(context.Context, slog.Record) error { panic("log") }
func (panicking) WithAttrs([]slog.Attr) slog.Handler        { return panicking{} }
func (panicking) WithGroup(string) slog.Handler             { panic("group") }

func TestALogHandlerThatPanicsEndsNeitherALoopNorAStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		fake := restatetest.New(t)
		fake.Script("a", restatetest.Status(503).Times(3))
		w.logTo = slog.New(panicking{})
		w.publish(0, "a")
		w.run(starterOn(t, fake, nil, restatestart.Options{MaxAttempts: 2, Logger: w.logTo}))
		pass(time.Minute)
		assert.Equal(t, "1-0", w.position(0))
		require.NoError(t, w.stop())
		fake.ExpectStarted(t, "Payout", "a")
	})
}

// curious is a log handler that asks for the status with every line.
type curious struct {
	consumer *atomic.Pointer[restatestart.Consumer[claim]]
}

func (curious) Enabled(context.Context, slog.Level) bool { return true }

func (c curious) Handle(context.Context, slog.Record) error {
	if consumer := c.consumer.Load(); consumer != nil {
		consumer.Status()
	}
	return nil
}

func (c curious) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c curious) WithGroup(string) slog.Handler      { return c }

func TestALogHandlerMayAskForTheStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		one := 1
		w.options.InstanceCount, w.options.InstanceIndex = 2, &one
		handler := curious{&atomic.Pointer[restatestart.Consumer[claim]]{}}
		w.logTo = slog.New(handler)
		w.publish(1, "a", "b")
		w.run(&recorder{})
		handler.consumer.Store(w.consumer)
		pass(2 * time.Second)
		w.store.RequestReset(1, "1-0|")
		pass(5 * time.Second)
		w.setMeta("4", "1", nil) // which lets a partition go
		pass(10 * time.Second)
		assert.Len(t, w.consumer.Status().Partitions, 2)
		require.NoError(t, w.stop())
	})
}

func TestNobodyKnowsWhenTrimmingComesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.BatchSize, w.options.ReadAhead = 1, 1
		w.publish(0, "a")
		w.run(&recorder{fail: func([]restatestart.Message[claim]) error { return errBoom }})
		pass(6 * time.Second)
		for range 20 {
			w.publish(0, keysOf(20)...)
			w.source.Trim(0, 300)
			pass(2 * time.Second)
		}
		require.NotNil(t, w.partition(0).TrimIn)
		w.source.Fail(0, errors.New("gone"))
		pass(time.Minute)
		assert.Nil(t, w.partition(0).TrimIn)
		require.NoError(t, w.stop())
	})
}

func TestConsumersOfTwoPrefixesReportApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		telemetry := record()
		var worlds []*world
		for prefix, failure := range map[string]error{"a:": errBoom, "b:": nil} {
			w := newWorld(t, 1)
			w.options.MeterProvider, w.options.KeyPrefix = telemetry.meters, prefix
			w.publish(0, "x")
			w.run(&recorder{fail: func([]restatestart.Message[claim]) error { return failure }})
			worlds = append(worlds, w)
		}
		pass(10 * time.Second)
		lines := telemetry.metrics(t)
		assert.Contains(t, lines, "streams.blocked{consumer=payout,key_prefix=a:,partition=0,topic=claims} is 1")
		assert.Contains(t, lines, "streams.blocked{consumer=payout,key_prefix=b:,partition=0,topic=claims} is 0")
		assert.Contains(t, lines, "streams.stream.length{key_prefix=a:,partition=0,topic=claims} is 1")
		for _, w := range worlds {
			require.NoError(t, w.stop())
		}
	})
}

// A run that fails has no partition that ErrorStop has stopped.
func TestOnlyWhatErrorStopStoppedCountsAsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 2)
		w.options.OnError = restatestart.ErrorFail
		release := make(chan struct{})
		w.publish(0, "slow")
		w.run(restatestart.HandlerFunc[claim](func(_ context.Context, batch []restatestart.Message[claim]) error {
			if batch[0].Value.Key == "slow" {
				<-release
				return nil
			}
			return errBoom
		}))
		w.publish(1, "bad")
		pass(time.Second)
		assert.Contains(t, telemetry.metrics(t), "streams.partitions.stopped"+ofConsumer+" is 0")
		close(release)
		require.ErrorIs(t, <-w.result, errBoom)
	})
}

// breaking writes what cannot be sent.
type breaking struct{ propagation.TraceContext }

func (breaking) Inject(_ context.Context, carrier propagation.TextMapCarrier) {
	carrier.Set("baggage", "a\r\nb")
	carrier.Set("Idempotency-Key", "x")
	carrier.Set("X-Trace", "fine")
}

func TestAPropagatorKeepsNoStartFromBeingMade(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t)
	starter := starterOn(t, fake, nil, restatestart.Options{TracerProvider: record().tracer, Propagator: breaking{}})
	require.NoError(t, starter.Handle(t.Context(), batchOf("a")))
	header := fake.Requests()[0].Header
	assert.Equal(t, "fine", header.Get("X-Trace"))
	assert.Empty(t, header.Get("Baggage"))
	assert.Empty(t, header.Get("Idempotency-Key"))
}

// A skipped entry is lost when its position has moved, and once, however often it was handed over before.
func TestASkippedEntryOfAHeldBatchIsLostOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		w.options.OnMalformed = restatestart.MalformedSkip
		w.source.AddMalformed(0)
		w.publish(0, "a")
		fail := true
		handler := &recorder{fail: func([]restatestart.Message[claim]) error {
			if fail {
				return errBoom
			}
			return nil
		}}
		for range 3 {
			w.run(handler)
			pass(10 * time.Second)
			require.NoError(t, w.stop())
		}
		const lost = "streams.lost{cause=malformed,consumer=payout,partition=0,topic=claims} total "
		assert.NotContains(t, strings.Join(telemetry.metrics(t), "\n"), lost)
		fail = false
		w.run(handler)
		pass(10 * time.Second)
		assert.Contains(t, telemetry.metrics(t), lost+"1")
		require.NoError(t, w.stop())
	})
}

// A transport's own word for a context that ended is a timeout too.
func TestS7ATimeoutIsOneWhateverTheTransportCallsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		starter, err := restatestart.New(keepKeyed, payout, restatestart.Options{Ingress: "http://restate", MaxAttempts: 1, HTTPClient: &http.Client{
			Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, errors.New("gave up")
			}),
		}})
		require.NoError(t, err)
		failed := onlyFailure(t, starter.Handle(t.Context(), batchOf("a")))
		assert.Equal(t, restatestart.ReasonTimeout, failed.Reason)
		require.ErrorContains(t, failed.Err, "gave up")
	})
}

func TestAStatusThatIsNoJSONFailsNoProbe(t *testing.T) {
	t.Parallel()
	oldest := time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)
	odd := statusOf{State: restatestart.StateRunning, Partitions: []restatestart.PartitionStatus{{Started: true, Oldest: &oldest}}}
	answer := httptest.NewRecorder()
	restatestart.Health(odd).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/livez", nil))
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Contains(t, answer.Body.String(), `"alive"`)
}
