package ingress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Post makes one attempt at a send, bounded by the Timeout of the configuration, and reports what came back. An error
// means that no status came back; a start may have been made all the same.
func (c *Client) Post(ctx context.Context, send *Send) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.post(ctx, send)
}

func (c *Client) post(ctx context.Context, send *Send) (Answer, error) {
	response, err := c.do(c.request(ctx, send))
	if err != nil {
		return Answer{}, c.timeoutError(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	// The status alone decides: an answer whose body breaks off counts.
	return c.read(response, send), nil
}

// timeoutError makes the error of an attempt that timed out a context.DeadlineExceeded: a transport may return another.
func (c *Client) timeoutError(ctx context.Context, err error) error {
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return err
	}
	if network, found := errors.AsType[net.Error](err); !errors.Is(err, context.DeadlineExceeded) && (!found || !network.Timeout()) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return fmt.Errorf("no answer within %s: %w", c.timeout, err)
}

// Attempts makes attempts under one context. They share deadlines, to save time: a context, a timer, a channel and an entry
// in the parent's list for each attempt would be a fifteenth of the cost of a start.
//
// They share only with net/http's own transport. Another one may keep a request's context, and what it derived from it,
// beyond the request; there each attempt has a context for itself.
type Attempts struct {
	client *Client
	ctx    context.Context //nolint:containedctx // of the attempts, which Attempts does not outlive
	shares bool

	mu   sync.Mutex
	idle []*deadline // of attempts that ended before their deadline
}

// Attempts returns Attempts under a context. Close them after the last one.
func (c *Client) Attempts(ctx context.Context) *Attempts {
	return &Attempts{client: c, ctx: ctx, shares: c.shares && c.direct != nil}
}

// Post is Client.Post under the context of Attempts. It is safe for concurrent use.
func (a *Attempts) Post(send *Send) (Answer, error) {
	if !a.shares {
		return a.client.Post(a.ctx, send)
	}
	d := a.take()
	defer a.put(d)
	return a.client.post(d.begin(a.client.timeout), send)
}

// Close releases what the context holds of them. No attempt may be in flight.
func (a *Attempts) Close() {
	for _, d := range a.idle {
		d.cancel(nil)
	}
	a.idle = nil
}

func (a *Attempts) take() *deadline {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last := len(a.idle) - 1; last >= 0 {
		d := a.idle[last]
		a.idle = a.idle[:last]
		return d
	}
	d := &deadline{}
	d.ctx, d.cancel = context.WithCancelCause(a.ctx)
	return d
}

func (a *Attempts) put(d *deadline) {
	if !d.timer.Stop() {
		d.cancel(nil) // the timer has cancelled the context, or is about to
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = append(a.idle, d)
}

// deadline is a context for one attempt at a time, with a timer that begins anew for each.
type deadline struct {
	ctx    context.Context //nolint:containedctx // a context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

// begin begins an attempt.
func (d *deadline) begin(timeout time.Duration) context.Context {
	if d.timer == nil {
		cancel := d.cancel
		d.timer = time.AfterFunc(timeout, func() { cancel(context.DeadlineExceeded) })
	} else {
		d.timer.Reset(timeout)
	}
	end := time.Now().Add(timeout)
	if earlier, found := d.ctx.Deadline(); found && earlier.Before(end) {
		end = earlier
	}
	return &attemptContext{d.ctx, end}
}

// attemptContext is the context of one attempt. Its Deadline and Err are those of a context.WithTimeout.
type attemptContext struct {
	context.Context //nolint:containedctx // a context

	deadline time.Time
}

func (c *attemptContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *attemptContext) Err() error {
	err := c.Context.Err()
	if err != nil && errors.Is(context.Cause(c.Context), context.DeadlineExceeded) {
		return context.DeadlineExceeded
	}
	return err
}
