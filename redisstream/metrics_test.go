package redisstream_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/restatetest"
)

func TestBatchesAreMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		e.options.BatchSize = 2
		e.publish(0, "a", "b", "", "c", "d")
		e.run(&recorder{fail: func(batch []claimMessage) error {
			time.Sleep(time.Duration(len(batch)) * 100 * time.Millisecond)
			return nil
		}})
		testkit.Pass(6 * time.Second)
		assert.Equal(t, quiet(
			"streams.batch.duration"+ofConsumer+" 3 in 500.0",
			"streams.batch.size"+ofConsumer+" 3 in 5",
			"streams.consumed"+ofPartition+" total 5",
			"streams.stream.length"+ofStream+" is 5",
		), loopMetrics(t, telemetry))
	})
}

// A gauge that read 0 before anything is known would look like a healthy partition.
func TestGaugesAreAbsentBeforeTheFirstReadAndAfterTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		e.setMeta("", "", testkit.ErrBoom)
		e.run(&recorder{})
		testkit.Pass(time.Second)
		assert.Empty(t, telemetry.AllMetrics(t), "nothing is known before Redis answers")
		e.setMeta("1", "1", nil)
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{
			"streams.block.duration_ms" + ofPartition + " is 0",
			"streams.blocked" + ofPartition + " is 0",
			"streams.consumed" + ofPartition + " total 0",
			"streams.filtered" + ofConsumer + " total 0",
			"streams.gaps{consumer=payout,kind=ahead,partition=0,topic=claims} total 0",
			"streams.gaps{consumer=payout,kind=deleted,partition=0,topic=claims} total 0",
			"streams.gaps{consumer=payout,kind=gone,partition=0,topic=claims} total 0",
			"streams.gaps{consumer=payout,kind=replaced,partition=0,topic=claims} total 0",
			"streams.gaps{consumer=payout,kind=trimmed,partition=0,topic=claims} total 0",
			"streams.lag.entries" + ofPartition + " is 0",
			"streams.lag.ms" + ofPartition + " is 0",
			"streams.lost{cause=handler,consumer=payout,partition=0,topic=claims} total 0",
			"streams.lost{cause=malformed,consumer=payout,partition=0,topic=claims} total 0",
			"streams.lost{cause=vanished,consumer=payout,partition=0,topic=claims} total 0",
			"streams.parked{consumer=payout,event=discarded,partition=0,topic=claims} total 0",
			"streams.parked{consumer=payout,event=parked,partition=0,topic=claims} total 0",
			"streams.parked{consumer=payout,event=replayed,partition=0,topic=claims} total 0",
			"streams.partitions.stopped" + ofConsumer + " is 0",
			"streams.positions.flush_failures" + ofConsumer + " total 0",
			"streams.stream.length" + ofStream + " is 0",
		}, slices.DeleteFunc(telemetry.AllMetrics(t), isRead))
		reads := func() []string {
			return slices.DeleteFunc(telemetry.AllMetrics(t), func(line string) bool { return !isRead(line) })
		}
		before := reads()
		require.Len(t, before, 1)
		testkit.Pass(3 * time.Second)
		assert.NotEqual(t, before, reads(), "reads are counted while nothing is published")
		require.NoError(t, e.stop())
		assert.Empty(t, slices.DeleteFunc(telemetry.Metrics(t), isRead), "gauges end with the run")
	})
}

func TestAPartitionHasNoGaugesBeforeItsFirstRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		e.backend.Source = silent{e.source}
		e.run(&recorder{})
		testkit.Pass(time.Second)
		require.Equal(t, redisstream.StateStarting, e.partition(0).State)
		for _, line := range telemetry.AllMetrics(t) {
			assert.NotRegexp(t, "^streams.(block|lag.ms)", line)
		}
	})
}

func TestC2TheGaugesOfABlockedPartitionReturnToZero(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		fake := restatetest.New(t)
		fake.Script("bad", restatetest.Status(404).For(5*time.Second))
		e.publish(0, "a", "bad", "c")
		e.run(testkit.NewStarter(t, fake, nil, restatestart.Options{MeterProvider: telemetry.Meters}))
		testkit.Pass(4 * time.Second) // deliveries at 0, 1 and 3 s
		assert.Equal(t, []string{
			"streams.batch.duration" + ofConsumer + " 3 in 0.0",
			"streams.batch.size" + ofConsumer + " 3 in 5",
			"streams.block.duration_ms" + ofPartition + " is 4000",
			"streams.blocked" + ofPartition + " is 1",
			"streams.errors{consumer=payout,exception.type=BlockedError,policy=block,topic=claims} total 3",
			"streams.partitions.stopped" + ofConsumer + " is 0",
			"streams.stream.length" + ofStream + " is 3",
		}, slices.DeleteFunc(loopMetrics(t, telemetry), func(line string) bool { return strings.HasPrefix(line, "streams.lag.entries") }))
		testkit.Pass(6 * time.Second)
		assert.Equal(t, quiet(
			"streams.batch.duration"+ofConsumer+" 4 in 0.0",
			"streams.batch.size"+ofConsumer+" 4 in 6",
			"streams.consumed"+ofPartition+" total 3",
			"streams.errors{consumer=payout,exception.type=BlockedError,policy=block,topic=claims} total 3",
			"streams.stream.length"+ofStream+" is 3",
		), loopMetrics(t, telemetry))
		assert.Contains(t, telemetry.Metrics(t), "restate.start.blocked{} total 3")
	})
}

