package restatestart

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redisevents/restatestart/internal/ingress"
)

// attempt makes one POST. A panic of the HTTP client is an error of it.
func (s *Starter[T]) attempt(ctx context.Context, limits *limits, send *ingress.Send) (answer ingress.Answer, err error) {
	ctx = limits.begin(ctx)
	defer limits.end()
	defer func() {
		if reason := recover(); reason != nil {
			answer, err = ingress.Answer{}, newPanicError(reason)
		}
	}()
	answer, err = s.ingress.Post(ctx, *send)
	if err != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		if !isTimeout(err) { // a transport's own word for it
			err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
		}
		err = fmt.Errorf("no answer within %s: %w", s.options.AttemptTimeout, err)
	}
	return answer, err
}

// limits gives one attempt after the other a context that ends when its time is over. With net/http's own transport they
// share one until that happens to it: a timer, a channel and an entry in the parent's list for each attempt are a
// fifteenth of what a start costs. What another transport derives from the context of its request, or leaves behind to
// wait for its end, is not known: there each attempt has its own.
type limits struct {
	timeout time.Duration
	shares  bool

	own    context.CancelFunc // of an attempt that does not share
	shared context.Context    //nolint:containedctx // nil before the first attempt, and after one whose time was over
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func (s *Starter[T]) newLimits() *limits {
	return &limits{timeout: s.options.AttemptTimeout, shares: s.ingress.Standard()}
}

// begin begins an attempt under a parent, which is the same for all. No other attempt is under way.
func (l *limits) begin(parent context.Context) context.Context {
	if !l.shares {
		ctx, cancel := context.WithTimeout(parent, l.timeout)
		l.own = cancel
		return ctx
	}
	if l.shared == nil {
		l.shared, l.cancel = context.WithCancelCause(parent)
		cancel := l.cancel
		l.timer = time.AfterFunc(l.timeout, func() { cancel(context.DeadlineExceeded) })
	} else {
		l.timer.Reset(l.timeout)
	}
	end := time.Now().Add(l.timeout)
	if earlier, found := parent.Deadline(); found && earlier.Before(end) {
		end = earlier
	}
	return &limited{l.shared, end}
}

// end ends an attempt.
func (l *limits) end() {
	switch {
	case !l.shares:
		l.own()
	case !l.timer.Stop():
		l.close()
	}
}

// close lets the parent go.
func (l *limits) close() {
	if l.shared != nil {
		l.timer.Stop()
		l.cancel(nil)
		l.shared = nil
	}
}

// limited is the shared context as it is for one attempt: with its deadline.
type limited struct {
	context.Context //nolint:containedctx // a context

	deadline time.Time
}

func (l *limited) Deadline() (time.Time, bool) { return l.deadline, true }

func (l *limited) Err() error {
	err := l.Context.Err()
	if err != nil && errors.Is(context.Cause(l.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}
