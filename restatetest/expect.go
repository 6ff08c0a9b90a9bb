package restatetest

import (
	"fmt"
	"slices"
	"strings"
)

// maxListed is how many keys a failure names before it only counts.
const maxListed = 20

// ExpectStarted fails the test, which goes on, unless exactly these keys of the workflow were started. It names the missing
// and the unexpected ones. The order and repetition of keys do not matter.
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
	list(&text, "started unexpectedly", unexpected)
	tb.Errorf("%s", text.String())
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
