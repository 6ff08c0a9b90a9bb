package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// Response is a server's answer.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Differences describes how a response differs from the expectation, a line each. It binds the placeholders.
func (e *Expectation) Differences(got Response, bindings *Bindings) []string {
	var differences []string
	if e.Status != got.Status {
		differences = append(differences, fmt.Sprintf("status: want %d, got %d", e.Status, got.Status))
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		if problem := compareHeader(e.Headers[name], got.Header.Values(name), bindings); problem != "" {
			differences = append(differences, fmt.Sprintf("header %s: %s", name, problem))
		}
	}
	if e.Text != nil {
		if problem := bindings.match(*e.Text, string(got.Body)); problem != "" {
			differences = append(differences, "body: "+problem)
		}
		return differences
	}
	var value any
	if err := json.Unmarshal(got.Body, &value); err != nil {
		return append(differences, fmt.Sprintf("body: want JSON, got %q", got.Body))
	}
	return append(differences, compareJSON("json", e.JSON, value, bindings)...)
}

func compareHeader(want *string, got []string, bindings *Bindings) string {
	switch {
	case want == nil && len(got) == 0:
		return ""
	case want == nil:
		return fmt.Sprintf("want none, got %q", got)
	case len(got) == 0:
		return fmt.Sprintf("want %q, got none", *want)
	}
	return bindings.match(*want, strings.Join(got, ", "))
}

// unordered, as the first element of an array, allows any order of the others.
const unordered = "{unordered}"

func compareJSON(path string, want, got any, bindings *Bindings) []string {
	switch want := want.(type) {
	case map[string]any:
		if got, same := got.(map[string]any); same {
			return compareObject(path, want, got, bindings)
		}
	case []any:
		if got, same := got.([]any); same {
			return compareArray(path, want, got, bindings)
		}
	case string:
		if got, same := got.(string); same {
			if problem := bindings.match(want, got); problem != "" {
				return []string{path + ": " + problem}
			}
			return nil
		}
	default:
		if reflect.DeepEqual(want, got) {
			return nil
		}
	}
	return []string{fmt.Sprintf("%s: want %s, got %s", path, oneLine(want), oneLine(got))}
}

func compareObject(path string, want, got map[string]any, bindings *Bindings) []string {
	var differences []string
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, present := got[name]
		if !present {
			differences = append(differences, fmt.Sprintf("%s.%s: want %s, got none", path, name, oneLine(want[name])))
			continue
		}
		differences = append(differences, compareJSON(path+"."+name, want[name], value, bindings)...)
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, wanted := want[name]; !wanted {
			differences = append(differences, fmt.Sprintf("%s.%s: want none, got %s", path, name, oneLine(got[name])))
		}
	}
	return differences
}

func compareArray(path string, want, got []any, bindings *Bindings) []string {
	if len(want) > 0 && want[0] == unordered {
		want, got = sortedByText(want[1:]), sortedByText(got)
	}
	if len(want) != len(got) {
		return []string{fmt.Sprintf("%s: want %s, got %s", path, oneLine(want), oneLine(got))}
	}
	var differences []string
	for i := range want {
		differences = append(differences, compareJSON(fmt.Sprintf("%s[%d]", path, i), want[i], got[i], bindings)...)
	}
	return differences
}

func sortedByText(values []any) []any {
	return slices.SortedFunc(slices.Values(values), func(a, b any) int { return strings.Compare(oneLine(a), oneLine(b)) })
}

func oneLine(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// check rejects placeholders that match nothing.
func (e *Expectation) check() error {
	for name, value := range e.Headers {
		if value == nil {
			continue
		}
		if err := checkWanted(*value); err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
	}
	if e.Text != nil {
		return checkWanted(*e.Text)
	}
	return checkPatterns(e.JSON)
}

func checkPatterns(value any) error {
	switch value := value.(type) {
	case string:
		return checkWanted(value)
	case []any:
		for i, element := range value {
			if i == 0 && element == unordered {
				continue
			}
			if err := checkPatterns(element); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, element := range value {
			if err := checkPatterns(element); err != nil {
				return err
			}
		}
	}
	return nil
}
