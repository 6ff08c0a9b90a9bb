package check_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/wire"
)

// at is a moment of a history that was made up, in milliseconds.
func at(ms int) time.Time { return time.UnixMilli(1_726_000_000_000 + int64(ms)) }

func ref(n int) check.Ref { return check.Ref{ID: wire.ID{Ms: uint64(n)}} }

func entry(n int, key string) check.Entry {
	return check.Entry{Ref: ref(n), Key: key, Message: fmt.Sprintf("m-%d", n)}
}

// history is four entries of one partition, of which three are kept and two have one key, and how it should go.
type history struct {
	*check.Record

	end check.End
}

func newHistory(options check.Options) *history {
	h := &history{Record: check.New(options), end: check.End{
		Positions:    map[int]wire.ID{0: ref(4).ID},
		Acknowledged: []string{"m-1", "m-2", "m-3", "m-4"},
		Runs:         map[string]int{"a": 1, "b": 1},
		Inputs:       map[string]check.Ref{"a": ref(1), "b": ref(4)},
		Started:      []string{"a", "b"},
	}}
	h.Append(0, entry(1, "a"), entry(2, ""), entry(3, "a"), entry(4, "b"))
	return h
}

// start is a start that takes a millisecond.
func (h *history) start(n int, key string, ms int) {
	h.Requested(ref(n), key, at(ms))
	h.Accepted(ref(n), false, at(ms+1))
}

// passed moves the position: written at once, and read a millisecond later.
func (h *history) passed(n, ms int) { h.Position(0, ref(n).ID, at(ms), at(ms+1)) }

// good is a history without a fault.
func good(h *history) {
	h.start(1, "a", 0)
	h.passed(2, 10)
	h.start(3, "a", 20)
	h.start(4, "b", 20)
	h.passed(4, 30)
}

func kinds(violations []check.Violation) []check.Kind {
	found := []check.Kind{}
	for _, violation := range violations {
		found = append(found, violation.Kind)
	}
	return found
}

func TestEachBrokenPromiseIsFoundByItself(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(h *history)
		want    []check.Kind
	}{
		"nothing is broken": {happens: good},
		"a start that comes again is none": {happens: func(h *history) {
			good(h)
			h.Requested(ref(3), "a", at(40))
			h.Accepted(ref(3), true, at(41))
		}},
		"a position that is seen again is none": {happens: func(h *history) {
			good(h)
			h.passed(4, 40)
		}},
		"the position is written before the answer": {happens: func(h *history) {
			h.start(1, "a", 0)
			h.Requested(ref(3), "a", at(20))
			h.start(4, "b", 20)
			h.passed(4, 30)
			h.Accepted(ref(3), false, at(30))
		}, want: []check.Kind{check.Passed}},
		"the position is written before the answer, and read after it": {happens: func(h *history) {
			h.start(1, "a", 0)
			h.start(3, "a", 20)
			h.start(4, "b", 20)
			h.Position(0, ref(4).ID, at(15), at(60))
		}, want: []check.Kind{check.Passed, check.Passed}},
		"the position is read before the answer, and nobody knows when it was written": {happens: func(h *history) {
			h.start(1, "a", 0)
			h.start(3, "a", 20)
			h.Position(0, ref(4).ID, time.Time{}, at(21))
			h.start(4, "b", 30)
		}, want: []check.Kind{check.Passed, check.Passed}},
		"an entry is never started": {happens: func(h *history) {
			h.start(1, "a", 0)
			h.start(4, "b", 20)
			h.passed(4, 30)
		}, want: []check.Kind{check.Passed, check.Lost}},
		"the position stays where it is": {happens: func(h *history) {
			good(h)
			h.end.Positions[0] = ref(3).ID
		}, want: []check.Kind{check.NotAtTheEnd}},
		"the position moves back": {happens: func(h *history) {
			good(h)
			h.passed(3, 40)
			h.passed(4, 50)
		}, want: []check.Kind{check.Backward}},
		"the position moves back because it was asked to": {happens: func(h *history) {
			good(h)
			h.Reset(0, ref(2).ID)
			h.passed(3, 40) // and on, by the time that it is seen
			h.passed(4, 50)
		}},
		"the position moves back further than it was asked to": {happens: func(h *history) {
			good(h)
			h.Reset(0, ref(2).ID)
			h.passed(1, 40)
			h.passed(4, 50)
		}, want: []check.Kind{check.Backward}},
		"the position moves back twice and was asked to once": {happens: func(h *history) {
			good(h)
			h.Reset(0, ref(2).ID)
			h.passed(2, 40)
			h.passed(4, 50)
			h.passed(2, 60)
			h.passed(4, 70)
		}, want: []check.Kind{check.Backward}},
		"the second of a key is asked for before the first is answered": {happens: func(h *history) {
			h.Requested(ref(1), "a", at(0))
			h.start(3, "a", 1)
			h.Accepted(ref(1), false, at(3))
			h.start(4, "b", 20)
			h.passed(4, 30)
		}, want: []check.Kind{check.Disorder}},
		"a key never runs": {happens: func(h *history) {
			good(h)
			delete(h.end.Runs, "b")
			delete(h.end.Inputs, "b")
		}, want: []check.Kind{check.NeverRan}},
		"Restate does not hold a key": {happens: func(h *history) {
			good(h)
			h.end.Started = []string{"a"}
		}, want: []check.Kind{check.NeverRan}},
		"a key runs twice": {happens: func(h *history) {
			good(h)
			h.end.Runs["a"] = 2
		}, want: []check.Kind{check.RanTwice}},
		"a key runs with the input of its second entry": {happens: func(h *history) {
			good(h)
			h.end.Inputs["a"] = ref(3)
		}, want: []check.Kind{check.WrongInput}},
		"an entry that is not kept is started": {happens: func(h *history) {
			good(h)
			h.start(2, "a", 40)
		}, want: []check.Kind{check.Foreign}},
		"an entry is started under another key": {happens: func(h *history) {
			h.start(1, "b", 0)
			h.start(3, "a", 20)
			h.start(4, "b", 20)
			h.passed(4, 30)
		}, want: []check.Kind{check.Foreign}},
		"an entry that is nowhere is started": {happens: func(h *history) {
			good(h)
			h.start(5, "a", 40)
		}, want: []check.Kind{check.Foreign}},
		"a key runs that no entry has": {happens: func(h *history) {
			good(h)
			h.end.Runs["c"] = 1
		}, want: []check.Kind{check.Foreign}},
		"Restate holds a key that no entry has": {happens: func(h *history) {
			good(h)
			h.end.Started = append(h.end.Started, "c")
		}, want: []check.Kind{check.Foreign}},
		"a message is gone": {happens: func(h *history) {
			good(h)
			h.end.Acknowledged = append(h.end.Acknowledged, "m-5")
		}, want: []check.Kind{check.Vanished}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(check.Options{})
			c.happens(h)
			assert.ElementsMatch(t, c.want, kinds(h.Verdict(h.end)))
		})
	}
}

