package restatetest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// memoryURL is the URL of a server in memory. The .test domain never resolves.
const memoryURL = "http://restate.test"

// The HTTP/2 settings of the real server, except MAX_HEADER_LIST_SIZE, which net/http would apply to HTTP/1.1 as well. A larger header is
// answered 431 by the handler.
const (
	maxStreams   = 200
	frameSize    = 16384
	streamWindow = 65535
)

// relistenAttempts and relistenPause bound how long Up waits for its TCP port to be free again.
const (
	relistenAttempts = 50
	relistenPause    = 20 * time.Millisecond
)

// TB is the part of [testing.TB] that this package uses. It does not import testing.
type TB interface {
	Helper()
	Cleanup(f func())
	Errorf(format string, args ...any)
}

// Server is one fake ingress. Make it with [New], [Start] or [Listen].
type Server struct {
	limits limits

	http      *http.Server
	transport *http.Transport
	http2     *http.Transport
	address   string         // of TCP; empty in memory
	running   sync.WaitGroup // accept loops, connections and requests

	wire        sync.Mutex // guards the fields below; never held while waiting
	listener    net.Listener
	open        map[*conn]struct{}
	connections int
	closed      bool

	mu          sync.Mutex // guards the fields below
	services    services
	scripts     scripts
	invocations invocations
	traffic     traffic
}

// New starts a server in memory and closes it when the test ends. Only [Server.Client], [Server.ClientHTTP2] and [Server.Dial] reach it:
// it listens on no network. For a testing/synctest bubble, make it inside the bubble: a server from outside ends the process
// with "receive on synctest channel from outside bubble".
func New(tb TB, options ...Option) *Server {
	tb.Helper()
	server := Start(options...)
	tb.Cleanup(server.Close)
	return server
}

// Start starts a server in memory, as [New] does. The caller closes it.
func Start(options ...Option) *Server {
	server := newServer(options)
	server.serve(newMemoryListener())
	return server
}

// Listen starts a server on TCP, for example on "127.0.0.1:0", for code under test that accepts no HTTP client. The caller closes it.
// The error wraps that of [net.Listen].
func Listen(addr string, options ...Option) (*Server, error) {
	listener, err := listen(addr)
	if err != nil {
		return nil, fmt.Errorf("restatetest: %w", err)
	}
	server := newServer(options)
	server.address = listener.Addr().String()
	server.serve(listener)
	return server, nil
}

func listen(addr string) (net.Listener, error) {
	var config net.ListenConfig
	return config.Listen(context.Background(), "tcp", addr)
}

func newServer(options []Option) *Server {
	server := &Server{
		limits: limits{body: DefaultBodyLimit}, invocations: invocations{retention: DefaultRetention}, open: make(map[*conn]struct{}),
	}
	for _, option := range options {
		option(server)
	}
	server.http = &http.Server{ //nolint:gosec // a slow client is what some tests are about
		Handler:                      http.HandlerFunc(server.handle),
		ErrorLog:                     log.New(io.Discard, "", 0),
		Protocols:                    protocols(true),
		DisableGeneralOptionsHandler: true,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: frameSize, MaxReceiveBufferPerStream: streamWindow,
		},
		ConnContext: withConn,
		ConnState: func(c net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				server.running.Add(1)
			case http.StateIdle:
				if c, ok := c.(*conn); ok {
					c.expectRequest()
				}
			case http.StateClosed:
				server.running.Done()
			default: // a request is under way, or the connection is a step's own
			}
		},
	}
	server.transport, server.http2 = server.newTransport(), server.newTransport()
	server.http2.Protocols = protocols(false)
	return server
}

func (s *Server) newTransport() *http.Transport {
	return &http.Transport{
		DialContext:         s.Dial,
		DisableCompression:  true,
		MaxIdleConnsPerHost: 1000, // a test's parallelism should not decide how often it connects
	}
}

// protocols are HTTP/2 without TLS, by prior knowledge, and optionally HTTP/1.1.
func protocols(http1 bool) *http.Protocols {
	var both http.Protocols
	both.SetHTTP1(http1)
	both.SetUnencryptedHTTP2(true)
	return &both
}

