package redisstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/restatetest"
)

func TestC2ABlockedPartitionIsLoggedOnceAndThenEvery30Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 4)
		e.options.Logger = slog.New(slog.NewJSONHandler(&e.log, nil))
		fake := restatetest.New(t)
		fake.Script("c-17", restatetest.Status(404, "service 'Payout' not found").For(100*time.Second))
		fake.Script("c-18", restatetest.Status(503).For(100*time.Second))
		e.publish(3, "c-16", "c-17", "c-18")
		e.run(once(t, fake))
		testkit.Pass(3 * time.Minute)
		require.NoError(t, e.stop())
		blocked := e.logLines(t, "blocked")
		at := make([]string, len(blocked))
		for i, line := range blocked {
			at[i] = line["time"].(string)[14:19]
		}
		assert.Equal(t, []string{"00:00", "00:31", "01:01", "01:31"}, at)
		assert.Equal(t, map[string]any{
			"time": "2000-01-01T00:00:31Z", "level": "ERROR", "msg": "blocked", "topic": "claims", "consumer": "payout", "partition": 3.0,
			"attempts": 6.0, "elapsed": 31e9, "next": 30e9, "position": "0-0", "cause": "starts",
			"entry": "2-0", "workflow": "Payout", "key": "c-17", "reason": "not_found", "status": 404.0, "failed": 2.0,
			"error": "2 of 2 starts not accepted; start Payout/c-17 (entry 2-0): not_found after 1 attempt: 404: service 'Payout' not found; start Payout/c-18 (entry 3-0): server after 1 attempt: 503: Service Unavailable",
		}, blocked[1])
		recovered := e.logLines(t, "recovered")
		require.Len(t, recovered, 1)
		assert.Equal(t, map[string]any{
			"time": "2000-01-01T00:02:01Z", "level": "INFO", "msg": "recovered", "topic": "claims", "consumer": "payout", "partition": 3.0,
			"attempts": 8.0, "elapsed": 121e9,
		}, recovered[0])
	})
}

func TestEveryEventNamesItsTopicConsumerAndPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		e.options.Logger = slog.New(slog.NewJSONHandler(&e.log, nil))
		e.options.OnMalformed = redisstream.MalformedSkip
		e.options.OnError = redisstream.ErrorSkip
		e.setMeta("1", "1", testkit.ErrBoom)
		e.run(&recorder{fail: failBad})
		testkit.Pass(time.Second)
		e.setMeta("1", "1", nil)
		testkit.Pass(10 * time.Second)
		e.source.AddMalformed(0)
		e.publish(0, "a")
		testkit.Pass(time.Second)
		e.publish(0, "bad")
		testkit.Pass(time.Second)
		e.source.Fail(0, testkit.ErrBoom)
		testkit.Pass(time.Second)
		e.source.Fail(0, nil)
		testkit.Pass(time.Minute)
		e.positions.RequestReset(0, "1-0|")
		testkit.Pass(5 * time.Second)
		require.NoError(t, e.stop())

		levels := map[string]string{}
		for _, line := range e.logLines(t) {
			message, of := line["msg"].(string), slices.Sorted(maps.Keys(line))
			levels[message] = line["level"].(string)
			assert.Contains(t, of, "topic", message)
			assert.Contains(t, of, "consumer", message)
			if message != "redis unavailable at start" { // the partitions are not known yet
				assert.True(t, slices.Contains(of, "partition") || slices.Contains(of, "partitions"), message)
			}
		}
		assert.Equal(t, map[string]string{
			"redis unavailable at start": "ERROR", "consuming": "INFO", "no stored position, starting from the beginning": "INFO", "stream does not exist yet": "WARN",
			"malformed entry skipped": "ERROR", "batch skipped": "ERROR", "redis read failing": "ERROR", "redis read recovered": "INFO",
			"position reset requested": "INFO", "position reset": "INFO", "drained": "INFO",
		}, levels)
	})
}

// logLines returns the lines of these events, or of all, from a log in JSON.
func (e *env) logLines(t *testing.T, events ...string) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for scanner := bufio.NewScanner(strings.NewReader(e.log.String())); scanner.Scan(); {
		var line map[string]any
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &line))
		if len(events) == 0 || slices.Contains(events, line["msg"].(string)) {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestTheFirstLogLineNamesWhatIsRead(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	add(t, server, "*", "b", "{}")
	e := newEnv(t, 1)
	consume(t, client, 1, redisstream.Options{Logger: e.options.Logger, Partitions: 2})
	assert.Equal(t, 1, e.log.Count(`msg=consuming topic=claims consumer=payout key_prefix="" partitions=2 owned="[0 1]" instance_index=0 instance_count=1 start_from=stored connections=3`))
	assert.Equal(t, 2, e.log.Count("no stored position, starting from the beginning"))
}

func TestAPanicOfALogHandlerEndsNeitherLoopNorStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEnv(t, 1), restatetest.New(t)
		fake.Script("a", restatetest.Status(503).Times(3))
		e.options.Logger = slog.New(panicking{})
		e.publish(0, "a")
		e.run(testkit.NewStarter(t, fake, nil, restatestart.Options{MaxAttempts: 2, Logger: e.options.Logger}))
		testkit.Pass(time.Minute)
		assert.Equal(t, "1-0", e.position(0))
		require.NoError(t, e.stop())
		fake.ExpectStarted(t, "Payout", "a")
	})
}

// panicking is a log handler whose every method panics.
type panicking struct{}

func (panicking) Enabled(context.Context, slog.Level) bool { return true }

func (panicking) Handle(context.Context, slog.Record) error { panic("log") }

func (panicking) WithAttrs([]slog.Attr) slog.Handler { return panicking{} }

func (panicking) WithGroup(string) slog.Handler { panic("group") }

func TestALogHandlerMayCallStatus(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 2)
		one := 1
		e.options.InstanceCount, e.options.InstanceIndex = 2, &one
		handler := curious{&atomic.Pointer[redisstream.Consumer[testkit.Claim]]{}}
		e.options.Logger = slog.New(handler)
		e.publish(1, "a", "b")
		e.run(&recorder{})
		handler.consumer.Store(e.consumer)
		testkit.Pass(2 * time.Second)
		e.positions.RequestReset(1, "1-0|")
		testkit.Pass(5 * time.Second)
		e.setMeta("4", "1", nil) // which revokes a partition
		testkit.Pass(10 * time.Second)
		assert.Len(t, e.consumer.Status().Partitions, 2)
	})
}

// curious is a log handler that calls Status for every line.
type curious struct {
	consumer *atomic.Pointer[redisstream.Consumer[testkit.Claim]]
}

func (curious) Enabled(context.Context, slog.Level) bool { return true }

func (c curious) Handle(context.Context, slog.Record) error {
	if consumer := c.consumer.Load(); consumer != nil {
		consumer.Status()
	}
	return nil
}

func (c curious) WithAttrs([]slog.Attr) slog.Handler { return c }

func (c curious) WithGroup(string) slog.Handler { return c }
