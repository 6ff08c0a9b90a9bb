package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redisevents/restatestart/internal/bench/contender"
	"github.com/redisevents/restatestart/internal/bench/report"
)

// Sizes of the cases that start workflows.
const (
	startPartitions   = 4
	nullMessages      = 20_000
	realMessages      = 6_000
	watermillMessages = 4_000 // it is that much slower, and counts a message too
	watermillAt       = 32    // one parallelism is enough: it ignores it
	realDelay         = time.Hour
)

func (b *bench) add(name, what string, target report.Target, measured report.Spread, unit string) {
	b.report.Rows = append(b.report.Rows, report.Row{Name: name, What: what, Target: target, Measured: measured, Unit: unit})
}

// null compares what starts workflows on an ingress that costs next to nothing.
func (b *bench) null(ctx context.Context, parallelism int) (err error) {
	to, err := startNull(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	name, topic := fmt.Sprintf("null-%d", parallelism), "null"
	task := contender.Task{
		Topic: topic, Partitions: startPartitions, Messages: b.messages(nullMessages, startPartitions), Keep: true, Parallelism: parallelism,
	}
	if err := fill(ctx, b.redis.Client(), topic, startPartitions, task.Messages, false); err != nil {
		return err
	}
	contestants := []contestant{of(contender.Limit, task), of(contender.Ours, task), of(contender.ByHand, task), inLargeBatches(task)}
	if parallelism == watermillAt {
		watermills, err := b.watermills(ctx, task)
		if err != nil {
			return err
		}
		contestants = append(contestants, watermills...)
	}
	d, err := b.compare(ctx, name, to, contestants...)
	if err != nil {
		return err
	}
	at := fmt.Sprintf("null ingress, 4 partitions, parallelism %d: ", parallelism)
	b.add(name, at+"ours / limit", report.AtLeast(0.85), d.ratio(contender.Ours, contender.Limit, rate), "")
	b.add(name, at+"ours / by hand", report.AtLeast(1.5), d.ratio(contender.Ours, contender.ByHand, rate), "")
	b.add(name, at+"by hand / limit", report.Target{}, d.ratio(contender.ByHand, contender.Limit, rate), "")
	if parallelism == watermillAt {
		b.add(name, at+"ours / watermill", report.AtLeast(5), d.ratio(contender.Ours, contender.Watermill, rate), "")
		b.add(name, at+"ours / watermill with a topic for each partition", report.Target{}, d.ratio(contender.Ours, manyTopics, rate), "")
		b.add(name, at+"watermill / limit", report.Target{}, d.ratio(contender.Watermill, contender.Limit, rate), "")
	}
	b.add(name, at+largeBatches+" / limit", report.Target{}, d.ratio(largeBatches, contender.Limit, rate), "")
	b.add(name, at+"CPU per start, ours / limit", report.AtMost(1.25), d.ratio(contender.Ours, contender.Limit, cpu), "")
	b.add(name, at+"CPU per start, by hand / limit", report.Target{}, d.ratio(contender.ByHand, contender.Limit, cpu), "")
	return nil
}

const manyTopics = contender.Watermill + ", a topic for each partition"

// watermills are watermill with one topic, as its documentation has it, which knows no partitions, and with several.
func (b *bench) watermills(ctx context.Context, task contender.Task) ([]contestant, error) {
	task.Name, task.Messages = contender.Watermill, b.messages(watermillMessages, startPartitions)
	one, many := task, task
	one.Topic, one.Partitions = "watermill", 1
	many.Topic = "watermills"
	for _, task := range []contender.Task{one, many} {
		if err := fillWatermill(ctx, b.redis.Client(), task.Topic, task.Partitions, task.Messages); err != nil {
			return nil, err
		}
	}
	return []contestant{{contender.Watermill, one}, {manyTopics, many}}, nil
}

// real compares them on a restate-server, one for each parallelism: what the others have started is a burden to it. It
// has moods of its own, hence twice as many rounds.
func (b *bench) real(ctx context.Context, parallelism int) (err error) {
	defer func(rounds int) { b.rounds = rounds }(b.rounds)
	b.rounds *= 2
	to, err := startReal(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close()) }()
	name, topic := fmt.Sprintf("restate-%d", parallelism), "restate"
	task := contender.Task{
		Topic: topic, Partitions: startPartitions, Messages: b.messages(realMessages, startPartitions), Keep: true,
		Parallelism: parallelism, Delay: realDelay,
	}
	if err := fill(ctx, b.redis.Client(), topic, startPartitions, task.Messages, false); err != nil {
		return err
	}
	d, err := b.compare(ctx, name, to, of(contender.Limit, task), of(contender.Ours, task), of(contender.ByHand, task), inLargeBatches(task))
	if err != nil {
		return err
	}
	at := fmt.Sprintf("real Restate, 4 partitions, parallelism %d: ", parallelism)
	b.add(name, at+"ours / limit", report.AtLeast(0.95), d.ratio(contender.Ours, contender.Limit, rate), "")
	b.add(name, at+"by hand / limit", report.Target{}, d.ratio(contender.ByHand, contender.Limit, rate), "")
	b.add(name, at+largeBatches+" / limit", report.Target{}, d.ratio(largeBatches, contender.Limit, rate), "")
	return nil
}

// The last starts of a batch leave the others idle. How much that is shows in batches of which there are few.
const (
	largeBatch   = 800
	largeBatches = contender.Ours + " in batches of 800"
)

func inLargeBatches(task contender.Task) contestant {
	task.Name, task.Batch = contender.Ours, largeBatch
	return contestant{largeBatches, task}
}

// of is a contender under its own name.
func of(name string, task contender.Task) contestant {
	task.Name = name
	return contestant{label: name, task: task}
}
