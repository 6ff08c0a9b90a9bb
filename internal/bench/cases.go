package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// testCase is a group of rows that are measured together.
type testCase struct {
	name string
	what string
	run  func(b *bench, ctx context.Context) error
}

// parallelisms are how many starts are under way at once, over all partitions.
var parallelisms = []int{8, 32, 64}

func cases() []testCase {
	var all []testCase
	for _, parallelism := range parallelisms {
		all = append(all, testCase{
			fmt.Sprintf("restate-%d", parallelism), fmt.Sprintf("real Restate, 4 partitions, all kept, parallelism %d", parallelism),
			func(b *bench, ctx context.Context) error { return b.real(ctx, parallelism) },
		})
	}
	for _, parallelism := range parallelisms {
		all = append(all, testCase{
			fmt.Sprintf("null-%d", parallelism), fmt.Sprintf("null ingress, 4 partitions, all kept, parallelism %d", parallelism),
			func(b *bench, ctx context.Context) error { return b.null(ctx, parallelism) },
		})
	}
	for _, partitions := range []int{1, 4} {
		all = append(all, testCase{
			fmt.Sprintf("filter-%d", partitions), fmt.Sprintf("nothing kept, partitions: %d", partitions),
			func(b *bench, ctx context.Context) error { return b.filter(ctx, partitions) },
		})
	}
	return append(all,
		testCase{"types", "Types drops 95 % before decoding", (*bench).types},
		testCase{"handle", "allocations of Handle for a kept message", (*bench).handle},
		testCase{"heap", "heap while blocked for an hour of virtual time", (*bench).heap},
		testCase{"entries", "CPU per message at 10⁴, 10⁵, 10⁶ entries", (*bench).entries},
		testCase{"partitions", "CPU per message at 1, 4, 16, 64 partitions", (*bench).partitions},
		testCase{"latency", "a new entry on an idle stream until its POST leaves", (*bench).latency},
	)
}

// choose returns the cases whose names begin with one of those given, or all when none is.
func choose(names string) ([]testCase, error) {
	if names == "" {
		return cases(), nil
	}
	var chosen []testCase
	wanted := strings.Split(names, ",")
	for _, c := range cases() {
		if slices.ContainsFunc(wanted, func(name string) bool { return name != "" && strings.HasPrefix(c.name, name) }) {
			chosen = append(chosen, c)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no case is named like %q: see -list", names)
	}
	return chosen, nil
}
