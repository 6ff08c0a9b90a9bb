package restatestart

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/redisevents/restatestart/internal/ingress"
)

// startOne posts one start until it is accepted, refused for good, out of attempts, or cancelled.
func (s *Starter[T]) startOne(ctx context.Context, tracing *tracing, limits *limits, current *start[T]) {
	current.name()
	failure := &current.failure
	began := time.Now()
	s.telemetry.begin(ctx)
	ctx, span := beginSpan(ctx, tracing, current.message, &current.send)
	current.traced = true
	if span.Span != nil { // which the contexts of its attempts carry
		limits = s.newLimits()
		defer limits.close()
	}
	var answer ingress.Answer
	defer func() {
		switch reason := recover(); {
		case reason != nil:
			current.fail(ReasonPanic, newPanicError(reason))
		case current.state == startPending:
			current.fail(ReasonPanic, errGoexit) // which ends this goroutine
		}
		s.telemetry.end(ctx, failure, answer, current.state == startAccepted, time.Since(began))
		span.end(failure, answer, current.state == startAccepted)
	}()

	var waits *backoff.ExponentialBackOff
	for {
		if ctx.Err() != nil {
			current.fail(ReasonShutdown, shutdownError(ctx, failure.Err))
			return
		}
		failure.Attempts++
		var err error
		answer, err = s.attempt(ctx, limits, &current.send)
		err = solid(err)
		reason, again := classify(ctx, answer, err)
		s.telemetry.attempt(ctx, reason, answer.Status)
		if reason == accepted {
			current.state = startAccepted
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
		s.options.Logger.LogAttrs(ctx, slog.LevelDebug, "start attempt failed",
			slog.String("workflow", printable(failure.Workflow)), slog.String("key", printable(failure.Key)), slog.String("entry", failure.EntryID),
			slog.Int("attempt", failure.Attempts), slog.String("reason", reason.String()), slog.Int("status", answer.Status))
		if !again || failure.Attempts >= s.options.MaxAttempts || answer.RetryAfter > s.options.RetryMax {
			span.attemptFailed(failure, 0)
			current.state = startFailed
			return
		}
		if waits == nil {
			waits = s.waits()
		}
		wait := max(min(max(waits.NextBackOff(), s.options.RetryMin), s.options.RetryMax), answer.RetryAfter)
		span.attemptFailed(failure, wait)
		sleep(ctx, wait)
	}
}

// waits are the delays between the attempts of one start. They are not safe for concurrent use, hence one for
// each, and must not run out, hence no MaxElapsedTime: MaxAttempts ends them.
func (s *Starter[T]) waits() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(s.options.RetryMin),
		backoff.WithMaxInterval(s.options.RetryMax),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(s.options.Jitter),
		backoff.WithMaxElapsedTime(0),
	)
}

// sleep waits, or returns at once when the context ends.
func sleep(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// accepted is the class of an answer that says the start is in Restate's hands. It is no Reason for a failure.
const accepted Reason = -1

// classify says what came of an attempt, and whether another one may do better. The rules are those of
// RedisEvents.Restate. Restate's x-restate-error-source header plays no part: of a send it only ever says
// "ingress", and proxies and older servers do not set it.
func classify(ctx context.Context, answer ingress.Answer, err error) (reason Reason, again bool) {
	switch status := answer.Status; {
	case err == nil && answer.Accepted():
		return accepted, false // 202 Accepted or PreviouslyAccepted; any other 2xx is from a proxy that took it
	case isPanic(err):
		return ReasonPanic, false // of the HTTP client: it would do so again
	case err != nil && ctx.Err() != nil:
		return ReasonShutdown, false // judged by our own context: an attempt's deadline looks the same from the error
	case err != nil && isTimeout(err):
		return ReasonTimeout, true // the attempt's, the HTTP client's own, or the network's
	case err != nil:
		return ReasonUnreachable, true // refused, reset, unknown host, closed early: the start may have been made
	case status == http.StatusRequestTimeout:
		return ReasonTimeout, true // a proxy lost patience
	case status == http.StatusTooManyRequests:
		return ReasonOverloaded, true // the ingress, beyond its concurrent-request limit
	case status == http.StatusTooEarly:
		return ReasonServer, true // a proxy that fears a replay
	case status >= 500 && status < 600:
		return ReasonServer, true // no leader, a cut body, a proxy without a backend
	case status == http.StatusNotFound:
		return ReasonNotFound, false // not registered yet, or misspelt; no use in asking again at once
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return ReasonUnauthorized, false // never from the ingress itself: somebody must mend the credentials
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
