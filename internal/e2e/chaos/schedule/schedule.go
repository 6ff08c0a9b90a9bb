// Package schedule deals faults: what goes wrong, when, and for how long, all of it from a seed, so that a run can be
// repeated. It knows nothing of what the faults are.
package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Domain is what goes wrong by itself: of one domain there is one fault at a time, and those of different domains
// meet as they may.
type Domain struct {
	Name  string
	Kinds []Kind // every one is dealt before any comes again; one that stands here twice comes twice as often
	// Quiet is the time between two faults: at least, and at most.
	QuietMin, QuietMax time.Duration
}

// Kind is a kind of fault and how long it lasts: at least, and at most.
type Kind struct {
	Name     string
	Min, Max time.Duration
}

// Fault is one entry of a schedule.
type Fault struct {
	Domain string
	Kind   string
	At     time.Duration // since the beginning
	For    time.Duration // how long it lasts
	Choice int           // not negative; for a kind that comes in several forms
}

// String is such as `12.3s freeze 10s`.
func (f Fault) String() string {
	return fmt.Sprintf("%.1fs %s %.1fs", f.At.Seconds(), f.Kind, f.For.Seconds())
}

// Schedule is the faults of a run, those of each domain in order.
type Schedule map[string][]Fault

// Deal makes the schedule of a seed. No fault lasts beyond the duration.
func Deal(seed uint64, duration time.Duration, domains ...Domain) Schedule {
	schedule := make(Schedule, len(domains))
	for _, domain := range domains {
		// Each domain has a sequence of its own: another kind in one leaves the others as they are.
		random := rand.New(rand.NewPCG(seed, hash(domain.Name)))
		schedule[domain.Name] = deal(random, duration, domain)
	}
	return schedule
}

func deal(random *rand.Rand, duration time.Duration, domain Domain) []Fault {
	var faults []Fault
	at := time.Duration(0)
	for {
		deck := slices.Clone(domain.Kinds)
		random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		for _, kind := range deck {
			at += between(random, domain.QuietMin, domain.QuietMax)
			lasts := between(random, kind.Min, kind.Max)
			if at+lasts > duration || at+lasts == 0 {
				return faults
			}
			faults = append(faults, Fault{Domain: domain.Name, Kind: kind.Name, At: at, For: lasts, Choice: int(random.Uint32() >> 1)})
			at += lasts
		}
	}
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return (least + time.Duration(random.Int64N(int64(most-least)+1))).Truncate(time.Millisecond)
}

func hash(name string) uint64 {
	var sum uint64 = 14695981039346656037 // FNV-1a
	for _, b := range []byte(name) {
		sum = (sum ^ uint64(b)) * 1099511628211
	}
	return sum
}

// String is a line for each domain.
func (s Schedule) String() string {
	names := make([]string, 0, len(s))
	for name := range s {
		names = append(names, name)
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		fmt.Fprintf(&text, "%s:", name)
		for i, fault := range s[name] {
			if i > 0 {
				text.WriteByte(',')
			}
			text.WriteString(" " + fault.String())
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// Count is how many faults there are of each kind, by domain and kind.
func (s Schedule) Count() map[string]int {
	counts := map[string]int{}
	for _, faults := range s {
		for _, fault := range faults {
			counts[fault.Domain+" "+fault.Kind]++
		}
	}
	return counts
}
