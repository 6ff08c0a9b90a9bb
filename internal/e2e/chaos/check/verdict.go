package check

import (
	"fmt"
	"maps"
	"slices"

	"github.com/redisevents/restatestart/internal/wire"
)

// End is how everything stands once nothing happens any more.
type End struct {
	Positions    map[int]wire.ID // stored
	Acknowledged []string        // messages that their publisher knows to be in a stream
	Runs         map[string]int  // by key, as the workflow's service counted them
	Inputs       map[string]Ref  // the entry whose input each key ran with
	Started      []string        // keys that Restate holds
}

// Verdict tells everything that is broken, of what Live did not tell. Tell all the streams before.
func (r *Record) Verdict(end End) []Violation {
	found := r.Live()
	r.mu.Lock()
	defer r.mu.Unlock()
	first := map[string]Entry{}
	kept := map[Ref]Entry{}
	messages := map[string]bool{}
	for _, partition := range slices.Sorted(maps.Keys(r.streams)) {
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
					Detail: told("requested", r.requested[entry.Ref]),
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
	found = append(found, r.strangers(kept)...)
	return append(found, r.runs(end, first, kept)...)
}

// strangers are requests that no entry explains.
func (r *Record) strangers(kept map[Ref]Entry) (found []Violation) {
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

// runs holds what the workflow's service and Restate say against the entries.
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
		// A failover may have taken the first entry along, after it was started.
		if _, known := kept[input]; ran && input != entry.Ref && (known || !r.options.Failover) {
			add(WrongInput, fmt.Sprintf("that of entry %s of partition %d", input.ID, input.Partition))
		}
		if !held[key] {
			add(NeverRan, "Restate does not hold it")
		}
	}
	gone := map[string]bool{} // keys of which a failover left no entry
	if r.options.Failover {
		for _, key := range r.keys {
			gone[key] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(end.Runs)) {
		if _, known := first[key]; known {
			continue
		}
		if !gone[key] {
			found = append(found, Violation{Kind: Foreign, Partition: -1, Key: key, Detail: "it ran"})
		}
		if end.Runs[key] > 1 {
			found = append(found, Violation{Kind: RanTwice, Partition: -1, Key: key, Detail: fmt.Sprintf("%d times", end.Runs[key])})
		}
	}
	for _, key := range end.Started {
		if _, known := first[key]; !known && !gone[key] {
			found = append(found, Violation{Kind: Foreign, Partition: -1, Key: key, Detail: "Restate holds it"})
		}
	}
	return found
}
