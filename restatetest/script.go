package restatetest

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// Step is what the server does about one request instead of answering it normally. Steps are values: the methods return
// changed copies. The zero Step is skipped.
//
// A step lasts for one request unless [Step.Times], [Step.Always] or [Step.For] says otherwise; the last one said counts.
type Step struct {
	act     func(*exchange)
	accepts bool
	header  http.Header
	times   int           // always is for ever
	lasting time.Duration // in place of times, if positive
}

const always = -1

// Times makes the step last for n requests. Zero and negative n skip it.
func (s Step) Times(n int) Step {
	s.times, s.lasting = max(0, n), 0
	return s
}

// Always makes the step last for ever; steps after it are never reached.
func (s Step) Always() Step {
	s.times, s.lasting = always, 0
	return s
}

// For makes the step last for d from the first request it is taken for, that one included: with Status(503).For(time.Minute) the
// client sees 503 until a minute after its first attempt. Each key has its own minute. Zero and negative d skip the step.
func (s Step) For(d time.Duration) Step {
	s.times, s.lasting = 0, max(0, d)
	return s
}

// AfterAccept makes the step start the workflow before it does what it does, unless the request would be refused, which starts
// nothing. The client sees no difference: ProxyError(504).AfterAccept() is a gateway timeout of a start that was
// taken. A step that accepts anyway does so at once: Delay(d).AfterAccept() starts also what the client gives up waiting for.
func (s Step) AfterAccept() Step {
	s.accepts = true
	return s
}

// WithHeader adds a header to the step's answer, such as Retry-After. The same name twice adds two lines.
func (s Step) WithHeader(name, value string) Step {
	s.header = s.header.Clone()
	if s.header == nil {
		s.header = make(http.Header)
	}
	s.header.Add(name, value)
	return s
}

func (s Step) run(x *exchange) {
	maps.Copy(x.w.Header(), s.header.Clone())
	if s.accepts {
		x.accept()
	}
	s.act(x)
}

// scripts are by key. Those for all keys are a script that each key goes through at its own pace.
type scripts struct {
	own    map[string]*script
	shared []Step
	copies map[string]*script
}

// Script lays down what happens to the next requests for a key, in any workflow: one step each, and after the last one
// the normal answer. For a service the key is the Idempotency-Key. It replaces an earlier script for the key; without steps, the key has a script of its own that is at its
// end, so that [Server.ScriptAll] does not concern it. Requests refused for their size, their number ([WithConcurrencyLimit]) or a
// path without a key take no step.
func (s *Server) Script(key string, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scripts.own == nil {
		s.scripts.own = make(map[string]*script)
	}
	s.scripts.own[key] = &script{steps: slices.Clone(steps)}
}

// ScriptAll is [Server.Script] for every key without a script of its own. Each key goes through the steps by itself: with
// ScriptAll(Status(503)) the first request for each key fails. It replaces an earlier ScriptAll and begins anew for every key.
// Sends to a service without an Idempotency-Key are one key.
func (s *Server) ScriptAll(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts.shared = slices.Clone(steps)
	s.scripts.copies = nil
}

func (s *scripts) next(key string, now time.Time) Step {
	if own := s.own[key]; own != nil {
		return own.next(now)
	}
	if len(s.shared) == 0 {
		return Pass()
	}
	if s.copies == nil {
		s.copies = make(map[string]*script)
	}
	if s.copies[key] == nil {
		s.copies[key] = &script{steps: s.shared}
	}
	return s.copies[key].next(now)
}

type script struct {
	steps []Step
	at    int       // the step in turn
	taken int       // how often it was
	since time.Time // when it first was
}

func (s *script) next(now time.Time) Step {
	for ; s.at < len(s.steps); s.at++ {
		if turn := s.steps[s.at]; turn.act != nil && s.holds(turn, now) {
			s.taken++
			return turn
		}
		s.taken = 0
	}
	return Pass()
}

func (s *script) holds(turn Step, now time.Time) bool {
	if s.taken == 0 {
		s.since = now
	}
	switch {
	case turn.lasting > 0:
		return now.Sub(s.since) < turn.lasting
	case turn.times == always:
		return true
	default:
		return s.taken < turn.times
	}
}
