package restatetest

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// Step is what the server does with a request instead of answering normally. Steps are values: the methods return changed copies.
// The zero Step is skipped.
//
// A step applies to one request, or for as long as the last of [Step.Times], [Step.Always] and [Step.For] says.
type Step struct {
	act     func(*exchange)
	accepts bool
	header  http.Header
	times   int           // or always
	lasting time.Duration // instead of times, if positive
}

const always = -1

// Times applies the step to n requests. Zero and negative n skip it.
func (s Step) Times(n int) Step {
	s.times, s.lasting = max(0, n), 0
	return s
}

// Always applies the step to every further request. Steps after it are never reached.
func (s Step) Always() Step {
	s.times, s.lasting = always, 0
	return s
}

// For applies the step to the first request that reaches it, and to those within d of that one: with Status(503).For(time.Minute) the
// client sees 503 until a minute after its first attempt. Time counts for each key by itself. Zero and negative d skip the step.
func (s Step) For(d time.Duration) Step {
	s.times, s.lasting = 0, max(0, d)
	return s
}

// AfterAccept starts the workflow before the step, unless the request would be refused, which starts nothing. The client sees no
// difference: ProxyError(504).AfterAccept() is a gateway timeout of an accepted start. A step that accepts anyway does so
// at once: with Delay(d).AfterAccept() the workflow is started even if the client does not wait for the answer.
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

// scripts are by key. Each key without one has a copy of the shared steps.
type scripts struct {
	own    map[string]*script
	shared []Step
	copies map[string]*script
}

// Script sets what happens to the next requests for a key, in any workflow: one step each, and normal answers after the last. For a
// service the key is the Idempotency-Key. It replaces an earlier script for the key. Without steps, every answer for the key is
// normal, and [Server.ScriptAll] does not apply to it. Requests refused for their size, for [WithConcurrencyLimit] or for a path
// without a key take no step.
func (s *Server) Script(key string, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scripts.own == nil {
		s.scripts.own = make(map[string]*script)
	}
	s.scripts.own[key] = &script{steps: slices.Clone(steps)}
}

// ScriptAll is [Server.Script] for every key without a script of its own. Each key takes the steps by itself: with
// ScriptAll(Status(503)) the first request for each key fails. It replaces an earlier ScriptAll and begins again for every key. All
// sends to services without an Idempotency-Key count as one key.
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
	at    int       // the current step
	taken int       // how often
	since time.Time // the first time
}

func (s *script) next(now time.Time) Step {
	for ; s.at < len(s.steps); s.at++ {
		if turn := s.steps[s.at]; turn.act != nil && s.applies(turn, now) {
			s.taken++
			return turn
		}
		s.taken = 0
	}
	return Pass()
}

func (s *script) applies(turn Step, now time.Time) bool {
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
