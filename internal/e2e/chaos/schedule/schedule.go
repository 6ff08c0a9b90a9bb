// Package schedule makes faults from a seed: which, when, and for how long. The same seed repeats a run. What the faults do is
// up to its caller.
package schedule

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Domain is one source of faults. It has one fault at a time; those of different domains overlap.
type Domain struct {
	Name               string
	Kinds              []Kind        // each occurs once before any occurs again; one that is listed twice occurs twice as often
	QuietMin, QuietMax time.Duration // between two faults
}

// Kind is a kind of fault and how long it lasts.
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
	Choice int           // not negative; selects among the forms of a kind
}

// String is such as `12.3s freeze 10s`.
func (f Fault) String() string {
	return fmt.Sprintf("%.1fs %s %.1fs", f.At.Seconds(), f.Kind, f.For.Seconds())
}

// Schedule is the faults of a run, those of each domain in order.
type Schedule map[string][]Fault

// New makes the schedule of a seed. No fault lasts beyond the duration.
func New(seed uint64, duration time.Duration, domains ...Domain) Schedule {
	schedule := make(Schedule, len(domains))
	for _, domain := range domains {
		// Each domain has its own sequence: a change of one leaves the others as they are.
		random := rand.New(rand.NewPCG(seed, hash(domain.Name)))
		schedule[domain.Name] = faultsOf(random, duration, domain)
	}
	return schedule
}

func faultsOf(random *rand.Rand, duration time.Duration, domain Domain) []Fault {
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
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name)) // it never fails
	return sum.Sum64()
}

// String is a line for each domain.
func (s Schedule) String() string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s)) {
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
