package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// passed checks the entries that the positions of a partition have passed.
func (r *Record) passed(partition int) (found []Violation) {
	samples, before := r.positions[partition], map[string]Ref{} // the entry before of each key
	n := 0
	for _, entry := range r.streams[partition] {
		for n < len(samples) && samples[n].id.Compare(entry.ID) < 0 {
			n++
		}
		if n == len(samples) {
			break // no position has reached it
		}
		if entry.Key == "" {
			continue
		}
		accepted, was := r.accepted[entry.Ref]
		if first := samples[n]; !was || !accepted.Before(first.at) {
			found = append(found, violation(Passed, entry, first.at,
				fmt.Sprintf("position %s was written at %s, %s", first.id, clock(first.at), timeOf("accepted", accepted))))
		}
		earlier, second := before[entry.Key]
		before[entry.Key] = entry.Ref
		accepted, was = r.accepted[earlier]
		if requested, asked := r.requested[entry.Ref]; second && asked && (!was || !accepted.Before(requested)) {
			found = append(found, violation(Disorder, entry, requested,
				fmt.Sprintf("requested at %s, and entry %s before it %s", clock(requested), earlier.ID, timeOf("accepted", accepted))))
		}
	}
	return found
}

func violation(kind Kind, entry Entry, at time.Time, detail string) Violation {
	return Violation{Kind: kind, Partition: entry.Partition, Entry: entry.ID, Key: entry.Key, At: at, Detail: detail}
}

func timeOf(what string, at time.Time) string {
	if at.IsZero() {
		return "never " + what
	}
	return what + " at " + clock(at)
}

// clock has microseconds: a position may be too early by little.
func clock(at time.Time) string { return at.UTC().Format("15:04:05.000000") }

// End is the state of everything once the run is over.
type End struct {
	Positions    map[int]wire.ID // stored
	Acknowledged []string        // messages that Redis acknowledged
	Runs         map[string]int  // by key, as the workflow's service counted them
	Inputs       map[string]Ref  // the entry whose input each key ran with
	Started      []string        // keys that Restate holds
}

// Verdict returns every violation. Record all the streams first.
func (r *Record) Verdict(end End) []Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := slices.Clone(r.back)
	first := map[string]Entry{}
	kept := map[Ref]Entry{}
	messages := map[string]bool{}
	for _, partition := range slices.Sorted(maps.Keys(r.streams)) {
		found = append(found, r.passed(partition)...)
		var last wire.ID
		for _, entry := range r.streams[partition] {
			last = entry.ID
			messages[entry.Message] = true
			if entry.Key == "" {
				continue
			}
			kept[entry.Ref] = entry
			if _, known := first[entry.Key]; !known {
				first[entry.Key] = entry
			}
			if _, accepted := r.accepted[entry.Ref]; !accepted {
				found = append(found, Violation{
					Kind: Lost, Partition: partition, Entry: entry.ID, Key: entry.Key,
					Detail: timeOf("requested", r.requested[entry.Ref]),
				})
			}
		}
		if end.Positions[partition] != last {
			found = append(found, Violation{
				Kind: NotAtTheEnd, Partition: partition, Entry: end.Positions[partition],
				Detail: "the last entry is " + last.String(),
			})
		}
	}
	for _, message := range end.Acknowledged {
		if !messages[message] {
			found = append(found, Violation{Kind: Vanished, Partition: -1, Detail: "message " + message})
		}
	}
	found = append(found, r.foreign(kept)...)
	return append(found, r.runs(end, first, kept)...)
}

// foreign returns the requests that no entry explains.
func (r *Record) foreign(kept map[Ref]Entry) (found []Violation) {
	for ref, key := range r.keys {
		entry, known := kept[ref]
		if known && entry.Key == key || !known && r.options.Failover {
			continue
		}
		found = append(found, Violation{
			Kind: Foreign, Partition: ref.Partition, Entry: ref.ID, Key: key,
			At: r.requested[ref], Detail: fmt.Sprintf("the entry has key %q", entry.Key),
		})
	}
	return found
}

// runs compares the counts of the workflow's service and Restate's keys with the entries.
func (r *Record) runs(end End, first map[string]Entry, kept map[Ref]Entry) (found []Violation) {
	held := make(map[string]bool, len(end.Started))
	for _, key := range end.Started {
		held[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(first)) {
		entry := first[key]
		add := func(kind Kind, detail string) {
			found = append(found, Violation{Kind: kind, Partition: entry.Partition, Entry: entry.ID, Key: key, Detail: detail})
		}
		switch runs := end.Runs[key]; {
		case runs == 0:
			add(NeverRan, "by its service")
		case runs > 1:
			add(RanTwice, fmt.Sprintf("%d times", runs))
		}
		input, ran := end.Inputs[key]
		// A failover may have lost the first entry after it was started.
		if _, known := kept[input]; ran && input != entry.Ref && (known || !r.options.Failover) {
			add(WrongInput, fmt.Sprintf("that of entry %s of partition %d", input.ID, input.Partition))
		}
		if !held[key] {
			add(NeverRan, "Restate does not hold it")
		}
	}
	lost := map[string]bool{} // keys of which a failover may have left no entry
	if r.options.Failover {
		for _, key := range r.keys {
			lost[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(end.Runs)) {
		if _, known := first[key]; known {
			continue
		}
		if !lost[key] {
			found = append(found, Violation{Kind: Foreign, Partition: -1, Key: key, Detail: "it ran"})
		}
		if end.Runs[key] > 1 {
			found = append(found, Violation{Kind: RanTwice, Partition: -1, Key: key, Detail: fmt.Sprintf("%d times", end.Runs[key])})
		}
	}
	for _, key := range end.Started {
		if _, known := first[key]; !known && !lost[key] {
			found = append(found, Violation{Kind: Foreign, Partition: -1, Key: key, Detail: "Restate holds it"})
		}
	}
	return found
}