func TestC7AnOutageOfRedisIsMeasuredAndUnknownGaugesAreAbsent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		e.publish(0, "a")
		e.run(&recorder{})
		testkit.Pass(6 * time.Second)
		e.source.Fail(0, testkit.ErrBoom)
		testkit.Pass(10 * time.Second)
		outage := []string{
			"streams.batch.duration" + ofConsumer + " 1 in 0.0",
			"streams.batch.size" + ofConsumer + " 1 in 1",
			"streams.block.duration_ms" + ofPartition + " is 10000",
			"streams.blocked" + ofPartition + " is 1",
			"streams.consumed" + ofPartition + " total 1",
			"streams.errors{consumer=payout,exception.type=RedisError,policy=transport,topic=claims} total 1",
			"streams.partitions.stopped" + ofConsumer + " is 0",
		}
		assert.Equal(t, outage, slices.DeleteFunc(telemetry.Metrics(t), isRead), "lag and length are absent")
		e.source.Fail(0, nil)
		testkit.Pass(30 * time.Second)
		assert.Equal(t, quiet(
			"streams.batch.duration"+ofConsumer+" 1 in 0.0",
			"streams.batch.size"+ofConsumer+" 1 in 1",
			"streams.consumed"+ofPartition+" total 1",
			"streams.errors{consumer=payout,exception.type=RedisError,policy=transport,topic=claims} total 1",
			"streams.stream.length"+ofStream+" is 1",
		), loopMetrics(t, telemetry))
	})
}

func TestC4C5WhatEachPolicyReports(t *testing.T) {
	t.Parallel()
	panicking := func([]claimMessage) error { panic("handler") }
	for name, row := range map[string]struct {
		options   redisstream.Options
		handle    func([]claimMessage) error
		malformed bool
		want      []string
	}{
		"skip": {
			options: redisstream.Options{OnError: redisstream.ErrorSkip}, handle: boom,
			want: quiet(
				"streams.batch.duration"+ofConsumer+" 1 in 0.0", "streams.batch.size"+ofConsumer+" 1 in 2",
				"streams.errors{consumer=payout,exception.type=Error,policy=best_effort,topic=claims} total 1",
				"streams.lost{cause=handler,consumer=payout,partition=0,topic=claims} total 2",
				"streams.stream.length"+ofStream+" is 2",
			),
		},
		"stop": {
			options: redisstream.Options{OnError: redisstream.ErrorStop}, handle: panicking,
			want: []string{
				"streams.batch.duration" + ofConsumer + " 1 in 0.0", "streams.batch.size" + ofConsumer + " 1 in 2",
				"streams.block.duration_ms" + ofPartition + " is 0", "streams.blocked" + ofPartition + " is 0",
				"streams.errors{consumer=payout,exception.type=PanicError,policy=stop_partition,topic=claims} total 1",
				"streams.lag.entries" + ofPartition + " is 2",
				"streams.partitions.stopped" + ofConsumer + " is 1",
				"streams.stream.length" + ofStream + " is 2",
			},
		},
		"fail": {
			options: redisstream.Options{OnError: redisstream.ErrorFail}, handle: boom,
			want: []string{
				"streams.batch.duration" + ofConsumer + " 1 in 0.0", "streams.batch.size" + ofConsumer + " 1 in 2",
				"streams.errors{consumer=payout,exception.type=Error,policy=fail,topic=claims} total 1",
			},
		},
		"malformed, skipped": {
			options: redisstream.Options{OnMalformed: redisstream.MalformedSkip}, malformed: true,
			want: quiet(
				"streams.batch.duration"+ofConsumer+" 1 in 0.0", "streams.batch.size"+ofConsumer+" 1 in 2",
				"streams.consumed"+ofPartition+" total 2",
				"streams.lost{cause=malformed,consumer=payout,partition=0,topic=claims} total 1",
				"streams.stream.length"+ofStream+" is 3",
			),
		},
		"malformed, held": {
			malformed: true,
			want: []string{
				"streams.batch.duration" + ofConsumer + " 1 in 0.0", "streams.batch.size" + ofConsumer + " 1 in 2",
				"streams.block.duration_ms" + ofPartition + " is 6500", "streams.blocked" + ofPartition + " is 1",
				"streams.errors{consumer=payout,exception.type=MalformedError,policy=block,topic=claims} total 3",
				"streams.lag.entries" + ofPartition + " is 3",
				"streams.partitions.stopped" + ofConsumer + " is 0",
				"streams.stream.length" + ofStream + " is 3",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, telemetry := recordedEnv(t, 1)
				e.options.OnError, e.options.OnMalformed = row.options.OnError, row.options.OnMalformed
				e.publish(0, "a", "b")
				if row.malformed {
					e.source.AddMalformed(0)
				}
				e.run(&recorder{fail: row.handle})
				testkit.Pass(6500 * time.Millisecond)
				assert.Equal(t, row.want, loopMetrics(t, telemetry))
				_ = e.stop()
			})
		})
	}
}

