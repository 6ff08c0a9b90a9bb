package main

import (
	"net/http"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

// An outage of Restate as Prometheus sees it: first a 503 for every start, then nobody who listens. The rules are those of
// alerts.yml, unchanged, and the series those that the service really had.
func TestAnOutageIsSeenAndIsOver(t *testing.T) {
	t.Parallel()
	rig := newRig(t)
	seen := newHistory(rig)
	held := func() string { return seen.last(t, "streams_blocked_status", "partition", "0") }
	count := 0
	times := func(n int, is func() bool) func() bool {
		return func() bool {
			if is() {
				count++
			} else {
				count = 0
			}
			return count == n
		}
	}

	quiet := seen.until(t, "a start", 20, times(5, func() bool {
		return held() == "0" && seen.last(t, "restate_start_accepted_total", "restate_start_duplicate", "true") != ""
	}))

	rig.ingress.ScriptAll(restatetest.Status(http.StatusServiceUnavailable).Always())
	seen.until(t, "the hold", 20, times(3, func() bool { return held() == "1" }))
	code, status := rig.get(t, "/readyz")
	assert.Equal(t, http.StatusOK, code, "blocked is not dead")
	for _, fact := range []string{`"cause"`, `"since"`, `"BonusPayout"`, `"reason"`, `"server"`, `"c-`} {
		assert.Contains(t, status, fact)
	}
	rig.ingress.Down()
	looks := 3 // at a hold, so far; over five minutes of rule time take eleven
	count = 0
	trimming := times(5, func() bool { return seen.last(t, "streams_trim_in_seconds", "partition", "0") != "" })
	outage := seen.until(t, "a hold of over 5 minutes with trimming ahead", 40, func() bool {
		require.Equal(t, "1", held())
		looks++
		trimming()
		return count >= 5 && looks > 12
	})

	rig.ingress.ScriptAll()
	rig.ingress.Up()
	count = 0
	over := seen.until(t, "the recovery", 20, times(4, func() bool {
		age, err := strconv.ParseFloat(seen.last(t, "streams_lag_ms_milliseconds", "partition", "0"), 64)
		return held() == "0" && err == nil && age < 5000 // the outage's messages are done
	}))

	t.Run("every name of the dashboard and the alerts exists", func(t *testing.T) {
		t.Parallel()
		checkNames(t, seen.names())
	})
	t.Run("the alerts fired in the outage, no others, and were over after it", func(t *testing.T) {
		t.Parallel()
		rules, err := filepath.Abs("alerts.yml")
		require.NoError(t, err)
		firing := `count by (alertname, partition) (ALERTS{alertstate="firing"})`
		promtool(t, "test", "rules", writeTemporary(t, "outage_test.yml", seen.unitTest(rules, []expectation{
			{at: quiet, expr: firing},
			{at: outage, expr: firing, series: []string{
				`{alertname="RestatestartPartitionBlocked", partition="0"}`, `{alertname="RestatestartTrimmingNear", partition="0"}`,
			}},
			{at: over, expr: firing},
			{at: over, expr: `group by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))`, series: []string{
				`{alertname="RestatestartPartitionBlocked"}`, `{alertname="RestatestartTrimmingNear"}`,
			}},
		})))
	})
	t.Logf("%d scrapes, quiet until %s, held until %s, over by %s of rule time", seen.scrapes, quiet, outage, over)
}
