// Package proxy is a TCP proxy between two programs of one machine that can be as bad as a real network: slow, cut,
// half-open, or throttled.
package proxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Fault is what is wrong with the network. The zero value is nothing.
type Fault struct {
	// Latency is how long each piece of data takes, each way.
	Latency time.Duration
	// Rate is how many bytes pass in a second, each way. 0 is no limit.
	Rate int
	// Cut resets every connection, and each new one at once.
	Cut bool
	// Silent keeps connections open, accepts new ones, and forwards neither data nor its end. What was sent meanwhile is
	// delivered when the silence ends.
	Silent bool
}

// Proxy forwards connections to a target. It is safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	working  sync.WaitGroup

	mu      sync.Mutex
	fault   Fault
	changed chan struct{} // closed when the fault changes
	conns   map[net.Conn]struct{}
	closed  bool
}

// New opens a proxy to target, a host:port, on a free loopback port. Close it.
func New(target string) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a proxy to %s: %w", target, err)
	}
	p := &Proxy{target: target, listener: listener, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	p.working.Go(p.accept)
	return p, nil
}

// Addr is the proxy's own host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Set replaces the fault.
func (p *Proxy) Set(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
	close(p.changed)
	p.changed = make(chan struct{})
	if fault.Cut {
		p.resetLocked()
	}
}

// Reset breaks every connection, as a router does that has forgotten them.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resetLocked()
}

func (p *Proxy) resetLocked() {
	for conn := range p.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // a reset instead of an orderly end; it fails on a connection that has ended
		}
		_ = conn.Close()
	}
}

// Close ends every connection and waits for their goroutines.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.resetLocked()
	p.mu.Unlock()
	p.Set(Fault{})
	err := p.listener.Close()
	p.working.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		if p.add(conn) {
			p.working.Go(func() { p.forward(conn) })
		}
	}
}

// add registers a connection, or resets it while the network is cut.
func (p *Proxy) add(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[conn] = struct{}{}
	if p.closed || p.fault.Cut {
		p.resetLocked()
		delete(p.conns, conn)
		return false
	}
	return true
}

func (p *Proxy) remove(conn net.Conn) {
	_ = conn.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}

// forward copies both ways until both have ended.
func (p *Proxy) forward(near net.Conn) {
	defer p.remove(near)
	far, err := p.dial(near)
	if err != nil {
		return
	}
	defer p.remove(far)
	var ways sync.WaitGroup
	ways.Go(func() { p.copy(far, near) })
	ways.Go(func() { p.copy(near, far) })
	ways.Wait()
}

func (p *Proxy) dial(near net.Conn) (net.Conn, error) {
	const timeout = 5 * time.Second // a listener of this machine answers at once, or never
	if _, ok := p.pass(near, nil); !ok {
		return nil, net.ErrClosed
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	far, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
	if err == nil && !p.add(far) {
		err = net.ErrClosed
	}
	return far, err
}

// copy copies one way until it ends, and then closes the other side for writing.
func (p *Proxy) copy(to, from net.Conn) {
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		for data := piece[:n]; len(data) > 0; {
			allowed, ok := p.pass(from, data)
			if !ok {
				return
			}
			if _, failed := to.Write(data[:allowed]); failed != nil {
				_ = from.Close()
				return
			}
			data = data[allowed:]
		}
		if err != nil {
			if tcp, isTCP := to.(*net.TCPConn); isTCP {
				if _, ok := p.pass(from, nil); ok {
					_ = tcp.CloseWrite() // it may have ended for another reason
				}
			}
			return
		}
	}
}

// pass waits as long as the fault demands, and returns how much of the data may pass. It is false when the connection was
// broken meanwhile.
func (p *Proxy) pass(conn net.Conn, data []byte) (allowed int, ok bool) {
	const ratePause = 20 * time.Millisecond
	allowed = len(data)
	late := false
	for {
		p.mu.Lock()
		fault, changed := p.fault, p.changed
		_, kept := p.conns[conn]
		open := kept && !p.closed
		p.mu.Unlock()
		switch {
		case !open || fault.Cut:
			return 0, false
		case fault.Silent:
			<-changed
			continue
		case late:
			return allowed, true
		case fault.Rate > 0 && len(data) > 0:
			allowed = min(allowed, max(1, fault.Rate*int(ratePause)/int(time.Second)))
			sleep(ratePause, changed)
		case fault.Latency > 0:
			sleep(fault.Latency, changed)
		default:
			return allowed, true
		}
		late = true
	}
}

// sleep ends early when the fault changes.
func sleep(wait time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	}
}
