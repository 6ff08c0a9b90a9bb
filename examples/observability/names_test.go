package main

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// metricName is the label that holds a metric's name.
const metricName = "__name__"

// targetLabels are added by Prometheus and its service discovery.
var targetLabels = []string{"job", "instance", "namespace"}

// closedSets has the labels with a fixed set of values, not all of which occur in an outage.
var closedSets = map[string][]string{
	"reason": {
		"unknown", "panic", "map", "invalid", "encode", "predecessor", "rejected", "not_found", "unauthorized", "overloaded", "timeout",
		"unreachable", "server", "shutdown",
	},
	"outcome": {
		"accepted", "failed", "rejected", "not_found", "unauthorized", "overloaded", "timeout", "unreachable", "server", "shutdown", "panic",
	},
	"restate_start_duplicate": {"true", "false"},
	"cause":                   {"malformed", "handler", "vanished"},
	"kind":                    {"unknown", "trimmed", "deleted", "gone", "replaced", "ahead"},
	"event":                   {"parked", "replayed", "discarded"},
	"policy":                  {"best_effort", "stop_partition", "fail", "block", "transport"},
	"exception_type":          {"BlockedError", "MalformedError", "PanicError", "RedisError", "Error"},
}

// query is an expression and its place in a file.
type query struct{ where, expr string }

