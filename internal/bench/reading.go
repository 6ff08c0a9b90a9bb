package main

import (
	"context"
	"fmt"

	"github.com/redisevents/restatestart/internal/bench/contender"
	"github.com/redisevents/restatestart/internal/bench/report"
)

// Sizes of the cases that start nothing.
const (
	filterMessages    = 500_000
	partitionMessages = 200_000 // in all partitions together
	entriesMessages   = 100_000 // of a round at least: small streams are read again and again
	latencySamples    = 300     // of a round
	latencyPartitions = 4

	serviceHeap  = 64 // MiB
	likeAService = " with a heap of 64 MiB"
)

// filter compares what reads messages of which none is worth a start.
func (b *bench) filter(ctx context.Context, partitions int) error {
	name, topic := fmt.Sprintf("filter-%d", partitions), "filter"
	task := contender.Task{Topic: topic, Partitions: partitions, Messages: b.messages(filterMessages, partitions)}
	if err := fill(ctx, b.redis.Client(), topic, partitions, task.Messages, false); err != nil {
		return err
	}
	contestants := []contestant{of(contender.Ours, task), of(contender.ReadLimit, task)}
	many := contender.ReadLimit + ", a loop each"
	if partitions > 1 {
		for _, name := range []string{contender.Ours, contender.ReadLimit} {
			task.Name, task.Heap = name, serviceHeap
			contestants = append(contestants, contestant{name + likeAService, task})
		}
		task.Loops, task.Heap = partitions, 0
		contestants = append(contestants, contestant{many, task})
	}
	d, err := b.compare(ctx, name, nowhere{}, contestants...)
	if err != nil {
		return err
	}
	at := fmt.Sprintf("nothing kept, %d entries of %d bytes, partitions: %d: ", task.Messages, contender.BodySize, partitions)
	if partitions > 1 {
		b.add(name, at+"ours / read limit", report.AtLeast(1.5), d.ratio(contender.Ours, contender.ReadLimit, rate), "")
		b.add(name, at+"ours / read limit, both"+likeAService, report.Target{}, d.ratio(contender.Ours+likeAService, contender.ReadLimit+likeAService, rate), "")
		b.add(name, at+"ours / read limit with a loop for each partition", report.Target{}, d.ratio(contender.Ours, many, rate), "")
		return nil
	}
	b.add(name, at+"ours / read limit", report.AtLeast(1.2), d.ratio(contender.Ours, contender.ReadLimit, rate), "")
	b.add(name, at+"CPU per message, ours / read limit", report.Target{}, d.ratio(contender.Ours, contender.ReadLimit, cpu), "")
	ours, bare := d.each(contender.Ours, allocs), d.each(contender.ReadLimit, allocs)
	for i := range ours {
		ours[i] -= bare[i]
	}
	b.add(name, "allocations per filtered message, beyond go-redis and json", report.AtMost(2), report.Of(ours), "")
	return nil
}

// types measures what the type filter saves. The read limit decodes everything.
func (b *bench) types(ctx context.Context) error {
	const name, topic = "types", "types"
	task := contender.Task{Topic: topic, Partitions: 1, Messages: b.messages(filterMessages, contender.OneIn)}
	if err := fill(ctx, b.redis.Client(), topic, 1, task.Messages, true); err != nil {
		return err
	}
	wanted := task
	wanted.Types = []string{contender.Wanted}
	d, err := b.compare(ctx, name, nowhere{}, of(contender.Ours, wanted), of(contender.ReadLimit, task))
	if err != nil {
		return err
	}
	b.add(name, "Types drops 95 % before decoding, 1 partition: ours / read limit", report.AtLeast(1.6), d.ratio(contender.Ours, contender.ReadLimit, rate), "")
	return nil
}

// entries measures whether a message costs more where there are more of them.
func (b *bench) entries(ctx context.Context) error {
	var contestants []contestant
	for _, usual := range []int{10_000, 100_000, 1_000_000} {
		count := b.messages(usual, 1)
		task := contender.Task{
			Topic: fmt.Sprintf("entries-%d", count), Partitions: 1, Messages: count, Passes: max(1, b.messages(entriesMessages, 1)/count),
		}
		contestants = append(contestants, contestant{fmt.Sprintf("ours, %d entries", count), task})
	}
	return b.flat(ctx, "entries", "CPU per message at 10⁴, 10⁵, 10⁶ entries: the dearest over the cheapest", contestants)
}

// partitions measures whether a message costs more where there are more partitions.
func (b *bench) partitions(ctx context.Context) error {
	const most = 64
	var contestants []contestant
	for _, partitions := range []int{1, 4, 16, most} {
		task := contender.Task{
			Topic: fmt.Sprintf("partitions-%d", partitions), Partitions: partitions, Messages: b.messages(partitionMessages, most),
		}
		contestants = append(contestants, contestant{fmt.Sprintf("ours, partitions: %d", partitions), task})
	}
	return b.flat(ctx, "partitions", "CPU per message at 1, 4, 16, 64 partitions: the dearest over the cheapest", contestants)
}

// flat compares the library with itself: in processes that hold next to nothing, whose collectors are never done, and
// in some like services.
func (b *bench) flat(ctx context.Context, name, what string, contestants []contestant) error {
	for i := range contestants {
		task := &contestants[i].task
		task.Name = contender.Ours
		if err := fill(ctx, b.redis.Client(), task.Topic, task.Partitions, task.Messages, false); err != nil {
			return err
		}
	}
	d, err := b.compare(ctx, name, nowhere{}, contestants...)
	if err != nil {
		return err
	}
	b.add(name, what, report.AtMost(1.15), d.flatness(cpu), "")
	for i := range contestants {
		contestants[i].task.Heap = serviceHeap
		contestants[i].label += "," + likeAService
	}
	if d, err = b.compare(ctx, name+"-64MiB", nowhere{}, contestants...); err != nil {
		return err
	}
	b.add(name, what+","+likeAService, report.Target{}, d.flatness(cpu), "")
	return nil
}

// latency measures how soon a message is on its way when nothing else is.
func (b *bench) latency(ctx context.Context) error {
	const name, topic = "latency", "latency"
	task := contender.Task{
		Name: contender.Latency, Topic: topic, Partitions: latencyPartitions, Messages: b.messages(latencySamples, latencyPartitions),
	}
	if err := fill(ctx, b.redis.Client(), topic, latencyPartitions, latencyPartitions, false); err != nil {
		return err
	}
	d, err := b.compare(ctx, name, nowhere{}, contestant{contender.Latency, task})
	if err != nil {
		return err
	}
	at := "a new entry on an idle stream until its POST leaves: "
	b.add(name, at+"50th percentile", report.Target{}, d.value(contender.Latency, contender.LatencyMedian), " ms")
	b.add(name, at+"99th percentile", report.AtMost(5), d.value(contender.Latency, contender.LatencyP99), " ms")
	return nil
}
