package check_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/wire"
)

// at is a moment of a history, in milliseconds.
func at(ms int) time.Time { return time.UnixMilli(1_726_000_000_000 + int64(ms)) }

func ref(n int) check.Ref { return check.Ref{ID: wire.ID{Ms: uint64(n)}} }

// history is four entries of one partition, of which three are kept and two have one key, and how it should end.
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
	var entries []check.Entry
	for n, key := range []string{"a", "", "a", "b"} {
		entries = append(entries, check.Entry{Ref: ref(n + 1), Key: key, Message: fmt.Sprintf("m-%d", n+1)})
	}
	h.Stream(0, entries...)
	return h
}

// good is a history without a violation.
const good = "start 1a@0, pass 2@10, start 3a@20, start 4b@20, pass 4@30"

// play records events such as "start 1a@0": entry 1, with key a, at 0 ms.
//
//	request, accept, again: a start's request, its answer, and the answer PreviouslyAccepted
//	start: its request, and its answer a millisecond later
//	pass: the position, written then and read a millisecond later
//	reset: of the position
func (h *history) play(t *testing.T, script string) {
	t.Helper()
	for event := range strings.SplitSeq(script, ", ") {
		var what, rest, key string
		var n, ms int
		_, err := fmt.Sscanf(event, "%s %d%s", &what, &n, &rest)
		require.NoError(t, err, event)
		key, rest, _ = strings.Cut(rest, "@")
		_, err = fmt.Sscan(rest, &ms)
		require.NoError(t, err, event)
		switch what {
		case "request":
			h.Requested(ref(n), key, at(ms))
		case "accept", "again":
			h.Accepted(ref(n), what == "again", at(ms))
		case "start":
			h.Requested(ref(n), key, at(ms))
			h.Accepted(ref(n), false, at(ms+1))
		case "pass":
			h.Position(0, ref(n).ID, at(ms), at(ms+1))
		case "reset":
			h.Reset(0, ref(n).ID)
		default:
			require.Fail(t, "unknown event", event)
		}
	}
}

func kinds(violations []check.Violation) []check.Kind {
	found := []check.Kind{}
	for _, violation := range violations {
		found = append(found, violation.Kind)
	}
	return found
}