// dashboard is the checked part of dashboard.json.
type dashboard struct {
	Templating struct {
		List []struct {
			Name       string `json:"name"`
			Type       string `json:"type"`
			Definition string `json:"definition"`
		} `json:"list"`
	} `json:"templating"`
	Annotations struct {
		List []struct {
			Expr string `json:"expr"`
		} `json:"list"`
	} `json:"annotations"`
	Panels []struct {
		ID          int    `json:"id"`
		Type        string `json:"type"`
		Title       string `json:"title"`
		Description string `json:"description"`
		Datasource  struct {
			UID string `json:"uid"`
		} `json:"datasource"`
		Targets []struct {
			Expr         string `json:"expr"`
			LegendFormat string `json:"legendFormat"`
		} `json:"targets"`
	} `json:"panels"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var board dashboard
	require.NoError(t, json.Unmarshal(text, &board))
	return board
}

var (
	legendLabel  = regexp.MustCompile(`{{\s*(?:\$labels\.)?(\w+)\s*}}`)
	labelValues  = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	boardMacro   = regexp.MustCompile(`\$__(rate_interval|interval|range)`)
	usedVariable = regexp.MustCompile(`\$\{?(\w+)`)
)

func TestEveryPanelDescribesWhatToDo(t *testing.T) {
	t.Parallel()
	board := readDashboard(t)
	var variables, titles []string
	for _, variable := range board.Templating.List {
		variables = append(variables, variable.Name)
	}
	assert.Equal(t, []string{"datasource", "job", "topic", "consumer", "partition"}, variables)
	assert.Equal(t, "datasource", board.Templating.List[0].Type)
	ids := map[int]bool{}
	for _, panel := range board.Panels {
		assert.False(t, ids[panel.ID], "id %d occurs twice", panel.ID)
		ids[panel.ID] = true
		assert.NotContains(t, titles, panel.Title)
		titles = append(titles, panel.Title)
		if panel.Type == "row" {
			continue
		}
		assert.Equal(t, "${datasource}", panel.Datasource.UID, panel.Title)
		assert.Greater(t, len(panel.Description), 100, panel.Title)
		for _, target := range panel.Targets {
			for _, used := range usedVariable.FindAllStringSubmatch(boardMacro.ReplaceAllString(target.Expr, ""), -1) {
				assert.Contains(t, variables, used[1], panel.Title)
			}
		}
	}
}

// queries returns the expressions of both files. A label used by a legend or a text is added as an aggregation by that label.
func queries(t *testing.T) []query {
	t.Helper()
	var all []query
	add := func(where, expr, text string) {
		expr = boardMacro.ReplaceAllString(expr, "5m")
		all = append(all, query{where, expr})
		for _, used := range legendLabel.FindAllStringSubmatch(text, -1) {
			all = append(all, query{where + ", legend", "max by (" + used[1] + ") (" + expr + ")"})
		}
	}
	for _, rule := range alertRules(t) {
		add(rule.Alert, rule.Expr, rule.Annotations["summary"]+rule.Annotations["description"])
	}
	board := readDashboard(t)
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			add(panel.Title, target.Expr, target.LegendFormat)
		}
	}
	for _, variable := range board.Templating.List[1:] {
		found := labelValues.FindStringSubmatch(variable.Definition)
		require.NotNil(t, found, variable.Name)
		add("variable "+variable.Name, "count by ("+found[2]+") ("+found[1]+")", "")
	}
	return all
}

// checkNames checks metrics, labels and their values in both files against what was scraped.
func checkNames(t *testing.T, scraped map[string][]labels.Labels) {
	t.Helper()
	parse := parser.NewParser(parser.Options{})
	used := map[string]bool{}
	for _, query := range queries(t) {
		expr, err := parse.ParseExpr(query.expr)
		require.NoError(t, err, query.where)
		parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
			switch node := node.(type) {
			case *parser.VectorSelector:
				used[node.Name] = true
				checkSelector(t, query.where, scraped[node.Name], node)
			case *parser.AggregateExpr:
				assert.False(t, node.Without, "%s: without keeps every label of a target", query.where)
				checkLabels(t, query.where, scraped, node.Expr, node.Grouping)
			case *parser.BinaryExpr:
				if node.VectorMatching != nil {
					checkLabels(t, query.where, scraped, node, slices.Concat(node.VectorMatching.MatchingLabels, node.VectorMatching.Include))
				}
			}
			return nil
		})
	}
	for metric := range scraped {
		base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_sum"), "_count")
		if strings.HasPrefix(metric, "streams_") || strings.HasPrefix(metric, "restate_") {
			assert.True(t, used[metric] || used[base+"_bucket"] || used[base+"_sum"], "%s has no panel in dashboard.json and no alert", metric)
		}
	}
}

func checkSelector(t *testing.T, where string, series []labels.Labels, selector *parser.VectorSelector) {
	t.Helper()
	if !assert.NotEmpty(t, series, "%s: there is no metric %s", where, selector.Name) {
		return
	}
	for _, matcher := range selector.LabelMatchers {
		if matcher.Name == metricName || slices.Contains(targetLabels, matcher.Name) {
			continue
		}
		if !assert.True(t, hasLabel(series, matcher.Name), "%s: %s has no label %s", where, selector.Name, matcher.Name) || strings.HasPrefix(matcher.Value, "$") {
			continue
		}
		values := matcher.SetMatches()
		if matcher.Type == labels.MatchEqual {
			values = []string{matcher.Value}
		}
		assert.NotEmpty(t, values, "%s: only equality and lists of values can be checked: %s", where, matcher)
		for _, value := range values {
			occurs := slices.ContainsFunc(series, func(one labels.Labels) bool { return one.Get(matcher.Name) == value })
			assert.True(t, occurs || slices.Contains(closedSets[matcher.Name], value), "%s: %s is never %q", where, matcher.Name, value)
		}
	}
}

// checkLabels requires each label on each metric of an expression: series that lack it would not match the others.
func checkLabels(t *testing.T, where string, scraped map[string][]labels.Labels, expr parser.Expr, wanted []string) {
	t.Helper()
	for _, selectors := range parser.ExtractSelectors(expr) {
		name := selectors[slices.IndexFunc(selectors, func(m *labels.Matcher) bool { return m.Name == metricName })].Value
		for _, label := range wanted {
			assert.True(t, slices.Contains(targetLabels, label) || hasLabel(scraped[name], label), "%s: %s has no label %s", where, name, label)
		}
	}
}

func hasLabel(series []labels.Labels, name string) bool {
	return slices.ContainsFunc(series, func(one labels.Labels) bool { return one.Has(name) })
}
