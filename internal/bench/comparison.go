package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redisevents/restatestart/internal/bench/contender"
	"github.com/redisevents/restatestart/internal/bench/report"
)

// roundLimit is how long one contender may take for one round before the run is given up.
const roundLimit = 5 * time.Minute

// comparison is what the contenders of one case measured, round by round.
type comparison struct {
	name    string
	figures map[string][]contender.Figures // by the task's label
	order   []string
}

// contestant is a contender in a comparison. The label distinguishes two of one kind.
type contestant struct {
	label string
	task  contender.Task
}

// compare has the contenders do one round each in turn, round after round, each time from another one on, and proves each
// round. The first warms up and does not count.
func (b *bench) compare(ctx context.Context, name string, to ingress, contestants ...contestant) (_ *comparison, err error) {
	d := &comparison{name: name, figures: map[string][]contender.Figures{}}
	var processes []*contender.Process
	defer func() {
		for _, process := range processes {
			err = errors.Join(err, process.Close())
		}
	}()
	for i := range contestants {
		task := &contestants[i].task
		task.Redis, task.Ingress = b.redis.Addr(), to.url()
		if task.Name == contender.Ours && b.profile != "" {
			task.Profile = fmt.Sprintf("%s/%s.%s", b.profile, name, fileName(contestants[i].label))
		}
		process, err := contender.Start(ctx, roleContender, *task)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		processes = append(processes, process)
		d.order = append(d.order, contestants[i].label)
	}
	for round := range b.rounds + 1 {
		for turn := range contestants {
			i := (turn + round) % len(contestants) // nobody always follows the same one
			contestant := contestants[i]
			figures, err := b.goOnce(ctx, processes[i], to, contender.Round{
				Prefix: fmt.Sprintf("%s.%d.%d-", name, i, round), WarmUp: round == 0,
			})
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", name, round, err)
			}
			if round > 0 {
				d.figures[contestant.label] = append(d.figures[contestant.label], figures)
			}
		}
		b.progressf("%s: round %d of %d", name, round, b.rounds)
	}
	b.report.Lines = append(b.report.Lines, d.lines()...)
	return d, nil
}

func (b *bench) goOnce(ctx context.Context, process *contender.Process, to ingress, round contender.Round) (contender.Figures, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, roundLimit, fmt.Errorf("no end within %s", roundLimit))
	defer cancel()
	task := process.Task
	if err := to.expect(ctx, round.Prefix, task.Messages); err != nil {
		return contender.Figures{}, err
	}
	figures, err := process.Do(ctx, round)
	if err != nil {
		return figures, err
	}
	if err := to.prove(ctx, round.Prefix, task.Messages); err != nil {
		return figures, fmt.Errorf("%s: %w", task.Name, err)
	}
	return figures, nil
}

// each is a figure of every round of a contender.
func (d *comparison) each(label string, figure func(contender.Figures) float64) []float64 {
	values := make([]float64, 0, len(d.figures[label]))
	for _, figures := range d.figures[label] {
		values = append(values, figure(figures))
	}
	return values
}

func (d *comparison) ratio(these, those string, figure func(contender.Figures) float64) report.Spread {
	return report.Ratio(d.each(these, figure), d.each(those, figure))
}

// value is the median of what a contender measured itself.
func (d *comparison) value(label, name string) report.Spread {
	return report.Of(d.each(label, func(f contender.Figures) float64 { return f.Values[name] }))
}

func rate(f contender.Figures) float64 { return float64(f.Messages) / f.Elapsed.Seconds() }

func cpu(f contender.Figures) float64 {
	return float64(f.CPU.Nanoseconds()) / 1e3 / float64(f.Messages)
}

func allocs(f contender.Figures) float64 { return float64(f.Mallocs) / float64(f.Messages) }

func size(f contender.Figures) float64 { return float64(f.Bytes) / float64(f.Messages) }

func (d *comparison) lines() []report.Line {
	lines := make([]report.Line, 0, len(d.order))
	for _, label := range d.order {
		if d.figures[label][0].Elapsed == 0 {
			continue // it measures something else
		}
		lines = append(lines, report.Line{
			Case: d.name, Contender: label, Rate: report.Of(d.each(label, rate)),
			CPU: report.Median(d.each(label, cpu)), Allocs: report.Median(d.each(label, allocs)), Bytes: report.Median(d.each(label, size)),
		})
	}
	return lines
}

// flatness is the dearest contender's figure over the cheapest one's.
func (d *comparison) flatness(figure func(contender.Figures) float64) report.Spread {
	over := func(values []float64) float64 { return slices.Max(values) / slices.Min(values) }
	medians := make([]float64, len(d.order))
	each := make([]float64, len(d.figures[d.order[0]]))
	for i, label := range d.order {
		medians[i] = report.Median(d.each(label, figure))
	}
	for round := range each {
		values := make([]float64, len(d.order))
		for i, label := range d.order {
			values[i] = figure(d.figures[label][round])
		}
		each[round] = over(values)
	}
	spread := report.Of(each)
	spread.Value = over(medians)
	return spread
}
