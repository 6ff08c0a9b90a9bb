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

// An outage of Restate as Prometheus sees it, with the rules of alerts.yml and the series of the real service: first every start
// gets a 503, then connections are refused.
func TestAnOutageFiresItsAlertsAndResolvesThem(t *testing.T) {
	t.Parallel()
	harness := newHarness(t)
	scraped := &history{service: harness, series: map[string]*series{}}
	held := func() string { return scraped.last(t, "streams_blocked_status", "partition", "0") }

	quiet := scraped.until(t, "a start", 20, 5, func() bool {
		return held() == "0" && scraped.last(t, "restate_start_accepted_total", "restate_start_duplicate", "true") != ""
	})

	harness.ingress.ScriptAll(restatetest.Status(http.StatusServiceUnavailable).Always())
	scraped.until(t, "the hold", 20, 3, func() bool { return held() == "1" })
	code, status := harness.get(t, "/readyz")
	assert.Equal(t, http.StatusOK, code, "blocked is not dead")
	for _, fact := range []string{`"cause"`, `"since"`, `"BonusPayout"`, `"reason"`, `"server"`, `"c-`} {
		assert.Contains(t, status, fact)
	}

	harness.ingress.Down()
	fiveMinutes := scraped.scrapes + 10 // PartitionBlocked needs eleven samples of a hold, and has three
	outage := scraped.until(t, "a hold of over 5 minutes with trimming close", 40, 5, func() bool {
		require.Equal(t, "1", held())
		return scraped.last(t, "streams_trim_in_seconds", "partition", "0") != "" && scraped.scrapes > fiveMinutes-5
	})

	harness.ingress.ScriptAll()
	harness.ingress.Up()
	over := scraped.until(t, "the recovery", 20, 4, func() bool {
		age, err := strconv.ParseFloat(scraped.last(t, "streams_lag_ms_milliseconds", "partition", "0"), 64)
		return held() == "0" && err == nil && age < 5000 // the messages of the outage are processed
	})

	t.Run("every name in the dashboard and the alerts exists", func(t *testing.T) {
		t.Parallel()
		checkNames(t, scraped.byMetric())
	})
	t.Run("only the outage's alerts fired, and resolved after it", func(t *testing.T) {
		t.Parallel()
		rules, err := filepath.Abs("alerts.yml")
		require.NoError(t, err)
		firing := `count by (alertname, partition) (ALERTS{alertstate="firing"})`
		promtool(t, "test", "rules", writeTemporary(t, "outage_test.yml", scraped.unitTest(rules, []expectation{
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
	t.Logf("%d scrapes, quiet until %s, held until %s, over by %s of rule time", scraped.scrapes, quiet, outage, over)
}
