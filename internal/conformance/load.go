package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// notImitated begins every reason why the fake answers differently.
const notImitated = "not imitated: "

// Load reads every JSON file of a directory in the order of names. It rejects unknown fields, profiles, answers and
// placeholders, invalid versions and incomplete steps.
func Load(directory fs.FS) (*Suite, error) {
	names, err := fs.Glob(directory, "*.json")
	if err != nil {
		return nil, fmt.Errorf("list the files of cases: %w", err)
	}
	suite := &Suite{Profiles: make(map[string]Profile), answers: make(map[string]Answer)}
	for _, name := range names {
		if err := suite.read(directory, name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(suite.Cases) == 0 {
		return nil, errors.New("no cases")
	}
	if err := suite.check(); err != nil {
		return nil, err
	}
	return suite, nil
}

func (s *Suite) read(directory fs.FS, name string) error {
	text, err := fs.ReadFile(directory, name)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var content file
	if err := decoder.Decode(&content); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON value")
	}
	for name, profile := range content.Profiles {
		if _, known := s.Profiles[name]; known {
			return fmt.Errorf("profile %q is a duplicate", name)
		}
		s.Profiles[name] = profile
	}
	for name, answer := range content.Answers {
		if _, known := s.answers[name]; known {
			return fmt.Errorf("answer %q is a duplicate", name)
		}
		s.answers[name] = answer
	}
	s.Cases = append(s.Cases, content.Cases...)
	return nil
}

func (s *Suite) check() error {
	for name, profile := range s.Profiles {
		if err := profile.check(); err != nil {
			return fmt.Errorf("profile %q: %w", name, err)
		}
	}
	bounds := []string{""}
	for name, answer := range s.answers {
		if err := answer.check(&bounds); err != nil {
			return fmt.Errorf("answer %q: %w", name, err)
		}
	}
	seen := make(map[string]bool)
	for i := range s.Cases {
		c := &s.Cases[i]
		c.answers = s.answers
		if c.Name == "" || seen[c.Name] {
			return fmt.Errorf("case %q: a unique name is required", c.Name)
		}
		seen[c.Name] = true
		if err := c.check(s.Profiles, bounds); err != nil {
			return fmt.Errorf("case %q: %w", c.Name, err)
		}
	}
	return nil
}

func (p Profile) check() error {
	if p.BodyLimit < 0 || p.ConcurrencyLimit < 0 {
		return errors.New("a limit is negative")
	}
	for _, service := range p.Services {
		if service.Name == "" || len(service.Handlers) == 0 {
			return fmt.Errorf("service %q: a name and a handler are required", service.Name)
		}
		if !slices.Contains([]Kind{KindWorkflow, KindService, KindObject}, service.Kind) {
			return fmt.Errorf("service %q: unknown kind %q", service.Name, service.Kind)
		}
		for _, handler := range service.Handlers {
			if handler.Name == "" || !slices.Contains([]Input{InputJSON, InputNone, InputBytes}, handler.Input) {
				return fmt.Errorf("handler %s/%q: a name and an input of json, none or bytes are required", service.Name, handler.Name)
			}
			if handler.Shared && service.Kind == KindService {
				return fmt.Errorf("handler %s/%s: a service has no shared handlers", service.Name, handler.Name)
			}
		}
	}
	return nil
}

// check checks the answer's own fields and adds the versions at which it changes to bounds.
func (a *Answer) check(bounds *[]string) error {
	if a.JSON != nil && a.Text != nil {
		return errors.New("an answer has json or text, not both")
	}
	if bytes.Equal(bytes.TrimSpace(a.JSON), []byte("null")) {
		return errors.New("json cannot be null")
	}
	for name := range a.Headers {
		if name != strings.ToLower(name) {
			return fmt.Errorf("header %q is not in lower case", name)
		}
	}
	for i := range a.Versions {
		versioned := &a.Versions[i]
		if versioned.Range == (Range{}) {
			return errors.New("an entry of versions needs since or before")
		}
		if err := versioned.check(); err != nil {
			return err
		}
		if len(versioned.Answer.Versions) > 0 {
			return errors.New("an entry of versions has no versions of its own")
		}
		*bounds = append(*bounds, versioned.Since, versioned.Before)
		if err := versioned.Answer.check(bounds); err != nil {
			return err
		}
	}
	return nil
}

func (c *Case) check(profiles map[string]Profile, bounds []string) error {
	if _, known := profiles[c.Profile]; !known {
		return fmt.Errorf("unknown profile %q", c.Profile)
	}
	if err := c.Range.check(); err != nil {
		return err
	}
	if reason, found := strings.CutPrefix(c.Fake, notImitated); c.Fake != "" && (!found || reason == "") {
		return fmt.Errorf("fake is %q, not %q and a reason", c.Fake, notImitated)
	}
	if len(c.Steps) == 0 {
		return errors.New("no steps")
	}
	held := make(map[string]bool)
	for i := range c.Steps {
		if err := c.checkStep(&c.Steps[i], held, slices.Clone(bounds)); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	if len(held) > 0 {
		return fmt.Errorf("the requests held on %q are never completed", slices.Sorted(maps.Keys(held)))
	}
	return nil
}

func (c *Case) checkStep(step *Step, held map[string]bool, bounds []string) error {
	switch {
	case (step.Request == nil) == (step.Rest == nil):
		return errors.New("a step has either a request or the rest of one")
	case step.Rest != nil && !held[step.On]:
		return fmt.Errorf("nothing is held on %q", step.On)
	case step.Request != nil && held[step.On]:
		return fmt.Errorf("a request is held on %q", step.On)
	case step.Hold && (step.Request == nil || step.On == "" || step.Cut):
		return errors.New("hold needs a request on a named connection, without cut")
	case step.Hold == (step.Answer != nil):
		return errors.New("a step has either an answer or hold")
	}
	if step.Rest != nil {
		delete(held, step.On)
		if err := checkSent(*step.Rest); err != nil {
			return err
		}
	} else if err := step.Request.check(step.Hold); err != nil {
		return err
	}
	if step.Hold {
		held[step.On] = true
		return nil
	}
	return c.checkAnswer(step.Answer, bounds)
}

func (r *Request) check(hold bool) error {
	if r.Method == "" || r.Target == "" {
		return errors.New("a request needs a method and a target")
	}
	if hold && !slices.Contains(r.Headers, "expect: 100-continue") {
		return errors.New("a held request needs the header expect: 100-continue")
	}
	texts := append([]string{r.Target}, r.Headers...)
	if r.Body != nil {
		texts = append(texts, *r.Body)
	}
	for _, text := range texts {
		if err := checkSent(text); err != nil {
			return err
		}
	}
	return nil
}

// checkAnswer completes the answer for each version at which it changes.
func (c *Case) checkAnswer(answer *Answer, bounds []string) error {
	if err := answer.check(&bounds); err != nil {
		return err
	}
	slices.Sort(bounds)
	for _, version := range slices.Compact(bounds) {
		want, err := c.Expect(answer, version)
		if err != nil {
			return err
		}
		if http.StatusText(want.Status) == "" {
			return fmt.Errorf("unknown status %d", want.Status)
		}
		if err := want.check(); err != nil {
			return err
		}
	}
	return nil
}
