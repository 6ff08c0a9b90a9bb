package restatetest

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// memoryListener accepts the far ends of net.Pipe. It waits on channels only, as a synctest bubble requires.
type memoryListener struct {
	arriving chan net.Conn
	done     chan struct{}
	once     sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{arriving: make(chan net.Conn), done: make(chan struct{})}
}

func (l *memoryListener) dial(ctx context.Context, network string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.arriving <- far:
		return near, nil
	case <-l.done:
		return nil, refused(network)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.arriving:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "restate.test:80" }

// refused is the error of a TCP connection to a port without a listener.
func refused(network string) error {
	return &net.OpError{
		Op: "dial", Net: network, Addr: memoryAddr{}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED),
	}
}

// countingListener counts connections and keeps the open ones, so that Down and Close can close them.
type countingListener struct {
	net.Listener
	server *Server
}

func (l *countingListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, server: l.server}
	c.expectRequest()

	s := l.server
	s.wire.Lock()
	defer s.wire.Unlock()
	if s.listener != l.Listener { // it went down between the two
		_ = accepted.Close()
		return nil, net.ErrClosed
	}
	s.connections++
	s.open[c] = struct{}{}
	return c, nil
}

// Connections returns the number of connections opened so far, closed ones included.
func (s *Server) Connections() int {
	s.wire.Lock()
	defer s.wire.Unlock()
	return s.connections
}