func TestFailedPositionWritesAreCounted(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	telemetry := testkit.Record()
	add(t, server, "1-1", "b", "{}")
	ctx, cancel := context.WithCancel(t.Context())
	consumer, err := redisstream.NewConsumer(client, redisstream.Topic("claims"), decodeClaim,
		claimHandler(func(context.Context, []claimMessage) error {
			server.Del("p:{claims}:payout:meta")
			err := server.Set("p:{claims}:payout:meta", "not a hash")
			cancel()
			return err
		}), redisstream.Options{Consumer: "payout", MeterProvider: telemetry.Meters, Block: 10 * time.Millisecond, PersistInterval: time.Hour})
	require.NoError(t, err)
	require.NoError(t, consumer.Run(ctx))
	assert.Contains(t, telemetry.Metrics(t), "streams.positions.flush_failures"+ofConsumer+" total 1")
}

func TestC8EntriesOfOtherTypesAreCountedAsFiltered(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	telemetry := testkit.Record()
	for i, name := range []string{"Other", "ClaimMade", "Other", "Other"} {
		add(t, server, fmt.Sprintf("1-%d", i+1), "b", `{"key":"a"}`, "t", name)
	}
	consume(t, client, 1, redisstream.Options{MeterProvider: telemetry.Meters, Types: []string{"ClaimMade"}})
	lines := telemetry.Metrics(t)
	assert.Contains(t, lines, "streams.filtered"+ofConsumer+" total 3")
	assert.Contains(t, lines, "streams.consumed"+ofPartition+" total 1")
	assert.Contains(t, lines, "streams.batch.size"+ofConsumer+" 1 in 1")
}

// It is lost once its position has moved, however often its batch was delivered before.
func TestASkippedEntryOfAHeldBatchIsCountedAsLostOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		e.options.OnMalformed = redisstream.MalformedSkip
		e.source.AddMalformed(0)
		e.publish(0, "a")
		fail := true
		handler := &recorder{fail: func([]claimMessage) error {
			if fail {
				return testkit.ErrBoom
			}
			return nil
		}}
		for range 3 {
			e.run(handler)
			testkit.Pass(10 * time.Second)
			require.NoError(t, e.stop())
		}
		const lost = "streams.lost{cause=malformed,consumer=payout,partition=0,topic=claims} total "
		assert.NotContains(t, strings.Join(telemetry.Metrics(t), "\n"), lost)
		fail = false
		e.run(handler)
		testkit.Pass(10 * time.Second)
		assert.Contains(t, telemetry.Metrics(t), lost+"1")
	})
}

func TestOnlyPartitionsStoppedByErrorStopCountAsStopped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 2)
		e.options.OnError = redisstream.ErrorFail
		release := make(chan struct{})
		e.publish(0, "slow")
		e.run(claimHandler(func(_ context.Context, batch []claimMessage) error {
			if batch[0].Value.Key == "slow" {
				<-release
				return nil
			}
			return testkit.ErrBoom
		}))
		e.publish(1, "bad")
		testkit.Pass(time.Second)
		assert.Contains(t, telemetry.Metrics(t), "streams.partitions.stopped"+ofConsumer+" is 0")
		close(release)
		require.ErrorIs(t, e.ended(), testkit.ErrBoom)
	})
}

func TestGaugesOfARevokedPartitionEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 2)
		one := 1
		e.options.InstanceCount, e.options.InstanceIndex = 2, &one
		e.run(&recorder{})
		testkit.Pass(time.Second)
		gauges := func() (of []string) {
			for _, line := range telemetry.Metrics(t) {
				if name, found := strings.CutPrefix(line, "streams.blocked"); found {
					of = append(of, name)
				}
			}
			return of
		}
		assert.Equal(t, []string{"{consumer=payout,partition=1,topic=claims} is 0"}, gauges())
		e.setMeta("4", "1", nil)
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"{consumer=payout,partition=2,topic=claims} is 0", "{consumer=payout,partition=3,topic=claims} is 0"}, gauges())
	})
}

