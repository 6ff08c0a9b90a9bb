package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Expectation is the complete answer of one version of the server. Exactly one of JSON and Text is set.
type Expectation struct {
	Status  int                `json:"status"`
	Headers map[string]*string `json:"headers"` // by name in lower case; nil is absent
	JSON    any                `json:"json,omitempty"`
	Text    *string            `json:"text,omitempty"`
}

// Expect completes the answer of a step: its own fields override those of the answer it builds on, and the changes of the
// version override both. An error means that the case is invalid.
func (c *Case) Expect(answer *Answer, version string) (Expectation, error) {
	lineage, err := c.lineage(answer, version)
	if err != nil {
		return Expectation{}, err
	}
	want := Expectation{Headers: make(map[string]*string)}
	for _, answer := range lineage {
		if err := want.change(answer); err != nil {
			return Expectation{}, err
		}
	}
	for _, answer := range lineage {
		for _, versioned := range answer.Versions {
			if !versioned.Covers(version) || versioned.Answer.Is != "" {
				continue
			}
			if err := want.change(&versioned.Answer); err != nil {
				return Expectation{}, err
			}
		}
	}
	switch {
	case want.Status == 0:
		return Expectation{}, errors.New("an answer needs a status")
	case want.JSON == nil && want.Text == nil:
		return Expectation{}, errors.New("an answer needs json or text")
	}
	return want, nil
}

// lineage is the answers that one builds on, followed by itself.
func (c *Case) lineage(answer *Answer, version string) ([]*Answer, error) {
	const deepest = 8 // more is a cycle
	var lineage []*Answer
	for len(lineage) < deepest {
		for i, versioned := range answer.Versions {
			if versioned.Covers(version) && versioned.Answer.Is != "" {
				answer = &answer.Versions[i].Answer
				break
			}
		}
		lineage = append(lineage, answer)
		if answer.Is == "" {
			slices.Reverse(lineage)
			return lineage, nil
		}
		base, known := c.answers[answer.Is]
		if !known {
			return nil, fmt.Errorf("no answer %q", answer.Is)
		}
		answer = &base
	}
	return nil, fmt.Errorf("answer %q builds on itself", answer.Is)
}

// change applies the fields of an answer.
func (e *Expectation) change(answer *Answer) error {
	if answer.Status != 0 {
		e.Status = answer.Status
	}
	maps.Copy(e.Headers, answer.Headers)
	if answer.Text != nil {
		e.Text, e.JSON = answer.Text, nil
	}
	if answer.JSON != nil {
		var patch any
		if err := json.Unmarshal(answer.JSON, &patch); err != nil {
			return fmt.Errorf("read json: %w", err)
		}
		e.JSON, e.Text = merged(e.JSON, patch), nil
	}
	return nil
}

// merged applies a JSON merge patch (RFC 7396).
func merged(value, patch any) any {
	changes, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	outcome := make(map[string]any)
	if object, isObject := value.(map[string]any); isObject {
		maps.Copy(outcome, object)
	}
	for name, change := range changes {
		if change == nil {
			delete(outcome, name)
			continue
		}
		outcome[name] = merged(outcome[name], change)
	}
	return outcome
}
