package restatestart_test

import (
	"bufio"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

// logLines are the lines that were logged of the events named, as level, message and attributes.
func (w *world) logLines(t *testing.T, events ...string) []map[string]any {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var lines []map[string]any
	for scanner := bufio.NewScanner(strings.NewReader(w.log.String())); scanner.Scan(); {
		var line map[string]any
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &line))
		if slices.Contains(events, line["msg"].(string)) {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestC2ABlockedPartitionIsLoggedOnceAndThenEvery30Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4)
		w.json = true
		fake := restatetest.New(t)
		fake.Script("c-17", restatetest.Status(404, "service 'Payout' not found").For(100*time.Second))
		fake.Script("c-18", restatetest.Status(503).For(100*time.Second))
		w.publish(3, "c-16", "c-17", "c-18")
		w.run(starterOn(t, fake, nil, restatestart.Options{MaxAttempts: 1}))
		pass(3 * time.Minute)
		require.NoError(t, w.stop())
		blocked := w.logLines(t, "blocked")
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
		recovered := w.logLines(t, "recovered")
		require.Len(t, recovered, 1)
		assert.Equal(t, map[string]any{
			"time": "2000-01-01T00:02:01Z", "level": "INFO", "msg": "recovered", "topic": "claims", "consumer": "payout", "partition": 3.0,
			"attempts": 8.0, "elapsed": 121e9,
		}, recovered[0])
	})
}

// Each event names whose it is: the topic, the consumer, and the partition or partitions.
func TestEveryEventNamesItsTopicConsumerAndPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.json = true
		w.options.OnMalformed = restatestart.MalformedSkip
		w.options.OnError = restatestart.ErrorSkip
		w.setMeta("1", "1", errBoom)
		w.run(&recorder{fail: func(batch []restatestart.Message[claim]) error {
			if batch[0].Value.Key == "bad" {
				return errBoom
			}
			return nil
		}})
		pass(time.Second)
		w.setMeta("1", "1", nil)
		pass(10 * time.Second)
		w.source.AddMalformed(0)
		w.publish(0, "a")
		pass(time.Second)
		w.publish(0, "bad")
		pass(time.Second)
		w.source.Fail(0, errBoom)
		pass(time.Second)
		w.source.Fail(0, nil)
		pass(time.Minute)
		w.store.RequestReset(0, "1-0|")
		pass(5 * time.Second)
		require.NoError(t, w.stop())

		levels := map[string]string{}
		for _, line := range w.logLines(t, eventsInREADME(t)...) {
			message, of := line["msg"].(string), slices.Sorted(maps.Keys(line))
			levels[message] = line["level"].(string)
			assert.Contains(t, of, "topic", message)
			assert.Contains(t, of, "consumer", message)
			if message != "redis unavailable at start" { // it is not known yet which there are
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
