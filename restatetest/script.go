package restatetest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
)

// Step is what the server does about one request instead of answering it normally. Steps are values: the methods return
// changed copies. The zero Step is skipped.
type Step struct {
	act    func(*exchange)
	header http.Header
	times  int // always is for ever
}

const always = -1

// Times makes the step last for n requests. Zero and negative n skip it.
func (s Step) Times(n int) Step {
	s.times = max(0, n)
	return s
}

// Always makes the step last for ever; steps after it are never reached.
func (s Step) Always() Step {
	s.times = always
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

func step(act func(*exchange)) Step { return Step{act: act, times: 1} }

// Pass is a normal answer.
func Pass() Step { return step((*exchange).normally) }

// Status answers with a status code. Without a body, an error is the ingress's own: JSON with the code, a message and the
// source, and the header x-restate-error-source. With a body (several are joined) it is what a proxy would send: that text,
// without the header, as text/plain unless WithHeader says otherwise. Nothing is started, whatever the code. It panics if the code is
// not between 200 and 999.
func Status(code int, body ...string) Step {
	if code < 200 || code > 999 {
		panic(fmt.Sprintf("restatetest: Status(%d): not a final status code", code))
	}
	return step(func(x *exchange) {
		switch {
		case len(body) > 0:
			if x.w.Header().Get("Content-Type") == "" {
				x.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			}
			x.w.WriteHeader(code)
			for _, part := range body {
				_, _ = io.WriteString(x.w, part)
			}
		case code < 400:
			x.w.WriteHeader(code)
		case code == http.StatusTooManyRequests:
			refuse(code, overloaded).write(x.w)
		default:
			refuse(code, http.StatusText(code)).write(x.w)
		}
	})
}

// Hang gives no answer until the client goes away or the server goes down or is closed. Nothing is started.
func Hang() Step {
	return step(func(x *exchange) {
		<-x.r.Context().Done()
		abandon()
	})
}

// HangAfterAccept is Hang with the workflow started: an answer that comes too late.
func HangAfterAccept() Step {
	return step(func(x *exchange) {
		x.accept()
		<-x.r.Context().Done()
		abandon()
	})
}

// Drop closes the connection without an answer. Nothing is started.
func Drop() Step { return step(func(*exchange) { abandon() }) }

// DropAfterAccept starts the workflow, then closes the connection without an answer: the lost answer. A request that would
// have been refused starts nothing and gets no answer either.
func DropAfterAccept() Step {
	return step(func(x *exchange) {
		x.accept()
		abandon()
	})
}

// Delay waits for d, then answers normally. If the client goes away before that, nothing is started.
func Delay(d time.Duration) Step {
	return step(func(x *exchange) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			x.normally()
		case <-x.r.Context().Done():
			abandon()
		}
	})
}

// Answer leaves the answer to a function. It gets a request whose body can be read, and starts nothing. A panic in it closes the
// connection without an answer, or in the middle of it.
func Answer(answer func(w http.ResponseWriter, r *http.Request)) Step {
	return step(func(x *exchange) {
		r := x.r.Clone(x.r.Context())
		r.Body = io.NopCloser(bytes.NewReader(bytes.Clone(x.body)))
		answer(x.w, r)
		x.w.finish()
	})
}

// abandon ends a request by closing its connection.
func abandon() { panic(http.ErrAbortHandler) }

// scripts are by key. Those for all keys are a script that each key goes through at its own pace.
type scripts struct {
	own    map[string]*script
	shared []Step
	copies map[string]*script
}

// Script lays down what happens to the next requests for a key, in any workflow: one step each, and after the last one
// the normal answer. It replaces an earlier script for the key; without steps, the key has a script of its own that is at its
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
func (s *Server) ScriptAll(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts.shared = slices.Clone(steps)
	s.scripts.copies = nil
}

func (s *scripts) next(key string) Step {
	if own := s.own[key]; own != nil {
		return own.next()
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
	return s.copies[key].next()
}

type script struct {
	steps []Step
	at    int // the step in turn
	taken int // how often it was
}

func (s *script) next() Step {
	for ; s.at < len(s.steps); s.at++ {
		turn := s.steps[s.at]
		if turn.times == always {
			return turn
		}
		if s.taken < turn.times {
			s.taken++
			return turn
		}
		s.taken = 0
	}
	return Pass()
}

func (s Step) run(x *exchange) {
	maps.Copy(x.w.Header(), s.header.Clone())
	s.act(x)
}
