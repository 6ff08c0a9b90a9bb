package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
)

// board is what is taken from dashboard.json.
type board struct {
	Panels []boardPanel `json:"panels"`
}

type boardPanel struct {
	Title   string `json:"title"`
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit       string `json:"unit"`
			Thresholds struct {
				Steps []struct {
					Value *float64 `json:"value"` // null for the first
				} `json:"steps"`
			} `json:"thresholds"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

// panel is one to be drawn, with what was asked for it.
type panel struct {
	title     string
	unit      unit
	threshold float64 // in the axis' unit; 0 for none
	targets   []target
	curves    []curve
}

type target struct{ expr, legend string }

// unit is how a dashboard's unit is written at an axis, and what a value is divided by for it.
type unit struct {
	label string
	per   float64
	log   bool // logarithmic, with a zero: working off a backlog is many times the usual rate
}

// on is where a value stands on the axis.
func (u unit) on(value float64) float64 {
	if u.log {
		return math.Log1p(value)
	}
	return value
}

var units = map[string]unit{ //nolint:gochecknoglobals // a constant
	"ms": {label: "minutes", per: 60_000}, "short": {label: "entries", per: 1}, "mps": {label: "messages / s, log", per: 1, log: true},
	"reqps": {label: "requests / s, log", per: 1, log: true}, "ops": {label: "reads / s, log", per: 1, log: true},
}

func readBoard(path string) (board, error) {
	var read board
	text, err := os.ReadFile(path)
	if err != nil {
		return read, fmt.Errorf("read the dashboard: %w", err)
	}
	if err := json.Unmarshal(text, &read); err != nil {
		return read, fmt.Errorf("read %s: %w", path, err)
	}
	return read, nil
}

// What Grafana puts in: every variable at All, and $__rate_interval at four scrapes.
var (
	rateInterval = strings.NewReplacer("$__rate_interval", fmt.Sprintf("%ds", 4*int(scrapeInterval.Seconds()))) //nolint:gochecknoglobals // a constant
	variable     = regexp.MustCompile(`\$[a-z]+`)
)

// choose finds panels by their titles.
func (b board) choose(titles []string) ([]panel, error) {
	chosen := make([]panel, len(titles))
	for i, title := range titles {
		at := slices.IndexFunc(b.Panels, func(p boardPanel) bool { return p.Title == title })
		if at < 0 {
			return nil, fmt.Errorf("the dashboard has no panel %q", title)
		}
		settings := b.Panels[at].FieldConfig.Defaults
		axis, known := units[settings.Unit]
		if !known {
			return nil, fmt.Errorf("panel %q has a unit that the picture does not know: %q", title, settings.Unit)
		}
		chosen[i] = panel{title: title, unit: axis}
		for _, step := range settings.Thresholds.Steps {
			if step.Value != nil {
				chosen[i].threshold = *step.Value / axis.per
			}
		}
		for _, from := range b.Panels[at].Targets {
			chosen[i].targets = append(chosen[i].targets, target{
				expr: variable.ReplaceAllString(rateInterval.Replace(from.Expr), ".*"), legend: from.LegendFormat,
			})
		}
	}
	return chosen, nil
}
