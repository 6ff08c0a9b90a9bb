package restatestart_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/restatetest"
)

// loop are the measurements of the loop but for those that every test has alike: reads, and what depends on the age of
// entries, which the source in memory dates to 1970.
func (r *telemetry) loop(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(r.metrics(t), func(line string) bool {
		return strings.HasPrefix(line, "streams.reads") || strings.HasPrefix(line, "streams.lag.ms") || strings.HasPrefix(line, "restate.")
	})
}

const (
	ofPartition = "{consumer=payout,partition=0,topic=claims}"
	ofConsumer  = "{consumer=payout,topic=claims}"
	ofStream    = "{partition=0,topic=claims}"
)

// quiet are the gauges of a partition that nothing holds, and of which everything is done.
func quiet(lines ...string) []string {
	lines = append(lines, "streams.block.duration_ms"+ofPartition+" is 0", "streams.blocked"+ofPartition+" is 0",
		"streams.lag.entries"+ofPartition+" is 0", "streams.partitions.stopped"+ofConsumer+" is 0")
	slices.Sort(lines)
	return lines
}

// recordedWorld is a world whose consumer reports.
func recordedWorld(t *testing.T, partitions int) (*world, *telemetry) {
	t.Helper()
	w, telemetry := newWorld(t, partitions), record()
	w.options.TracerProvider, w.options.MeterProvider = telemetry.tracer, telemetry.meters
	return w, telemetry
}

func TestBatchesAreCountedAndMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		w.options.BatchSize = 2
		w.publish(0, "a", "b", "", "c", "d")
		w.run(&recorder{fail: func(batch []restatestart.Message[claim]) error {
			time.Sleep(time.Duration(len(batch)) * 100 * time.Millisecond)
			return nil
		}})
		pass(6 * time.Second)
		assert.Equal(t, quiet(
			"streams.batch.duration"+ofConsumer+" 3 in 500.0",
			"streams.batch.size"+ofConsumer+" 3 in 5",
			"streams.consumed"+ofPartition+" total 5",
			"streams.stream.length"+ofStream+" is 5",
		), telemetry.loop(t))
		require.NoError(t, w.stop())
	})
}

// B35: an operator can tell idle from stuck, and nothing reads 0 while it is not known.
func TestGaugesSayNothingBeforeTheFirstReadAndAfterTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		w.setMeta("", "", errBoom)
		w.run(&recorder{})
		pass(time.Second)
		assert.Empty(t, telemetry.allMetrics(t), "nothing is known before Redis was reached")
		w.setMeta("1", "1", nil)
		pass(10 * time.Second)
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
		}, slices.DeleteFunc(telemetry.allMetrics(t), isRead))
		before := slices.IndexFunc(telemetry.allMetrics(t), isRead)
		require.GreaterOrEqual(t, before, 0)
		beat := telemetry.allMetrics(t)[before]
		pass(3 * time.Second)
		assert.NotEqual(t, beat, telemetry.allMetrics(t)[before], "the heartbeat goes on while nothing comes")
		require.NoError(t, w.stop())
		assert.Empty(t, slices.DeleteFunc(telemetry.metrics(t), isRead), "gauges end with the run")
	})
}

// silent is a source whose reads are not answered.
type silent struct{ *streamtest.Source }

func (silent) Read(ctx context.Context, _ int, _ stream.Ask) (stream.Answer, error) {
	<-ctx.Done()
	return stream.Answer{}, ctx.Err()
}

func TestAPartitionThatWasNotReadYetHasNoGauges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		w.reads = silent{w.source}
		w.run(&recorder{})
		pass(time.Second)
		require.Equal(t, restatestart.StateStarting, w.partition(0).State)
		for _, line := range telemetry.allMetrics(t) {
			assert.NotRegexp(t, "^streams.(block|lag.ms)", line)
		}
		require.NoError(t, w.stop())
	})
}

func isRead(line string) bool { return strings.HasPrefix(line, "streams.reads") }

