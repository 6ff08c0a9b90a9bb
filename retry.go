package restatestart

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/redisevents/restatestart/internal/backoff"
	"github.com/redisevents/restatestart/internal/ingress"
	"github.com/redisevents/restatestart/internal/text"
	"github.com/redisevents/restatestart/internal/wire"
)

// poster is what the starts of one Handle call share.
type poster struct {
	*callTracing

	attempts *ingress.Attempts
}

func (s *Starter[T]) newPoster(ctx context.Context) *poster {
	return &poster{s.telemetry.newCallTracing(ctx), s.ingress.Attempts(ctx)}
}

// pendingStart is a kept message on its way to Restate.
type pendingStart[T any] struct {
	message *Message[T]
	send    ingress.Send
	next    int // index of the next start of the same workflow and key; 0: there is none
	state   startState
	traced  bool        // it has had a span
	failure FailedStart // meaningful when it was not accepted
}

// startState is how far a start has come.
type startState int

const (
	startPending  startState = iota // not finished; what it called may have ended its goroutine
	startAccepted                   // Restate has it
	startFailed                     // it was not accepted; failure says why
)

// fail records why a start was not accepted.
func (p *pendingStart[T]) fail(reason Reason, err error) {
	p.state = startFailed
	p.identify()
	p.failure.Reason, p.failure.Err = reason, err
}

// identify fills in which start a failure is about.
func (p *pendingStart[T]) identify() {
	p.failure.EntryID, p.failure.Stream = p.message.ID, p.message.Stream
	p.failure.Workflow, p.failure.Key = p.send.Workflow, p.send.Key
}

// beginSpan begins the span of the start, and puts the trace context that goes out with its POSTs into the send.
func (p *pendingStart[T]) beginSpan(poster *poster) (context.Context, startSpan) {
	p.traced = true
	return poster.beginSpan(&p.send, p.message.ID, p.message.Stream, p.message.TraceParent, wire.Headers(p.message.Headers))
}

// post posts one start until it is accepted, refused permanently, out of attempts, or cancelled.
func (s *Starter[T]) post(poster *poster, start *pendingStart[T]) {
	start.identify()
	failure := &start.failure
	began := time.Now()
	s.telemetry.begin(poster.ctx)
	ctx, span := start.beginSpan(poster)
	var answer ingress.Answer
	defer func() {
		switch reason := recover(); {
		case reason != nil:
			start.fail(ReasonPanic, newPanicError(reason))
		case start.state == startPending:
			start.fail(ReasonPanic, errGoexit) // which ends this goroutine
		}
		s.telemetry.end(ctx, failure, answer, start.state == startAccepted, time.Since(began))
		span.end(failure, answer, start.state == startAccepted)
	}()

	var waits backoff.Backoff
	for {
		if ctx.Err() != nil {
			start.fail(ReasonShutdown, shutdownError(ctx, failure.Err))
			return
		}
		failure.Attempts++
		var err error
		answer, err = s.attempt(ctx, poster, span, &start.send)
		err = text.SafeError(err)
		reason, again := classify(ctx, answer, err)
		s.telemetry.attempt(ctx, reason, answer.Status)
		if reason == accepted {
			start.state = startAccepted
			return
		}
		if err == nil {
			err = &StatusError{Status: answer.Status, Text: answer.Text}
		}
		if failure.Since.IsZero() {
			failure.Since = time.Now()
		}
		failure.Reason, failure.Status, failure.RetryAfter, failure.Err = reason, answer.Status, answer.RetryAfter, err
		if reason == ReasonShutdown {
			failure.Err = shutdownError(ctx, err)
		}
		s.log.LogAttrs(ctx, slog.LevelDebug, "start attempt failed",
			slog.String("workflow", text.QuoteName(failure.Workflow)), slog.String("key", text.QuoteName(failure.Key)), slog.String("entry", failure.EntryID),
			slog.Int("attempt", failure.Attempts), slog.String("reason", reason.String()), slog.Int("status", answer.Status))
		if !again || failure.Attempts >= s.options.MaxAttempts || answer.RetryAfter > s.options.RetryMax {
			span.attemptFailed(failure, 0)
			start.state = startFailed
			return
		}
		if failure.Attempts == 1 {
			waits = backoff.New(s.options.RetryMin, s.options.RetryMax, s.options.Jitter)
		}
		wait := max(waits.Next(), answer.RetryAfter)
		span.attemptFailed(failure, wait)
		backoff.Sleep(ctx, wait)
	}
}

// attempt makes one POST. A panic of the HTTP client is an error.
func (s *Starter[T]) attempt(ctx context.Context, poster *poster, span startSpan, send *ingress.Send) (answer ingress.Answer, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			answer, err = ingress.Answer{}, newPanicError(reason)
		}
	}()
	if span.Exists() {
		return s.ingress.Post(ctx, send) // under a context that carries the span
	}
	return poster.attempts.Post(send) //nolint:contextcheck // under the context of the call
}

// classify says what came of an attempt, and whether another one may do better. The rules are those of
// RedisEvents.Restate. Restate's x-restate-error-source header plays no part: in the answer to a send it only ever says
// "ingress", and proxies and older servers do not set it.
func classify(ctx context.Context, answer ingress.Answer, err error) (reason Reason, again bool) {
	switch status := answer.Status; {
	case err == nil && answer.Accepted():
		return accepted, false // 202 Accepted or PreviouslyAccepted; any other 2xx is from a proxy that took it
	case isPanic(err):
		return ReasonPanic, false // of the HTTP client, which would do it again
	case err != nil && ctx.Err() != nil:
		return ReasonShutdown, false // by our own context: the error of an attempt's deadline looks the same
	case err != nil && isTimeout(err):
		return ReasonTimeout, true // the attempt's, the HTTP client's own, or the network's
	case err != nil:
		return ReasonUnreachable, true // refused, reset, unknown host, closed early: the start may have been made
	case status == http.StatusRequestTimeout:
		return ReasonTimeout, true // a proxy gave up
	case status == http.StatusTooManyRequests:
		return ReasonOverloaded, true // the ingress, beyond its limit of concurrent requests
	case status == http.StatusTooEarly:
		return ReasonServer, true // a proxy that fears a replay
	case status >= 500 && status < 600:
		return ReasonServer, true // no leader, a body cut off, a proxy without a backend
	case status == http.StatusNotFound:
		return ReasonNotFound, false // not registered yet, or misspelt: retrying at once is pointless
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return ReasonUnauthorized, false // never the ingress itself: somebody must fix the credentials
	default:
		return ReasonRejected, false // 400, 405, 413, 414, 422, 431; 409, which no supported Restate gives to a send; redirects
	}
}

func isPanic(err error) bool {
	_, found := errors.AsType[*PanicError](err)
	return found
}

func isTimeout(err error) bool {
	network, found := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || found && network.Timeout()
}

// shutdownError is the cause of a start that the cancellation of its context cut short.
func shutdownError(ctx context.Context, last error) error {
	cause := context.Cause(ctx)
	if last == nil || errors.Is(last, cause) {
		return cause
	}
	return fmt.Errorf("%w; before that: %w", cause, last)
}

var errGoexit = errors.New("runtime.Goexit was called")
