package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
)

// assertNone fails the test for every violation and for every problem of the run itself, and prints a summary in one line. Call
// it after run.
func (e *env) assertNone(found []check.Violation) {
	t := e.t
	t.Helper()
	fmt.Println(e.summary(len(found)))
	for _, text := range slices.Concat(e.problems, e.fleet.problems) {
		t.Errorf("seed %d: %s", e.seed, text)
	}
	const most = 20
	for i, violation := range found {
		if i == most {
			t.Errorf("and %d more", len(found)-most)
			break
		}
		t.Errorf("seed %d: %s\n%s", e.seed, violation, e.circumstances(violation.At, i == 0))
	}
}

// circumstances are the last events before a time, and with logs the ends of the logs of the consumers that ran then. Zero is
// the end.
func (e *env) circumstances(at time.Time, logs bool) string {
	if at.IsZero() {
		at = e.over
	}
	var before []string
	for _, m := range e.timeline {
		if m.at.Before(at) {
			before = append(before, fmt.Sprintf("  %6.2fs %s", m.at.Sub(e.began).Seconds(), m.what))
		}
	}
	const most, lines = 12, 30
	text := fmt.Sprintf("at %.2fs, after\n%s\n", at.Sub(e.began).Seconds(), strings.Join(before[max(0, len(before)-most):], "\n"))
	for _, p := range e.fleet.started {
		if logs && p.Alive(at) {
			text += fmt.Sprintf("%s, started at %.2fs, wrote\n%s\n", p, p.Started.Sub(e.began).Seconds(), lastLines(p.Log(), lines))
		}
	}
	return text
}

func (e *env) summary(violations int) string {
	numbers := e.record.Numbers()
	published, repeats := 0, 0
	for _, source := range e.sources {
		published += len(source.acknowledged)
		repeats += source.repeats
	}
	return fmt.Sprintf("e2e: chaos %s, seed %d, %.0f s: %d messages published (%d adds repeated) as %d entries, %d kept under %d keys; "+
		"all done %.1f s after the last fault; consumers ended: %s, the slowest stop %.1f s; %d starts accepted, %d PreviouslyAccepted; "+
		"answers: %s, none %d; %d samples of positions; faults: %s; %d violations",
		e.name, e.seed, time.Since(e.began).Seconds(), published, repeats, numbers.Entries, numbers.Kept, numbers.Keys,
		e.settled.Seconds(), listed(e.fleet.ended), e.fleet.longest.Seconds(), numbers.Accepted, numbers.Repeats,
		listed(e.statuses), e.proxy.Counts().Broken, numbers.Positions, listed(e.happened), violations)
}

// listed is a count of each in a fixed order.
func listed[K ~int | ~string](counts map[K]int) string {
	parts := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%v %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
