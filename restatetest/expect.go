package restatetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxListed is how many keys a failure lists.
const maxListed = 20

// ExpectStarted reports an error, without ending the test, unless exactly these keys of the workflow were started. It lists the missing
// keys, with their last answers, and the unexpected ones. Order and repetition do not matter.
func (s *Server) ExpectStarted(tb TB, workflow string, keys ...string) {
	tb.Helper()
	started := s.StartedKeys(workflow)
	expected := slices.Compact(slices.Sorted(slices.Values(keys)))
	missing, unexpected := without(expected, started), without(started, expected)
	if len(missing)+len(unexpected) == 0 {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %d keys were started, %d expected", workflow, len(started), len(expected))
	list(&text, "not started", missing)
	for _, key := range missing[:min(len(missing), maxListed)] {
		if requests, last := s.lastAnswer(key); requests > 0 {
			fmt.Fprintf(&text, "\n\t%q: %d requests, the last answered %d", key, requests, last)
		}
	}
	list(&text, "started unexpectedly", unexpected)
	tb.Errorf("%s", text.String())
}

// lastAnswer counts the requests for a key and returns the status of the last.
func (s *Server) lastAnswer(key string) (requests, status int) {
	for _, request := range s.Requests() {
		if request.Key == key {
			requests++
			status = request.Status
		}
	}
	return requests, status
}

// without returns the elements of the sorted keys that the sorted others lack.
func without(keys, others []string) []string {
	var left []string
	for _, key := range keys {
		if _, found := slices.BinarySearch(others, key); !found {
			left = append(left, key)
		}
	}
	return left
}

func list(text *strings.Builder, title string, keys []string) {
	if len(keys) == 0 {
		return
	}
	fmt.Fprintf(text, "\n\t%s: %q", title, keys[:min(len(keys), maxListed)])
	if more := len(keys) - maxListed; more > 0 {
		fmt.Fprintf(text, " and %d more", more)
	}
}

// ExpectOrder reports an error, without ending the test, unless exactly these keys of the workflow were started, in this order. A key
// that started again after it was forgotten appears again. The error shows both sides and marks the first difference.
func (s *Server) ExpectOrder(tb TB, workflow string, keys ...string) {
	tb.Helper()
	started := s.keysInOrder(workflow)
	if slices.Equal(started, keys) {
		return
	}
	first := 0
	for first < min(len(started), len(keys)) && started[first] == keys[first] {
		first++
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %d keys were started, %d expected; the first difference is at %d", workflow, len(started), len(keys), first+1)
	from, to := max(0, first-maxListed/2), min(max(len(started), len(keys)), first+maxListed/2)
	width := len("expected")
	for i := from; i < min(to, len(keys)); i++ {
		width = max(width, utf8.RuneCountInString(strconv.Quote(keys[i])))
	}
	fmt.Fprintf(&text, "\n\t         %-*s  started", width, "expected")
	for i := from; i < to; i++ {
		mark := ' '
		if i == first {
			mark = '>'
		}
		fmt.Fprintf(&text, "\n\t%c %5d  %-*s  %s", mark, i+1, width, at(keys, i), at(started, i))
	}
	tb.Errorf("%s", text.String())
}

func at(keys []string, i int) string {
	if i >= len(keys) {
		return "-"
	}
	return strconv.Quote(keys[i])
}

// ExpectBody reports an error, without ending the test, unless the key of the workflow was started with this body, byte for byte. Of
// several starts the latest counts. The error shows both bodies around the first difference and marks it.
func (s *Server) ExpectBody(tb TB, workflow, key, body string) {
	tb.Helper()
	started, found := s.latest(workflow, key)
	switch {
	case !found:
		tb.Errorf("%s/%s was not started", workflow, key)
	case started != body:
		first := 0
		for first < min(len(started), len(body)) && started[first] == body[first] {
			first++
		}
		expected, column := excerpt(body, first)
		got, _ := excerpt(started, first)
		tb.Errorf("%s/%s was started with another body, different from byte %d on\n\texpected: %s\n\t     got: %s\n\t%s^",
			workflow, key, first, expected, got, strings.Repeat(" ", len("expected: ")+column))
	}
}

func (s *Server) latest(workflow, key string) (body string, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, start := range slices.Backward(s.invocations.all) {
		if s.isStartOf(start, workflow) && start.key == key {
			return string(start.Body), true
		}
	}
	return "", false
}

// excerpt is the text around a position, escaped to one line, and the position's column in it.
func excerpt(text string, place int) (line string, column int) {
	const around = 60
	quoted := func(text string) string {
		whole := strconv.Quote(text)
		return strings.ReplaceAll(whole[1:len(whole)-1], `\"`, `"`)
	}
	from, to := max(0, place-around), min(len(text), place+around)
	before, after := quoted(text[from:place]), quoted(text[place:to])
	if from > 0 {
		before = "…" + before
	}
	if to < len(text) {
		after += "…"
	}
	return before + after, utf8.RuneCountInString(before)
}
