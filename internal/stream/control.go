package stream

import (
	"context"
	"sync"

	"github.com/redisevents/restatestart/internal/position"
)

// control is how other goroutines interrupt a partition. Both a reset and a revocation end the session; after a reset
// another one begins at its target, after a revocation none does.
type control struct {
	mu      sync.Mutex
	reset   *position.Reset    // pending, applied once the session has ended
	revoked bool               // no longer assigned to this loop
	end     context.CancelFunc // of the session
	wake    chan struct{}      // signals a change to a partition that has stopped
}

func newControl() control { return control{wake: make(chan struct{}, 1)} }

// beginSession registers how to end a session. It reports whether the session may run.
func (c *control) beginSession(end context.CancelFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = end
	return c.reset == nil && !c.revoked
}

// requestReset reports false when the reset is already pending, or the partition is revoked.
func (c *control) requestReset(reset *position.Reset) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revoked || c.reset != nil && *c.reset == *reset {
		return false
	}
	c.reset = reset
	c.interrupt()
	return true
}

// replaceReset replaces a pending reset by the one that the store has now.
func (c *control) replaceReset(reset *position.Reset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reset = reset
}

// finishReset removes an applied reset, unless another is pending already.
func (c *control) finishReset(reset *position.Reset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reset == reset {
		c.reset = nil
	}
}

func (c *control) pendingReset() *position.Reset {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reset
}

// revoke reports false when the partition was revoked before.
func (c *control) revoke() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revoked {
		return false
	}
	c.revoked = true
	c.interrupt()
	return true
}

func (c *control) isRevoked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revoked
}

// interrupt is called with mu held.
func (c *control) interrupt() {
	if c.end != nil {
		c.end()
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// mutex is a lock whose wait ends with a context.
type mutex chan struct{}

func newMutex() mutex { return make(mutex, 1) }

func (m mutex) lock(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m mutex) unlock() { <-m }
