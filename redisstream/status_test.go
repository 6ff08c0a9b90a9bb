package redisstream_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/restatetest"
)

func TestC11StatusIsEncodedAsJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 2)
		e.options.KeyPrefix = "dev:re:"
		fake := restatetest.New(t)
		fake.Script("k2", restatetest.Status(503, "no leader").Always())
		e.publish(0, "k1", "k2")
		e.run(testkit.NewStarter(t, fake, nil, restatestart.Options{MaxAttempts: 2}))
		testkit.Pass(500 * time.Millisecond)
		encoded, err := json.Marshal(e.consumer.Status())
		require.NoError(t, err)
		assert.JSONEq(t, `{
			"topic": "claims", "consumer": "payout", "keyPrefix": "dev:re:", "state": "running", "connections": 3,
			"partitions": [
				{"partition": 0, "stream": "dev:re:s:{claims}:0", "state": "blocked", "position": "0-0", "started": true, "lag": 2, "length": 2, "oldest": "`+time.UnixMilli(1).Format(time.RFC3339Nano)+`",
				 "processed": 0, "delivered": 0, "skipped": 0, "parked": 0, "gaps": 0,
				 "blocked": {"since": "2000-01-01T00:00:00.2Z", "attempts": 1, "next": "2000-01-01T00:00:01.2Z", "cause": "starts",
				  "error": "1 of 2 starts not accepted; start Payout/k2 (entry 2-0): server after 2 attempts: 503: no leader",
				  "failed": [{"entryId": "2-0", "stream": "dev:re:s:{claims}:0", "workflow": "Payout", "key": "k2", "reason": "server", "status": 503, "attempts": 2,
				   "since": "2000-01-01T00:00:00Z", "error": "503: no leader"}]}},
				{"partition": 1, "stream": "dev:re:s:{claims}:1", "state": "idle", "position": "0-0", "started": true, "lag": 0, "length": 0, "missing": true, "processed": 0, "delivered": 0, "skipped": 0, "parked": 0, "gaps": 0}
			]}`, string(encoded))
	})
}

// A reader that is slower than its handler has no batch waiting, although it is behind.
func TestC11APartitionIsNotIdleWhileThereIsMoreToRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		e.options.BatchSize = 10
		e.backend.Source = slow{Source: e.source, read: 20 * time.Millisecond}
		e.publish(0, make([]string, 1000)...)
		e.run(&recorder{})
		for e.partition(0).Processed == 0 {
			testkit.Pass(10 * time.Millisecond)
		}
		for e.partition(0).Processed < 990 {
			assert.Equal(t, redisstream.StateRunning, e.partition(0).State)
			assert.NotContains(t, telemetry.Metrics(t), "streams.lag.ms"+ofPartition+" is 0")
			testkit.Pass(110 * time.Millisecond)
		}
		testkit.Pass(3 * time.Second)
		assert.Equal(t, redisstream.StateIdle, e.partition(0).State)
	})
}

// The lag must be known although the position never stands still while Redis describes the stream.
func TestC11TheLagOfABusyPartitionGrowsWithTheStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		e.options.BatchSize = 10
		e.backend.Source = slow{Source: e.source, tail: 50 * time.Millisecond}
		e.publish(0, "first")
		e.run(&recorder{fail: func([]claimMessage) error { time.Sleep(10 * time.Millisecond); return nil }})
		testkit.Pass(11 * time.Second)
		require.Equal(t, int64(0), *e.partition(0).Lag)
		for range 20 {
			e.publish(0, make([]string, 2000)...) // 1000 are processed in a second
			testkit.Pass(time.Second)
		}
		partition := e.partition(0)
		require.NotNil(t, partition.Lag)
		assert.InDelta(t, 40001-partition.Processed, *partition.Lag, 10001, "as old as the last sample at most")
		assert.Greater(t, *partition.Lag, int64(9000))
	})
}

// slow is a source whose calls take time.
type slow struct {
	*streamtest.Source
	read, tail time.Duration
}

func (s slow) Read(ctx context.Context, partition int, ask stream.ReadRequest) (stream.ReadResult, error) {
	time.Sleep(s.read)
	return s.Source.Read(ctx, partition, ask)
}

func (s slow) Tail(ctx context.Context, partition int) (stream.Tail, error) {
	tail, err := s.Source.Tail(ctx, partition)
	time.Sleep(s.tail)
	return tail, err
}

// An id is a time only where its producer's clock counts milliseconds.
func TestC11AnIDBeyondTheCalendarFailsNoProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		e.source.AddEntry(0, wire.Entry{ID: wire.ID{Ms: 1726000000000000}, Body: "{}", HasBody: true})
		e.run(&recorder{fail: boom})
		testkit.Pass(10 * time.Second)
		_, err := json.Marshal(e.consumer.Status())
		require.NoError(t, err)
		assert.Equal(t, "alive, ready", healthOf(t, e.consumer))
		assert.Contains(t, telemetry.Metrics(t), "streams.lag.ms"+ofPartition+" is 0")
	})
}
