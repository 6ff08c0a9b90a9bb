package conformance

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// placeholder matches placeholders, but not JSON or Rust's debug output, which have a quote, a space or nothing after a brace.
var placeholder = regexp.MustCompile(`(?s)\{[a-z][a-z0-9]*(?:[: ][^{}]*)?\}`)

// expand replaces the placeholders of a request.
func expand(text, key string) (string, error) {
	var problem error
	expanded := placeholder.ReplaceAllStringFunc(text, func(found string) string {
		replacement, err := expandOne(found[1:len(found)-1], key)
		if err != nil {
			problem = fmt.Errorf("placeholder %s: %w", found, err)
		}
		return replacement
	})
	return expanded, problem
}

func expandOne(name, key string) (string, error) {
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case name == "key":
		return key, nil
	case kind == "base64":
		decoded, err := base64.StdEncoding.DecodeString(rest)
		return string(decoded), err
	case kind == "repeat":
		colon := strings.LastIndexByte(rest, ':')
		if colon < 0 {
			return "", fmt.Errorf("%q does not end with a number", rest)
		}
		times, err := strconv.Atoi(rest[colon+1:])
		if err != nil {
			return "", err
		}
		if times < 0 || times > 1<<20 {
			return "", fmt.Errorf("%d times is out of range", times)
		}
		return strings.Repeat(rest[:colon], times), nil
	}
	return "", errors.New("unknown in a request")
}

func checkSent(text string) error {
	_, err := expand(text, "")
	return err
}

// wildcards are the regular expressions of the placeholders of an answer.
var wildcards = map[string]string{
	"id":       `inv_1[0-9A-Za-z]{33}`,
	"time":     `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3}000000)?Z`, // no fraction at a whole second
	"accepted": `Accepted|PreviouslyAccepted`,
	"any":      `.*`,
}

// tolerance is the allowed error of an execution time.
const tolerance = 2 * time.Second

// Bindings are the values of the placeholders of a case. Make them with [NewBindings].
type Bindings struct {
	Key string

	sent  time.Time         // of the latest request
	ids   map[string]string // by the name in the placeholder
	times string            // the execution time; empty before the first
}

// NewBindings binds the key only.
func NewBindings(key string) *Bindings {
	return &Bindings{Key: key, sent: time.Now(), ids: make(map[string]string)}
}

// match matches a text against a pattern, binds its placeholders, and says what differs. Empty means nothing.
func (b *Bindings) match(pattern, text string) string {
	expression, found := b.expression(pattern)
	groups := expression.FindStringSubmatch(text)
	if groups == nil {
		return fmt.Sprintf("want %q, got %q", pattern, text)
	}
	for i, name := range found {
		if problem := b.bind(name, groups[i+1]); problem != "" {
			return problem
		}
	}
	return ""
}

// expression is a pattern as a regular expression, with a group for each placeholder found.
func (b *Bindings) expression(pattern string) (expression *regexp.Regexp, found []string) {
	var text strings.Builder
	text.WriteString(`(?s)\A`)
	end := 0
	for _, at := range placeholder.FindAllStringIndex(pattern, -1) {
		text.WriteString(regexp.QuoteMeta(pattern[end:at[0]]))
		end = at[1]
		name := pattern[at[0]+1 : at[1]-1]
		if name == "key" {
			text.WriteString(regexp.QuoteMeta(b.Key))
			continue
		}
		text.WriteString("(" + wildcards[wildcardKind(name)] + ")")
		found = append(found, name)
	}
	text.WriteString(regexp.QuoteMeta(pattern[end:]) + `\z`)
	return regexp.MustCompile(text.String()), found // of quoted text and the wildcards above
}

// wildcardKind is the first word of a placeholder of an answer.
func wildcardKind(name string) string {
	kind, _, _ := strings.Cut(name, ":")
	kind, _, _ = strings.Cut(kind, " in ")
	return kind
}

// checkWanted rejects placeholders that match nothing.
func checkWanted(pattern string) error {
	for _, found := range placeholder.FindAllString(pattern, -1) {
		name := found[1 : len(found)-1]
		if _, known := wildcards[wildcardKind(name)]; !known && name != "key" {
			return fmt.Errorf("placeholder %s: unknown in an answer", found)
		}
		if _, offset, delayed := strings.Cut(name, " in "); delayed {
			if _, err := time.ParseDuration(offset); err != nil {
				return fmt.Errorf("placeholder %s: %w", found, err)
			}
		}
	}
	return nil
}

func (b *Bindings) bind(name, text string) string {
	switch kind, _, _ := strings.Cut(name, ":"); {
	case kind == "id":
		return b.bindID(name, text)
	case strings.HasPrefix(kind, "time"):
		return b.bindTime(kind, text)
	}
	return ""
}

func (b *Bindings) bindID(name, id string) string {
	if bound, known := b.ids[name]; known && bound != id {
		return fmt.Sprintf("want {%s} to be %s as before, got %s", name, bound, id)
	}
	for other, bound := range b.ids {
		if other != name && bound == id {
			return fmt.Sprintf("want {%s} to differ from {%s}, got %s for both", name, other, id)
		}
	}
	b.ids[name] = id
	return ""
}

func (b *Bindings) bindTime(name, text string) string {
	if b.times != "" && b.times != text {
		return fmt.Sprintf("want {%s} to be %s as before, got %s", name, b.times, text)
	}
	b.times = text
	_, offset, delayed := strings.Cut(name, " in ")
	if !delayed {
		return ""
	}
	got, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return err.Error()
	}
	delay, err := time.ParseDuration(offset)
	if err != nil {
		return err.Error()
	}
	if got.Before(b.sent.Add(delay-tolerance)) || got.After(time.Now().Add(delay+tolerance)) {
		return fmt.Sprintf("want a time in %s, got %s, which is in %s", delay, text, time.Until(got))
	}
	return ""
}
