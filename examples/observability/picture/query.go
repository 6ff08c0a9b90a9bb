package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// curve is one series of a panel: values by the seconds since the story began. A gap in it is a gap in the picture.
type curve struct {
	legend string
	points []point
}

type point struct{ at, value float64 }

// series is a series as the HTTP API answers it.
type series struct {
	Metric map[string]string    `json:"metric"`
	Values [][2]json.RawMessage `json:"values"` // seconds, and the value as a string
}

// ask asks for a panel's expressions over the whole story.
func (w *world) ask(ctx context.Context, panel *panel, told story) error {
	for _, target := range panel.targets {
		found, err := w.query(ctx, target.expr, told)
		if err != nil {
			return err
		}
		for _, series := range found {
			points, err := series.points(told.begin(), panel.unit.per)
			if err != nil {
				return err
			}
			panel.curves = append(panel.curves, curve{legend: legendOf(target.legend, series.Metric), points: points})
		}
	}
	if len(panel.curves) == 0 {
		return errors.New("prometheus has no series")
	}
	slices.SortFunc(panel.curves, func(a, b curve) int { return strings.Compare(a.legend, b.legend) })
	return nil
}

// alarm is an alert that fired, from when to when, in seconds since the story began.
type alarm struct {
	name     string
	from, to float64
}

// alarms are the alerts that fired, each once.
func (w *world) alarms(ctx context.Context, told story) ([]alarm, error) {
	found, err := w.query(ctx, `max by (alertname) (ALERTS{alertstate="firing"})`, told)
	if err != nil {
		return nil, err
	}
	var fired []alarm
	for _, series := range found {
		points, err := series.points(told.begin(), 1)
		if err != nil {
			return nil, err
		}
		fired = append(fired, alarm{name: series.Metric["alertname"], from: points[0].at, to: points[len(points)-1].at})
	}
	return fired, nil
}

func (w *world) query(ctx context.Context, expr string, told story) ([]series, error) {
	seconds := func(at time.Time) string { return strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64) }
	parameters := url.Values{
		"query": {expr}, "start": {seconds(told.begin())}, "end": {seconds(told.end())}, "step": {scrapeInterval.String()},
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.prometheus+"/api/v1/query_range?"+parameters.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask prometheus: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask prometheus: %w", err)
	}
	defer response.Body.Close()
	var answer struct {
		Error string `json:"error"`
		Data  struct {
			Result []series `json:"result"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, fmt.Errorf("read prometheus' answer: %w", err)
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("prometheus says of %s: %s", expr, answer.Error)
	}
	return answer.Data.Result, nil
}

func (s series) points(begin time.Time, per float64) ([]point, error) {
	points := make([]point, len(s.Values))
	for i, pair := range s.Values {
		var at float64
		var text string
		if err := errors.Join(json.Unmarshal(pair[0], &at), json.Unmarshal(pair[1], &text)); err != nil {
			return nil, fmt.Errorf("read a point: %w", err)
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("read a value: %w", err)
		}
		points[i] = point{at: at - float64(begin.UnixMilli())/1000, value: value / per}
	}
	return points, nil
}

var placeholder = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// legendOf puts a series' labels into a legend, as Grafana does.
func legendOf(format string, labels map[string]string) string {
	return strings.TrimSpace(placeholder.ReplaceAllStringFunc(format, func(found string) string {
		return labels[placeholder.FindStringSubmatch(found)[1]]
	}))
}