func TestAFailoverMayTakeEntriesAndPositionsAlong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(h *history)
		want    []check.Kind
	}{
		"what was started of a lost entry stays started": {happens: func(h *history) {
			h.start(5, "c", 0)
			h.start(6, "b", 0) // ran with the input of an entry that is gone
			good(h)
			h.end.Runs["c"], h.end.Inputs["c"], h.end.Inputs["b"] = 1, ref(5), ref(6)
			h.end.Started = append(h.end.Started, "c")
		}},
		"it must not run twice for that": {happens: func(h *history) {
			h.start(5, "c", 0)
			good(h)
			h.end.Runs["c"] = 2
		}, want: []check.Kind{check.RanTwice}},
		"a position that was lost has passed nothing": {happens: func(h *history) {
			h.start(1, "a", 0)
			h.passed(2, 10)
			h.passed(9, 15)
			h.passed(2, 16)
			h.start(3, "a", 20)
			h.start(4, "b", 20)
			h.passed(4, 30)
		}},
		"one that was kept has": {happens: func(h *history) {
			h.start(1, "a", 0)
			h.passed(3, 15)
			h.start(3, "a", 20)
			h.start(4, "b", 20)
			h.passed(4, 30)
		}, want: []check.Kind{check.Passed}},
		"a key that nobody asked for is foreign all the same": {happens: func(h *history) {
			good(h)
			h.end.Runs["c"] = 1
		}, want: []check.Kind{check.Foreign}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(check.Options{Failover: true})
			c.happens(h)
			assert.ElementsMatch(t, c.want, kinds(h.Verdict(h.end)))
		})
	}
}

func TestLiveTellsEachViolationOnceAndAsSoonAsItIsKnown(t *testing.T) {
	t.Parallel()
	h := newHistory(check.Options{})
	h.start(1, "a", 0)
	assert.Empty(t, h.Live(), "no position has passed anything")
	h.passed(3, 10)
	found := h.Live()
	assert.Equal(t, []check.Kind{check.Passed}, kinds(found))
	assert.Equal(t, "a position passed a start that was not accepted, partition 0, entry 3-0, key a: "+
		"position 3-0 was written at 20:26:40.010000, never accepted", found[0].String())
	assert.Empty(t, h.Live())
	h.start(3, "a", 20)
	h.start(4, "b", 20)
	h.passed(4, 30)
	h.passed(3, 40)
	h.passed(4, 50)
	assert.Equal(t, []check.Kind{check.Backward}, kinds(h.Verdict(h.end)))
}

func TestNumbersCountWhatWasTold(t *testing.T) {
	t.Parallel()
	h := newHistory(check.Options{})
	good(h)
	h.Accepted(ref(3), true, at(41))
	assert.Equal(t, check.Numbers{Entries: 4, Kept: 3, Keys: 2, Accepted: 3, Repeats: 1, Positions: 2}, h.Numbers())
}