// URL returns the base URL of the server: "http://restate.test" in memory, where only [Server.Client], [Server.ClientHTTP2] and
// [Server.Dial] resolve it, and "http://127.0.0.1:port" or the like on TCP.
func (s *Server) URL() string {
	if s.address == "" {
		return memoryURL
	}
	return "http://" + s.address
}

// Client returns a client that sends every request to this server, in memory or on TCP, for any host in the URL. Each call returns a new
// client, which may be changed, over one shared transport, whose connections [Server.Close] closes.
func (s *Server) Client() *http.Client { return &http.Client{Transport: s.transport} }

// ClientHTTP2 is [Server.Client] over HTTP/2 without TLS (h2c, by prior knowledge), on the same address. Its requests share connections,
// up to 200 at once on each; those made before the first is open may open more.
func (s *Server) ClientHTTP2() *http.Client { return &http.Client{Transport: s.http2} }

// Dial opens a connection to this server, in memory or on TCP; it ignores the address. It can be an [http.Transport]'s DialContext. While
// the server is down or closed it fails as a refused TCP connection does: errors.Is(err, syscall.ECONNREFUSED).
func (s *Server) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	if s.address != "" {
		var dialer net.Dialer
		return dialer.DialContext(ctx, "tcp", s.address)
	}
	s.wire.Lock()
	listener, up := s.listener.(*memoryListener)
	s.wire.Unlock()
	if !up {
		return nil, refused(network)
	}
	return listener.dial(ctx, network)
}

// Down begins an outage: new connections are refused and open ones are closed, without an answer to the requests on them. Accepted starts
// stay accepted, and scripts keep their step. It does nothing on a server that is down.
func (s *Server) Down() {
	s.wire.Lock()
	defer s.wire.Unlock()
	s.disconnect()
	s.closeIdle() // or the next request might be tried on one
}

// Up ends the outage that [Server.Down] began. It does nothing on a server that is up or closed. On TCP it panics if another process
// has taken the port.
func (s *Server) Up() {
	s.wire.Lock()
	done := s.closed || s.listener != nil
	s.wire.Unlock()
	if done {
		return
	}
	if s.address == "" {
		s.serve(newMemoryListener())
		return
	}
	var failure error
	for range relistenAttempts {
		listener, err := listen(s.address)
		if err == nil {
			s.serve(listener)
			return
		}
		failure = err
		time.Sleep(relistenPause)
	}
	panic(fmt.Sprintf("restatetest: listen again: %v", failure))
}

// Close stops the server, closes every connection, including those of [Server.Client], and returns when all its goroutines have ended.
// Hanging requests get no answer. A second Close only waits. The records can be read afterwards.
func (s *Server) Close() {
	s.wire.Lock()
	s.closed = true
	s.disconnect()
	s.wire.Unlock()

	s.closeIdle()
	_ = s.http.Close()
	s.running.Wait()
}

func (s *Server) serve(listener net.Listener) {
	s.wire.Lock()
	if s.closed || s.listener != nil {
		s.wire.Unlock()
		_ = listener.Close()
		return
	}
	s.listener = listener
	s.running.Add(1)
	s.wire.Unlock()

	go func() {
		defer s.running.Done()
		_ = s.http.Serve(&countingListener{Listener: listener, server: s})
	}()
}

// beginRequest reports whether a request may still be served; running.Done ends it. net/http does not wait for the goroutines of
// HTTP/2 requests.
func (s *Server) beginRequest() bool {
	s.wire.Lock()
	defer s.wire.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

func (s *Server) closeIdle() {
	s.transport.CloseIdleConnections()
	s.http2.CloseIdleConnections()
}

// disconnect closes the listener and every connection. It is called with s.wire held.
func (s *Server) disconnect() {
	if s.listener != nil {
		_ = s.listener.Close()
		s.listener = nil
	}
	for c := range s.open {
		_ = c.Conn.Close()
	}
	clear(s.open)
}
