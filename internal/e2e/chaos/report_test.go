package chaos_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
)

// verdict is everything that is broken.
func (w *world) verdict() []check.Violation {
	if found := w.watch.found(); len(found) > 0 {
		return found
	}
	end, err := w.end(w.t.Context())
	if err != nil {
		w.problem(fmt.Sprintf("ask how everything ended: %v", err))
		return nil
	}
	return w.record.Verdict(end)
}

// judge fails the test for everything that is broken, and for what went wrong with the run itself, and tells in one
// line what happened.
func (w *world) judge(found []check.Violation) {
	t := w.t
	t.Helper()
	_, _, ofFleet := w.fleet.told()
	_, ofRecorder := w.recorder.told()
	fmt.Println(w.summary(len(found)))
	for _, text := range slices.Concat(w.problems, ofFleet, ofRecorder) {
		t.Errorf("seed %d: %s", w.seed, text)
	}
	const most = 20
	for i, violation := range found {
		if i == most {
			t.Errorf("and %d more", len(found)-most)
			break
		}
		t.Errorf("seed %d: %s\n%s", w.seed, violation, w.circumstances(violation.At, i == 0))
	}
}

// circumstances are the last things that were done before a time, and with logs the ends of those of the consumers
// that ran then. Zero is the end.
func (w *world) circumstances(at time.Time, logs bool) string {
	if at.IsZero() {
		at = w.over
	}
	var before []string
	for _, m := range w.timeline {
		if m.at.Before(at) {
			before = append(before, fmt.Sprintf("  %6.2fs %s", m.at.Sub(w.began).Seconds(), m.what))
		}
	}
	const most, lines = 12, 30
	text := fmt.Sprintf("at %.2fs, after\n%s\n", at.Sub(w.began).Seconds(), strings.Join(before[max(0, len(before)-most):], "\n"))
	if logs {
		for _, p := range w.fleet.aliveAt(at) {
			text += fmt.Sprintf("%s, started at %.2fs, wrote\n%s\n", p, p.started.Sub(w.began).Seconds(), p.tail(lines))
		}
	}
	return text
}

// summary is the run in one line.
func (w *world) summary(violations int) string {
	numbers := w.record.Numbers()
	ended, longest, _ := w.fleet.told()
	statuses, _ := w.recorder.told()
	published, repeats := 0, 0
	for _, source := range w.sources {
		acknowledged, again := source.told()
		published += len(acknowledged)
		repeats += again
	}
	return fmt.Sprintf("e2e: chaos %s, seed %d, %.0f s: %d messages published (%d adds repeated) as %d entries, %d kept under %d keys; "+
		"all done %.1f s after the last fault; consumers ended: %s, the slowest stop %.1f s; %d starts accepted, %d PreviouslyAccepted; answers: %s; %d looks at positions; faults: %s; %d violations",
		w.name, w.seed, time.Since(w.began).Seconds(), published, repeats, numbers.Entries, numbers.Kept, numbers.Keys,
		w.settled.Seconds(), listed(ended), longest.Seconds(), numbers.Accepted, numbers.Repeats, listed(statuses), numbers.Positions,
		listed(w.carriedOut()), violations)
}

// listed is a count of each in a fixed order.
func listed[K ~int | ~string](counts map[K]int) string {
	parts := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%v %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