func TestC2AHeldPartitionShowsAndGoesBackToZero(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		fake := restatetest.New(t)
		fake.Script("bad", restatetest.Status(404).For(5*time.Second))
		w.publish(0, "a", "bad", "c")
		w.run(starterOn(t, fake, nil, restatestart.Options{MeterProvider: telemetry.meters}))
		pass(4 * time.Second) // tries at 0, 1 and 3 s
		assert.Equal(t, []string{
			"streams.batch.duration" + ofConsumer + " 3 in 0.0",
			"streams.batch.size" + ofConsumer + " 3 in 5",
			"streams.block.duration_ms" + ofPartition + " is 4000",
			"streams.blocked" + ofPartition + " is 1",
			"streams.errors{consumer=payout,exception.type=BlockedError,policy=block,topic=claims} total 3",
			"streams.partitions.stopped" + ofConsumer + " is 0",
			"streams.stream.length" + ofStream + " is 3",
		}, slices.DeleteFunc(telemetry.loop(t), func(line string) bool { return strings.HasPrefix(line, "streams.lag.entries") }))
		pass(6 * time.Second)
		assert.Equal(t, quiet(
			"streams.batch.duration"+ofConsumer+" 4 in 0.0",
			"streams.batch.size"+ofConsumer+" 4 in 6",
			"streams.consumed"+ofPartition+" total 3",
			"streams.errors{consumer=payout,exception.type=BlockedError,policy=block,topic=claims} total 3",
			"streams.stream.length"+ofStream+" is 3",
		), telemetry.loop(t))
		assert.Contains(t, telemetry.metrics(t), "restate.start.blocked{} total 3")
		require.NoError(t, w.stop())
	})
}

func TestC7ARedisOutageShowsAndWhatIsNotKnownIsAbsent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		w.publish(0, "a")
		w.run(&recorder{})
		pass(6 * time.Second)
		w.source.Fail(0, errBoom)
		pass(10 * time.Second)
		outage := []string{
			"streams.batch.duration" + ofConsumer + " 1 in 0.0",
			"streams.batch.size" + ofConsumer + " 1 in 1",
			"streams.block.duration_ms" + ofPartition + " is 10000",
			"streams.blocked" + ofPartition + " is 1",
			"streams.consumed" + ofPartition + " total 1",
			"streams.errors{consumer=payout,exception.type=RedisError,policy=transport,topic=claims} total 1",
			"streams.partitions.stopped" + ofConsumer + " is 0",
		}
		assert.Equal(t, outage, slices.DeleteFunc(telemetry.metrics(t), isRead), "neither lag nor length, in entries or in time")
		w.source.Fail(0, nil)
		pass(30 * time.Second)
		assert.Equal(t, quiet(
			"streams.batch.duration"+ofConsumer+" 1 in 0.0",
			"streams.batch.size"+ofConsumer+" 1 in 1",
			"streams.consumed"+ofPartition+" total 1",
			"streams.errors{consumer=payout,exception.type=RedisError,policy=transport,topic=claims} total 1",
			"streams.stream.length"+ofStream+" is 1",
		), telemetry.loop(t))
		require.NoError(t, w.stop())
	})
}

func TestC4C5WhatEachPolicyReports(t *testing.T) {
	t.Parallel()
	failing := func([]restatestart.Message[claim]) error { return errBoom }
	panicking := func([]restatestart.Message[claim]) error { panic("handler") }
	for name, row := range map[string]struct {
		options   restatestart.ConsumerOptions
		handle    func([]restatestart.Message[claim]) error
		malformed bool
		want      []string
	}{
		"skip": {
			options: restatestart.ConsumerOptions{OnError: restatestart.ErrorSkip}, handle: failing,
			want: quiet(
				"streams.batch.duration"+ofConsumer+" 1 in 0.0", "streams.batch.size"+ofConsumer+" 1 in 2",
				"streams.errors{consumer=payout,exception.type=Error,policy=best_effort,topic=claims} total 1",
				"streams.lost{cause=handler,consumer=payout,partition=0,topic=claims} total 2",
				"streams.stream.length"+ofStream+" is 2",
			),
		},
		"stop": {
			options: restatestart.ConsumerOptions{OnError: restatestart.ErrorStop}, handle: panicking,
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
			options: restatestart.ConsumerOptions{OnError: restatestart.ErrorFail}, handle: failing,
			want: []string{
				"streams.batch.duration" + ofConsumer + " 1 in 0.0", "streams.batch.size" + ofConsumer + " 1 in 2",
				"streams.errors{consumer=payout,exception.type=Error,policy=fail,topic=claims} total 1",
			},
		},
		"malformed, skipped": {
			options: restatestart.ConsumerOptions{OnMalformed: restatestart.MalformedSkip}, malformed: true,
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
				w, telemetry := recordedWorld(t, 1)
				w.options.OnError, w.options.OnMalformed = row.options.OnError, row.options.OnMalformed
				w.publish(0, "a", "b")
				if row.malformed {
					w.source.AddMalformed(0)
				}
				w.run(&recorder{fail: row.handle})
				pass(6500 * time.Millisecond)
				assert.Equal(t, row.want, telemetry.loop(t))
				_ = w.stop()
			})
		})
	}
}