func TestEachViolationIsFoundByItself(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		script   string
		end      func(h *history)
		failover bool
		want     []check.Kind
	}{
		"nothing is violated":           {script: good},
		"a start may be repeated":       {script: good + ", request 3a@40, again 3@41"},
		"a position may be seen again":  {script: good + ", pass 4@40"},
		"a position before the answer":  {script: "start 1a@0, request 3a@20, start 4b@20, pass 4@30, accept 3@30", want: []check.Kind{check.Passed}},
		"an entry is never started":     {script: "start 1a@0, start 4b@20, pass 4@30", want: []check.Kind{check.Passed, check.Lost}},
		"a position moves back":         {script: good + ", pass 3@40, pass 4@50", want: []check.Kind{check.Backward}},
		"a reset moves a position back": {script: good + ", reset 2@40, pass 3@40, pass 4@50"},
		"further back than the reset":   {script: good + ", reset 2@40, pass 1@40, pass 4@50", want: []check.Kind{check.Backward}},
		"twice back for one reset":      {script: good + ", reset 2@40, pass 2@40, pass 4@50, pass 2@60, pass 4@70", want: []check.Kind{check.Backward}},
		"a start overtakes":             {script: "request 1a@0, start 3a@1, accept 1@3, start 4b@20, pass 4@30", want: []check.Kind{check.Disorder}},
		"an entry that is not kept":     {script: good + ", start 2a@40", want: []check.Kind{check.Foreign}},
		"another key":                   {script: "start 1b@0, start 3a@20, start 4b@20, pass 4@30", want: []check.Kind{check.Foreign}},
		"an entry that does not exist":  {script: good + ", start 5a@40", want: []check.Kind{check.Foreign}},
		"a position before the end":     {script: good, end: func(h *history) { h.end.Positions[0] = ref(3).ID }, want: []check.Kind{check.NotAtTheEnd}},
		"a key never runs":              {script: good, end: func(h *history) { delete(h.end.Runs, "b"); delete(h.end.Inputs, "b") }, want: []check.Kind{check.NeverRan}},
		"Restate does not hold a key":   {script: good, end: func(h *history) { h.end.Started = []string{"a"} }, want: []check.Kind{check.NeverRan}},
		"a key runs twice":              {script: good, end: func(h *history) { h.end.Runs["a"] = 2 }, want: []check.Kind{check.RanTwice}},
		"the input of the second entry": {script: good, end: func(h *history) { h.end.Inputs["a"] = ref(3) }, want: []check.Kind{check.WrongInput}},
		"an unknown key runs":           {script: good, end: func(h *history) { h.end.Runs["c"] = 1 }, want: []check.Kind{check.Foreign}},
		"Restate holds an unknown key":  {script: good, end: func(h *history) { h.end.Started = append(h.end.Started, "c") }, want: []check.Kind{check.Foreign}},
		"a message vanishes":            {script: good, end: func(h *history) { h.end.Acknowledged = append(h.end.Acknowledged, "m-5") }, want: []check.Kind{check.Vanished}},
		"written early, read late": {
			script: "start 1a@0, start 3a@20, start 4b@20", want: []check.Kind{check.Passed, check.Passed},
			end: func(h *history) { h.Position(0, ref(4).ID, at(15), at(60)) },
		},
		"read early, written at an unknown time": {
			script: "start 1a@0, start 3a@20", want: []check.Kind{check.Passed, check.Passed},
			end: func(h *history) {
				h.Position(0, ref(4).ID, time.Time{}, at(21))
				h.Requested(ref(4), "b", at(30))
				h.Accepted(ref(4), false, at(31))
			},
		},
		"a failover loses entries that were started": {
			script: "start 5c@0, start 6b@0, " + good, failover: true,
			end: func(h *history) {
				h.end.Runs["c"], h.end.Inputs["c"], h.end.Inputs["b"] = 1, ref(5), ref(6)
				h.end.Started = append(h.end.Started, "c")
			},
		},
		"a lost entry runs twice":          {script: "start 5c@0, " + good, failover: true, end: func(h *history) { h.end.Runs["c"] = 2 }, want: []check.Kind{check.RanTwice}},
		"a lost position skips nothing":    {script: "start 1a@0, pass 2@10, pass 9@15, pass 2@16, start 3a@20, start 4b@20, pass 4@30", failover: true},
		"a position that was kept does":    {script: "start 1a@0, pass 3@15, start 3a@20, start 4b@20, pass 4@30", failover: true, want: []check.Kind{check.Passed}},
		"a failover explains no other key": {script: good, failover: true, end: func(h *history) { h.end.Runs["c"] = 1 }, want: []check.Kind{check.Foreign}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(check.Options{Failover: row.failover})
			h.play(t, row.script)
			if row.end != nil {
				row.end(h)
			}
			assert.ElementsMatch(t, row.want, kinds(h.Verdict(h.end)))
		})
	}
}

func TestAViolationNamesWhatIsKnown(t *testing.T) {
	t.Parallel()
	h := newHistory(check.Options{})
	h.play(t, "start 1a@0, pass 3@10, again 3@11, start 3a@20, start 4b@20, pass 4@30")
	found := h.Verdict(h.end)
	require.Equal(t, []check.Kind{check.Passed}, kinds(found))
	assert.Equal(t, "a position passed a start that was not accepted, partition 0, entry 3-0, key a: "+
		"position 3-0 was written at 20:26:40.010000, accepted at 20:26:40.011000", found[0].String())
	assert.Equal(t, check.Numbers{Entries: 4, Kept: 3, Keys: 2, Accepted: 3, Repeats: 1, Positions: 2}, h.Numbers())
}
