package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// Target is a server to check against the cases of one profile.
type Target struct {
	Name    string // for messages, such as restate-server
	Version string // of the server, or of the one that is faked, such as 1.7.12
	Profile string // that the server was set up with
	Fake    bool   // it is the fake: its cases with a Fake reason must fail
	// Dial opens a connection to the server. It is called once for each connection of a case.
	Dial func(ctx context.Context) (net.Conn, error)
}

// Tally counts the cases of a run.
type Tally struct {
	Cases         int // that ran, deviations included
	Steps         int // of those cases
	Deviations    int // that the fake answers differently, as they say
	OtherVersions int // that did not run: they do not apply to the version
}

func (t Tally) String() string {
	return fmt.Sprintf("%d cases in %d steps, %d of them deviations, %d more for other versions only",
		t.Cases, t.Steps, t.Deviations, t.OtherVersions)
}

// Run runs the cases of the target's profile as subtests, one after the other, and counts them.
func (s *Suite) Run(t *testing.T, target Target) Tally {
	t.Helper()
	if _, known := s.Profiles[target.Profile]; !known {
		t.Fatalf("no profile %q", target.Profile)
	}
	if _, err := parseVersion(target.Version); err != nil {
		t.Fatal(err)
	}
	var tally Tally
	for i := range s.Cases {
		c := &s.Cases[i]
		if c.Profile != target.Profile {
			continue
		}
		if !c.Covers(target.Version) {
			tally.OtherVersions++
			continue
		}
		tally.Cases++
		tally.Steps += len(c.Steps)
		excused := target.Fake && c.Fake != ""
		if excused {
			tally.Deviations++
		}
		t.Run(c.Name, func(t *testing.T) { //nolint:paralleltest // they share a server whose requests may be limited to one
			message, passed := verdict(c.Try(t.Context(), target), c.Fake, excused)
			if message != "" {
				t.Log(message)
			}
			if !passed {
				t.Fail()
			}
		})
	}
	return tally
}

// verdict decides whether a case's test passes. An excused case passes only with a mismatch: once the fake answers as the
// server does, its reason has to be removed.
func verdict(err error, reason string, excused bool) (message string, passed bool) {
	var mismatch *MismatchError
	switch {
	case excused && err == nil:
		return fmt.Sprintf("the case says %q, but the answer is as expected: remove the reason", reason), false
	case excused && errors.As(err, &mismatch):
		return fmt.Sprintf("%s: %s", reason, strings.Join(mismatch.Differences, "; ")), true
	case err != nil:
		return err.Error(), false
	}
	return "", true
}

// MismatchError is an answer that differs from the expected one.
type MismatchError struct {
	Target      Target
	Case        string
	Step        int // from 1
	Steps       int // of the case
	Sent        string
	Want        Expectation
	Got         Response
	Differences []string // in one line each
}

// Error shows the differences, the request and both answers, with long texts shortened.
func (e *MismatchError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s, case %q, step %d of %d:\n", e.Target.Name, e.Target.Version, e.Case, e.Step, e.Steps)
	for _, difference := range e.Differences {
		fmt.Fprintf(&text, "  %s\n", shortened(difference))
	}
	fmt.Fprintf(&text, "sent: %s\nwant: %s\n", shortened(fmt.Sprintf("%q", e.Sent)), oneLine(e.Want))
	fmt.Fprintf(&text, "got:  %s", oneLine(map[string]any{"status": e.Got.Status, "headers": e.Got.Header, "body": string(e.Got.Body)}))
	return text.String()
}

func shortened(text string) string {
	const longest = 400
	if len(text) <= longest {
		return text
	}
	return fmt.Sprintf("%s … (%d bytes)", text[:longest], len(text))
}

// Try runs one case, up to the first answer that is not as expected: a [*MismatchError]. Any other error means that
// there was no answer to compare.
func (c *Case) Try(ctx context.Context, target Target) error {
	attempt := attempt{
		target: target, testCase: c, bindings: NewBindings(newKey()), connections: make(map[string]*connection),
	}
	defer func() {
		for _, conn := range attempt.connections {
			conn.close()
		}
	}()
	for i := range c.Steps {
		err := attempt.step(ctx, &c.Steps[i])
		var mismatch *MismatchError
		switch {
		case errors.As(err, &mismatch):
			mismatch.Step = i + 1
			return err
		case err != nil:
			return fmt.Errorf("%s %s, case %q, step %d of %d: %w", target.Name, target.Version, c.Name, i+1, len(c.Steps), err)
		}
	}
	return nil
}

// newKey returns a random key.
func newKey() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}

// attempt is one run of a case.
type attempt struct {
	target      Target
	testCase    *Case
	bindings    *Bindings
	connections map[string]*connection // named ones
}

func (a *attempt) step(ctx context.Context, step *Step) error {
	conn, err := a.connection(ctx, step.On)
	if err != nil {
		return err
	}
	if step.On == "" {
		defer conn.close()
	}
	text, err := a.text(step)
	if err != nil {
		return err
	}
	if step.Request != nil {
		conn.method = step.Request.Method
	}
	a.bindings.sent = time.Now()
	if err := conn.write(text, step.Cut); err != nil {
		return err
	}
	if step.Hold {
		return conn.awaitContinue()
	}
	got, err := conn.read()
	if err != nil {
		return err
	}
	want, err := a.testCase.Expect(step.Answer, a.target.Version)
	if err != nil {
		return err
	}
	if differences := want.Differences(got, a.bindings); len(differences) > 0 {
		return &MismatchError{
			Target: a.target, Case: a.testCase.Name, Steps: len(a.testCase.Steps),
			Sent: text, Want: want, Got: got, Differences: differences,
		}
	}
	return nil
}

func (a *attempt) text(step *Step) (string, error) {
	if step.Rest != nil {
		return expand(*step.Rest, a.bindings.Key)
	}
	return step.Request.text(a.bindings.Key)
}

// connection returns the connection of a name, or a new one.
func (a *attempt) connection(ctx context.Context, name string) (*connection, error) {
	if conn := a.connections[name]; conn != nil {
		return conn, nil
	}
	dialled, err := a.target.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	conn := newConnection(dialled)
	if name != "" {
		a.connections[name] = conn
	}
	return conn, nil
}