func TestConsumersOfTwoKeyPrefixesHaveTheirOwnSeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		telemetry := testkit.Record()
		for prefix, failure := range map[string]error{"a:": testkit.ErrBoom, "b:": nil} {
			e := newEnv(t, 1)
			e.options.MeterProvider, e.options.KeyPrefix = telemetry.Meters, prefix
			e.publish(0, "x")
			e.run(&recorder{fail: func([]claimMessage) error { return failure }})
		}
		testkit.Pass(10 * time.Second)
		lines := telemetry.Metrics(t)
		assert.Contains(t, lines, "streams.blocked{consumer=payout,key_prefix=a:,partition=0,topic=claims} is 1")
		assert.Contains(t, lines, "streams.blocked{consumer=payout,key_prefix=b:,partition=0,topic=claims} is 0")
		assert.Contains(t, lines, "streams.stream.length{key_prefix=a:,partition=0,topic=claims} is 1")
	})
}

// Package internal/telemetry has a test for each method that may panic.
func TestAPanicOfTelemetryStopsNoPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		e.options.MeterProvider, e.options.TracerProvider = panickingMeters{}, panickingTracers{}
		e.options.OnError, e.options.OnMalformed = redisstream.ErrorSkip, redisstream.MalformedSkip
		e.publish(0, "a")
		e.run(&recorder{fail: failBad})
		e.publish(0, "bad", "b")
		e.source.AddMalformed(0)
		testkit.Pass(10 * time.Second)
		assert.Equal(t, "4-0", e.position(0))
		assert.Equal(t, 1, e.log.Count("telemetry panicked"))
	})
}

type panickingMeters struct{ metricnoop.MeterProvider }

func (panickingMeters) Meter(string, ...metric.MeterOption) metric.Meter { return panickingMeter{} }

type panickingMeter struct{ metricnoop.Meter }

func (panickingMeter) Int64Counter(string, ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	return panickingCounter{}, nil
}

type panickingCounter struct{ metricnoop.Int64Counter }

func (panickingCounter) Add(context.Context, int64, ...metric.AddOption) { panic("counter") }

type panickingTracers struct{ tracenoop.TracerProvider }

func (panickingTracers) Tracer(string, ...trace.TracerOption) trace.Tracer { return panickingTracer{} }

type panickingTracer struct{ tracenoop.Tracer }

func (panickingTracer) Start(context.Context, string, ...trace.SpanStartOption) (context.Context, trace.Span) {
	panic("tracer")
}

// loopMetrics are the measurements of the loop, without the reads and the age of entries, which the source in memory dates
// to 1970.
func loopMetrics(t *testing.T, telemetry *testkit.Telemetry) []string {
	t.Helper()
	return slices.DeleteFunc(telemetry.Metrics(t), func(line string) bool {
		return strings.HasPrefix(line, "streams.reads") || strings.HasPrefix(line, "streams.lag.ms") || strings.HasPrefix(line, "restate.")
	})
}

const (
	ofPartition = "{consumer=payout,partition=0,topic=claims}"
	ofConsumer  = "{consumer=payout,topic=claims}"
	ofStream    = "{partition=0,topic=claims}"
)

// quiet adds the gauges of a partition that nothing holds, and that has no lag.
func quiet(lines ...string) []string {
	lines = append(lines, "streams.block.duration_ms"+ofPartition+" is 0", "streams.blocked"+ofPartition+" is 0",
		"streams.lag.entries"+ofPartition+" is 0", "streams.partitions.stopped"+ofConsumer+" is 0")
	slices.Sort(lines)
	return lines
}

// silent is a source whose reads are never answered.
type silent struct{ *streamtest.Source }

func (silent) Read(ctx context.Context, _ int, _ stream.ReadRequest) (stream.ReadResult, error) {
	<-ctx.Done()
	return stream.ReadResult{}, ctx.Err()
}

func isRead(line string) bool { return strings.HasPrefix(line, "streams.reads") }

func TestUnrecordedTelemetryAllocatesNothing(t *testing.T) { // alone: it counts allocations
	for name, options := range map[string]redisstream.Options{
		"no-op":   {TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider()},
		"not set": {},
	} {
		e := newEnv(t, 1)
		options.Consumer = "payout"
		e.options = options
		e.connect(&recorder{})
		report := e.consumer.Reporting(t.Context())
		report()
		assert.Zero(t, testing.AllocsPerRun(100, report), name)
	}
}
