package check

import (
	"fmt"
	"time"
)

// Live tells what is broken so far, as far as the streams were told. It tells each Violation once.
func (r *Record) Live() []Violation {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := r.back
	r.back = nil
	for partition := range r.streams {
		found = append(found, r.passed(partition)...)
	}
	return found
}

// passed looks at the entries that a position has passed and that were not looked at before.
func (r *Record) passed(partition int) (found []Violation) {
	entries, samples := r.streams[partition], r.positions[partition]
	if r.before[partition] == nil {
		r.before[partition] = map[string]Ref{}
	}
	n := 0
	for _, entry := range entries[r.settled[partition]:] {
		for n < len(samples) && samples[n].id.Compare(entry.ID) < 0 {
			n++
		}
		if n == len(samples) {
			break // no position is that far
		}
		r.settled[partition]++
		if entry.Key == "" {
			continue
		}
		accepted, was := r.accepted[entry.Ref]
		if first := samples[n]; !was || !accepted.Before(first.at) {
			found = append(found, violation(Passed, entry, first.at,
				fmt.Sprintf("position %s was written at %s, %s", first.id, clock(first.at), told("accepted", accepted))))
		}
		found = append(found, r.overtaken(entry)...)
	}
	return found
}

// overtaken holds an entry against the one before it of the same key.
func (r *Record) overtaken(entry Entry) []Violation {
	before := r.before[entry.Partition]
	earlier, found := before[entry.Key]
	before[entry.Key] = entry.Ref
	requested, asked := r.requested[entry.Ref]
	if !found || !asked {
		return nil
	}
	accepted, was := r.accepted[earlier]
	if was && accepted.Before(requested) {
		return nil
	}
	return []Violation{violation(Disorder, entry, requested,
		fmt.Sprintf("requested at %s, and entry %s before it %s", clock(requested), earlier.ID, told("accepted", accepted)))}
}

func violation(kind Kind, entry Entry, at time.Time, detail string) Violation {
	return Violation{Kind: kind, Partition: entry.Partition, Entry: entry.ID, Key: entry.Key, At: at, Detail: detail}
}

func told(what string, at time.Time) string {
	if at.IsZero() {
		return "never " + what
	}
	return what + " at " + clock(at)
}

// clock is to the microsecond: a position that is too early may be so by little.
func clock(at time.Time) string { return at.UTC().Format("15:04:05.000000") }
