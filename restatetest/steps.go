package restatetest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"time"
)

func step(act func(*exchange)) Step { return Step{act: act, times: 1} }

// Pass is a normal answer.
func Pass() Step { return step((*exchange).normally) }

// Status answers with a status code. Without a body, an error is the ingress's own: JSON with the code, a message and the
// source, and the header x-restate-error-source. With a body (several are joined) it is what a proxy would send: that text,
// without the header, as text/plain unless WithHeader says otherwise. Nothing is started, whatever the code; with [Step.AfterAccept] it was. It panics if the code is
// not between 200 and 999. See [ProxyError] for a proxy's page and [Redirect] for a redirect.
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

// Hang gives no answer until the client goes away or the server goes down or is closed: the client sees its own timeout. Nothing is
// started.
func Hang() Step {
	return step(func(x *exchange) {
		<-x.r.Context().Done()
		abandon()
	})
}

// HangAfterAccept is Hang with the workflow started: an answer that comes too late.
func HangAfterAccept() Step { return Hang().AfterAccept() }

// Drop closes the connection without an answer: the client sees an EOF. On HTTP/2 the stream alone is reset, with INTERNAL_ERROR;
// [Server.Down] is what closes such a connection. Nothing is started. Go's client repeats by itself a request with an
// Idempotency-Key, or a GET, that was dropped on a connection used before.
func Drop() Step { return step(func(*exchange) { abandon() }) }

// DropAfterAccept starts the workflow, then closes the connection without an answer, as Drop does: the lost answer. A request that
// would have been refused starts nothing and gets no answer either.
func DropAfterAccept() Step { return Drop().AfterAccept() }

// Delay waits for d, then answers normally. If the client goes away before that, nothing is started. Zero and negative d do
// not wait.
func Delay(d time.Duration) Step {
	return step(func(x *exchange) {
		x.wait(d)
		x.normally()
	})
}

// Answer leaves the answer to a function. It gets a request whose body can be read, and starts nothing. A panic in it closes the
// connection without an answer, or in the middle of it; on HTTP/2 it resets the stream.
func Answer(answer func(w http.ResponseWriter, r *http.Request)) Step {
	return step(func(x *exchange) {
		r := x.r.Clone(x.r.Context())
		r.Body = io.NopCloser(bytes.NewReader(bytes.Clone(x.body)))
		answer(x.w, r)
		x.w.finish()
	})
}

// wait abandons the request if the client goes away before d is over.
func (x *exchange) wait(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-x.r.Context().Done():
		abandon()
	}
}

// abandon ends a request by closing its connection; on HTTP/2, by resetting its stream.
func abandon() { panic(http.ErrAbortHandler) }