func TestPositionsThatCannotBeWrittenAreCounted(t *testing.T) {
	t.Parallel()
	server, client := redisWorld(t, &redis.Options{})
	telemetry := record()
	require.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: "s:{claims}:0", Values: []string{"b", "{}"}}).Err())
	ctx, cancel := context.WithCancel(t.Context())
	consumer, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim],
		restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error {
			server.Del("p:{claims}:payout:meta")
			err := server.Set("p:{claims}:payout:meta", "not a hash")
			cancel()
			return err
		}), restatestart.ConsumerOptions{Consumer: "payout", MeterProvider: telemetry.meters, Block: 10 * time.Millisecond, PersistInterval: time.Hour})
	require.NoError(t, err)
	require.NoError(t, consumer.Run(ctx))
	assert.Contains(t, telemetry.metrics(t), "streams.positions.flush_failures"+ofConsumer+" total 1")
}

func TestC8WhatIsOfNoWantedTypeIsCountedAsFiltered(t *testing.T) {
	t.Parallel()
	_, client := redisWorld(t, &redis.Options{})
	telemetry := record()
	for _, name := range []string{"Other", "ClaimMade", "Other", "Other"} {
		require.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: "s:{claims}:0", Values: []string{"b", `{"key":"a"}`, "t", name}}).Err())
	}
	consume(t, client, 1, restatestart.ConsumerOptions{MeterProvider: telemetry.meters, Types: []string{"ClaimMade"}})
	lines := telemetry.metrics(t)
	assert.Contains(t, lines, "streams.filtered"+ofConsumer+" total 3")
	assert.Contains(t, lines, "streams.consumed"+ofPartition+" total 1")
	assert.Contains(t, lines, "streams.batch.size"+ofConsumer+" 1 in 1")
}

// When the topic grows, the parts shift: what is another instance's by now is not this one's to report.
func TestGaugesOfAPartitionEndWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 2)
		one := 1
		w.options.InstanceCount, w.options.InstanceIndex = 2, &one
		w.run(&recorder{})
		pass(time.Second)
		gauges := func() (of []string) {
			for _, line := range telemetry.metrics(t) {
				if name, found := strings.CutPrefix(line, "streams.blocked"); found {
					of = append(of, name)
				}
			}
			return of
		}
		assert.Equal(t, []string{"{consumer=payout,partition=1,topic=claims} is 0"}, gauges())
		w.setMeta("4", "1", nil)
		pass(10 * time.Second)
		assert.Equal(t, []string{"{consumer=payout,partition=2,topic=claims} is 0", "{consumer=payout,partition=3,topic=claims} is 0"}, gauges())
		require.NoError(t, w.stop())
	})
}

func TestAMeterThatPanicsStopsNoPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.options.MeterProvider, w.options.TracerProvider = panickingMeter{}, panickingTracer{}
		handler := &recorder{fail: func(batch []restatestart.Message[claim]) error {
			if batch[0].Value.Key == "bad" {
				return errors.New("no")
			}
			return nil
		}}
		w.options.OnError, w.options.OnMalformed = restatestart.ErrorSkip, restatestart.MalformedSkip
		w.publish(0, "a")
		w.run(handler)
		w.publish(0, "bad", "b")
		w.source.AddMalformed(0)
		pass(10 * time.Second)
		assert.Equal(t, "4-0", w.position(0))
		require.NoError(t, w.stop())
	})
}
