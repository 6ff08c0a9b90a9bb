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

// ruleTime is the interval between scrapes as the rules see it; in the test it is one second. Five minutes of a hold take some
// ten seconds.
const ruleTime = 30 * time.Second

// history is what was scraped from a service.
type history struct {
	service *harness
	scrapes int
	series  map[string]*series // by labels, those of the target included
}

type series struct {
	labels labels.Labels
	values []string // one for each scrape, empty where the series was absent; shorter if it was absent at the end
}

// until scrapes once a second until done was true in so many consecutive scrapes. It fails the test after limit scrapes, and
// returns the rule time of the last one.
func (h *history) until(t *testing.T, what string, limit, consecutive int, done func() bool) time.Duration {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for count := 0; limit > 0; limit-- {
		<-tick.C
		h.scrape(t)
		if count++; !done() {
			count = 0
		}
		if count == consecutive {
			return time.Duration(h.scrapes-1) * ruleTime
		}
	}
	require.FailNow(t, what+" did not happen")
	return 0
}

func (h *history) scrape(t *testing.T) {
	t.Helper()
	_, text := h.service.get(t, "/metrics")
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
		// The labels that Prometheus adds for the target.
		all := labels.NewBuilder(scraped).Set("job", serviceName).Set("instance", "service:8090").Labels()
		one := h.series[all.String()]
		if one == nil {
			one = &series{labels: all}
			h.series[all.String()] = one
		}
		one.values = append(one.values, slices.Repeat([]string{""}, h.scrapes-len(one.values))...)
		one.values = append(one.values, line[end+1:])
	}
	h.scrapes++
}

// last returns the latest value of the one series with these labels, empty if it is absent.
func (h *history) last(t *testing.T, name string, with ...string) string {
	t.Helper()
	matching := labels.FromStrings(append(with, metricName, name)...)
	var found []string
	for _, series := range h.series {
		if labels.Equal(series.labels.MatchLabels(true, slices.Collect(maps.Keys(matching.Map()))...), matching) && len(series.values) == h.scrapes {
			found = append(found, series.values[h.scrapes-1])
		}
	}
	require.LessOrEqual(t, len(found), 1, "series %s", matching)
	return strings.Join(found, "")
}

// byMetric returns the label sets that each metric was scraped with.
func (h *history) byMetric() map[string][]labels.Labels {
	metrics := map[string][]labels.Labels{}
	for _, series := range h.series {
		name := series.labels.Get(metricName)
		metrics[name] = append(metrics[name], series.labels)
	}
	return metrics
}

// expectation is the result of an expression at a moment of rule time: series in promtool's notation, each of value 1.
type expectation struct {
	at     time.Duration
	expr   string
	series []string
}

// unitTest writes the scraped values as a test for promtool.
func (h *history) unitTest(rules string, expect []expectation) string {
	var text strings.Builder
	fmt.Fprintf(&text, "rule_files: [%q]\nevaluation_interval: %s\ntests:\n  - interval: %s\n    input_series:\n", rules, ruleTime, ruleTime)
	for _, key := range slices.Sorted(maps.Keys(h.series)) {
		fmt.Fprintf(&text, "      - {series: %q, values: %q}\n", key, strings.Join(promtoolValues(h.series[key].values, h.scrapes), " "))
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

// promtoolValues marks a series that disappears as stale once, as Prometheus does.
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
