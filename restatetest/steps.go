package restatetest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"
)

func step(act func(*exchange)) Step { return Step{act: act, times: 1} }

// Pass answers normally.
func Pass() Step { return step((*exchange).answerNormally) }

// Status answers with a status code. Without a body, a code from 400 answers as the ingress does: JSON with the code, a message and the
// source, and the header x-restate-error-source. With a body (several are joined) it answers as a proxy might: that text, without
// the header, as text/plain unless [Step.WithHeader] sets another type. Nothing is started, even by a 202, except with
// [Step.AfterAccept]. It panics if the code is not between 200 and 999. See [ProxyError] for a proxy's page and [Redirect] for a
// redirect.
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

// Hang gives no answer until the client disconnects or the server is down or closed: the client sees its own timeout. Nothing is started.
func Hang() Step {
	return step(func(x *exchange) {
		<-x.r.Context().Done()
		abort()
	})
}

// HangAfterAccept is Hang with the workflow started: the answer comes too late.
func HangAfterAccept() Step { return Hang().AfterAccept() }

// Drop closes the connection without an answer: the client sees an EOF. On HTTP/2 it resets the stream only, with INTERNAL_ERROR;
// [Server.Down] closes such a connection. Nothing is started. Go's client itself retries a GET, or a request with an
// Idempotency-Key, that was dropped on a reused connection.
func Drop() Step { return step(func(*exchange) { abort() }) }

// DropAfterAccept is Drop with the workflow started: the answer is lost. A request that would be refused starts nothing and gets no
// answer either.
func DropAfterAccept() Step { return Drop().AfterAccept() }

// Delay waits for d, then answers normally. If the client disconnects before that, nothing is started. Zero and negative d do not wait.
func Delay(d time.Duration) Step {
	return step(func(x *exchange) {
		x.wait(d)
		x.answerNormally()
	})
}

// Answer lets a function answer. Its request has a readable body. Nothing is started, except with [Step.AfterAccept]. A panic of the
// function closes the connection, without an answer or within it; on HTTP/2 it resets the stream.
func Answer(answer func(w http.ResponseWriter, r *http.Request)) Step {
	return step(func(x *exchange) {
		r := x.r.Clone(x.r.Context())
		r.Body = io.NopCloser(bytes.NewReader(bytes.Clone(x.body)))
		answer(x.w, r)
		x.w.finish()
	})
}

// wait aborts the request if the client disconnects before d has passed.
func (x *exchange) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.r.Context().Done():
		abort()
	}
}

// abort closes the request's connection; on HTTP/2 it resets the stream.
func abort() { panic(http.ErrAbortHandler) }
