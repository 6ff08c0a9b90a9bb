package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// ruleTime is how much time a scrape stands for when the rules are evaluated, against one second in the test. A hold that
// takes over five minutes of it is over in some ten seconds.
const ruleTime = 30 * time.Second

// history is what was scraped, one value a scrape for each series, as text; empty where the series was absent.
type history struct {
	rig     *rig
	scrapes int
	series  map[string][]string // by name and labels, those of the target included
	labels  map[string]labels.Labels
}

func newHistory(rig *rig) *history {
	return &history{rig: rig, series: map[string][]string{}, labels: map[string]labels.Labels{}}
}

// until scrapes once a second, which is the pace that the series are wanted at, until done. It fails the test after limit
// scrapes, and returns when the last was, in rule time.
func (h *history) until(t *testing.T, what string, limit int, done func() bool) time.Duration {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range limit {
		<-tick.C
		h.scrape(t)
		if done() {
			return time.Duration(h.scrapes-1) * ruleTime
		}
	}
	require.FailNow(t, what+" did not happen", "in %d scrapes", limit)
	return 0
}

func (h *history) scrape(t *testing.T) {
	t.Helper()
	_, text := h.rig.get(t, "/metrics")
	parse := parser.NewParser(parser.Options{})
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		require.Positive(t, end, line)
		scraped, err := parse.ParseMetric(line[:end])
		require.NoError(t, err, line)
		// What Prometheus adds of the target.
		at := labels.NewBuilder(scraped).Set("job", serviceName).Set("instance", "service:8090").Labels()
		key := at.String()
		h.labels[key] = at
		h.series[key] = append(h.series[key], slices.Repeat([]string{""}, h.scrapes-len(h.series[key]))...)
		h.series[key] = append(h.series[key], line[end+1:])
	}
	h.scrapes++
}

// last is the value of the last scrape of the one series with these labels, empty when it was absent.
func (h *history) last(t *testing.T, name string, with ...string) string {
	t.Helper()
	matching := labels.FromStrings(append(with, metricName, name)...)
	var found []string
	for key, at := range h.labels {
		if labels.Equal(at.MatchLabels(true, slices.Collect(maps.Keys(matching.Map()))...), matching) && len(h.series[key]) == h.scrapes {
			found = append(found, h.series[key][h.scrapes-1])
		}
	}
	require.LessOrEqual(t, len(found), 1, "series %s", matching)
	return strings.Join(found, "")
}

// names are the labels that each metric was scraped with, and their values.
func (h *history) names() map[string]map[string]map[string]bool {
	metrics := map[string]map[string]map[string]bool{}
	for _, at := range h.labels {
		name := at.Get(metricName)
		if metrics[name] == nil {
			metrics[name] = map[string]map[string]bool{}
		}
		at.Range(func(label labels.Label) {
			if metrics[name][label.Name] == nil {
				metrics[name][label.Name] = map[string]bool{}
			}
			metrics[name][label.Name][label.Value] = true
		})
	}
	return metrics
}

// expectation is what an expression must come to at a moment of rule time: the series in promtool's notation, all of value 1.
type expectation struct {
	at     time.Duration
	expr   string
	series []string
}

// unitTest writes what was scraped as a test for promtool, the values as they came.
func (h *history) unitTest(rules string, expect []expectation) string {
	var text strings.Builder
	fmt.Fprintf(&text, "rule_files: [%q]\nevaluation_interval: %s\ntests:\n  - interval: %s\n    input_series:\n", rules, ruleTime, ruleTime)
	for _, key := range slices.Sorted(maps.Keys(h.series)) {
		fmt.Fprintf(&text, "      - series: %q\n        values: %q\n", key, strings.Join(promtoolValues(h.series[key], h.scrapes), " "))
	}
	text.WriteString("    promql_expr_test:\n")
	for _, e := range expect {
		fmt.Fprintf(&text, "      - eval_time: %s\n        expr: %q\n        exp_samples:\n", e.at, e.expr)
		for _, series := range e.series {
			fmt.Fprintf(&text, "          - {labels: %q, value: 1}\n", series)
		}
	}
	return text.String()
}

// promtoolValues has a series that is missing from a scrape marked as stale once, as Prometheus does.
func promtoolValues(scraped []string, scrapes int) []string {
	values := make([]string, scrapes)
	present := false
	for i := range values {
		switch {
		case i < len(scraped) && scraped[i] != "":
			values[i], present = scraped[i], true
		case present:
			values[i], present = "stale", false
		default:
			values[i] = "_"
		}
	}
	return values
}
