package sink

import (
	"bytes"
	"math/bits"
	"strconv"
	"sync/atomic"
)

// Tally records which of the expected starts came, and which came twice. Keys are a prefix and a number from 0.
type Tally struct{ expected atomic.Pointer[expectation] }

type expectation struct {
	prefix     []byte
	count      int
	seen       []atomic.Uint64 // a bit for each number
	duplicates atomic.Int64
	strays     atomic.Int64
}

// Counts is what came since Expect.
type Counts struct {
	Distinct   int // expected keys that came
	Duplicates int // times one of them came again
	Strays     int // requests with another key, or that were no starts
}

// Expect forgets what came before, and expects the keys prefix0 to prefix(count-1), leading zeros allowed. What comes
// before the first call is not counted.
func (t *Tally) Expect(prefix string, count int) {
	t.expected.Store(&expectation{prefix: []byte(prefix), count: count, seen: make([]atomic.Uint64, (count+63)/64)})
}

// Counts returns what came since Expect.
func (t *Tally) Counts() Counts {
	expected := t.expected.Load()
	if expected == nil {
		return Counts{}
	}
	counts := Counts{Duplicates: int(expected.duplicates.Load()), Strays: int(expected.strays.Load())}
	for i := range expected.seen {
		counts.Distinct += bits.OnesCount64(expected.seen[i].Load())
	}
	return counts
}

// mark notes that a start of a key came.
func (t *Tally) mark(key []byte) {
	expected := t.expected.Load()
	if expected == nil {
		return
	}
	number, found := bytes.CutPrefix(key, expected.prefix)
	n, err := strconv.Atoi(string(number)) // the compiler does not copy what does not escape
	if !found || err != nil || n < 0 || n >= expected.count {
		expected.strays.Add(1)
		return
	}
	bit := uint64(1) << (n % 64)
	if expected.seen[n/64].Or(bit)&bit != 0 {
		expected.duplicates.Add(1)
	}
}

// stray notes a request that is no start.
func (t *Tally) stray() {
	if expected := t.expected.Load(); expected != nil {
		expected.strays.Add(1)
	}
}
