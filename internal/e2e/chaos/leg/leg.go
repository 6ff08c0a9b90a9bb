// Package leg is a network between two programs of one machine that can be as bad as a real one: slow, cut, half-open,
// or dripping. It carries bytes over TCP and knows nothing of what they mean.
package leg

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Trouble is what is wrong with a leg. The zero value is nothing.
type Trouble struct {
	// Latency is how long each piece of data takes, each way.
	Latency time.Duration
	// Drip is how many bytes pass in a second, each way. 0 is no limit.
	Drip int
	// Cut resets every connection, and each new one at once.
	Cut bool
	// Silent keeps connections open, takes new ones, and lets nothing through, neither data nor an end. What was sent
	// meanwhile arrives when the silence ends.
	Silent bool
}

// Leg forwards connections to a target. It is safe for concurrent use.
type Leg struct {
	target   string
	listener net.Listener
	working  sync.WaitGroup

	mu      sync.Mutex
	trouble Trouble
	changed chan struct{} // closed when trouble changes
	conns   map[net.Conn]struct{}
	closed  bool
}

// New opens a leg to target, a host:port, on a free loopback port. Close it.
func New(target string) (*Leg, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a leg to %s: %w", target, err)
	}
	l := &Leg{target: target, listener: listener, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	l.working.Go(l.accept)
	return l, nil
}

// Addr is the host:port that leads to the target.
func (l *Leg) Addr() string { return l.listener.Addr().String() }

// Set makes the trouble that of the leg from now on, in place of what it had.
func (l *Leg) Set(trouble Trouble) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble = trouble
	close(l.changed)
	l.changed = make(chan struct{})
	if trouble.Cut {
		l.resetLocked()
	}
}

// Reset breaks every connection, as a router does that has forgotten them.
func (l *Leg) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resetLocked()
}

func (l *Leg) resetLocked() {
	for conn := range l.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset, and no orderly end; it fails where the connection has ended already
		}
		_ = conn.Close()
	}
}

// Close ends every connection and waits for what carried them.
func (l *Leg) Close() error {
	l.mu.Lock()
	l.closed = true
	l.resetLocked()
	l.mu.Unlock()
	l.Set(Trouble{})
	err := l.listener.Close()
	l.working.Wait()
	return err
}

func (l *Leg) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		if !l.keep(conn) {
			continue
		}
		l.working.Go(func() { l.carry(conn) })
	}
}

// keep takes a connection in, or resets it where there is none to be had.
func (l *Leg) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[conn] = struct{}{}
	if l.closed || l.trouble.Cut {
		l.resetLocked()
		delete(l.conns, conn)
		return false
	}
	return true
}

func (l *Leg) forget(conn net.Conn) {
	_ = conn.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// carry forwards both ways until both have ended.
func (l *Leg) carry(near net.Conn) {
	defer l.forget(near)
	far, err := l.dial(near)
	if err != nil {
		return
	}
	defer l.forget(far)
	var ways sync.WaitGroup
	ways.Go(func() { l.pump(far, near) })
	ways.Go(func() { l.pump(near, far) })
	ways.Wait()
}

func (l *Leg) dial(near net.Conn) (net.Conn, error) {
	if _, ok := l.pass(near, nil); !ok {
		return nil, net.ErrClosed
	}
	// It connects to a listener of this machine, which takes no time, or never answers.
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	far, err := new(net.Dialer).DialContext(ctx, "tcp", l.target)
	if err != nil {
		return nil, err
	}
	if !l.keep(far) {
		return nil, net.ErrClosed
	}
	return far, nil
}

const dialTimeout = 5 * time.Second
