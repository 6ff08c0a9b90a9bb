package restatestart_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

func TestC11StatusIsJSON(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.options.KeyPrefix = "dev:re:"
		fake := restatetest.New(t)
		fake.Script("k2", restatetest.Status(503, "no leader").Always())
		w.publish(0, "k1", "k2")
		w.run(starterOn(t, fake, nil, restatestart.Options{MaxAttempts: 2}))
		pass(500 * time.Millisecond)
		encoded, err := json.Marshal(w.consumer.Status())
		require.NoError(t, err)
		assert.JSONEq(t, `{
			"topic": "claims", "consumer": "payout", "keyPrefix": "dev:re:", "state": "running", "connections": 3,
			"partitions": [
				{"partition": 0, "stream": "dev:re:s:{claims}:0", "state": "blocked", "position": "0-0", "started": true, "lag": 2, "length": 2, "oldest": "`+time.UnixMilli(1).Format(time.RFC3339Nano)+`",
				 "passed": 0, "handed": 0, "skipped": 0, "parked": 0, "gaps": 0,
				 "blocked": {"since": "2000-01-01T00:00:00.2Z", "attempts": 1, "next": "2000-01-01T00:00:01.2Z", "cause": "starts",
				  "error": "1 of 2 starts not accepted; start Payout/k2 (entry 2-0): server after 2 attempts: 503: no leader",
				  "failed": [{"entryId": "2-0", "stream": "dev:re:s:{claims}:0", "workflow": "Payout", "key": "k2", "reason": "server", "status": 503, "attempts": 2,
				   "since": "2000-01-01T00:00:00Z", "error": "503: no leader"}]}},
				{"partition": 1, "stream": "dev:re:s:{claims}:1", "state": "idle", "position": "0-0", "started": true, "lag": 0, "length": 0, "missing": true, "passed": 0, "handed": 0, "skipped": 0, "parked": 0, "gaps": 0}
			]}`, string(encoded))
		require.NoError(t, w.stop())
	})
}
