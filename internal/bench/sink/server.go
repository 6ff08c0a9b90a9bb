package sink

import (
	"errors"
	"fmt"
	"net"
	"sync"
)

const (
	// bufferSize is the most that one request may have.
	bufferSize = 16 << 10

	body = `{"invocationId":"inv_16XXZZesSodW3oxGkV5Usr1kzxtNLm78YS","status":"Accepted"}`
	// canned is what restate-server 1.7.12 answers, without the date.
	canned = "HTTP/1.1 202 Accepted\r\n" +
		"content-type: application/json\r\n" +
		"x-restate-id: inv_16XXZZesSodW3oxGkV5Usr1kzxtNLm78YS\r\n" +
		"vary: origin, access-control-request-method, access-control-request-headers\r\n" +
		"access-control-allow-credentials: true\r\n" +
		"content-length: 77\r\n\r\n" + body
	refusal = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)

// Server is a null ingress on a loopback port.
type Server struct {
	Tally

	listener net.Listener
	group    sync.WaitGroup

	mu          sync.Mutex
	closed      bool
	connections map[net.Conn]struct{}
}

// Listen opens a null ingress on a free loopback port. The caller must Close it.
func Listen() (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open the null ingress: %w", err)
	}
	s := &Server{listener: listener, connections: make(map[net.Conn]struct{})}
	s.group.Go(s.accept)
	return s, nil
}

// URL is where starts are posted to, without a slash at its end.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Close ends the listener and every connection.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	err := s.listener.Close()
	for connection := range s.connections {
		err = errors.Join(err, connection.Close())
	}
	s.mu.Unlock()
	s.group.Wait()
	return err
}

func (s *Server) accept() {
	for {
		connection, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = connection.Close()
			return
		}
		s.connections[connection] = struct{}{}
		s.mu.Unlock()
		s.group.Go(func() {
			s.serve(connection)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.connections, connection)
			_ = connection.Close()
		})
	}
}

// serve answers the requests of a connection, however they are cut into packets, until either side has enough.
func (s *Server) serve(connection net.Conn) {
	buffer := make([]byte, bufferSize)
	var answers []byte
	filled := 0
	for {
		n, err := connection.Read(buffer[filled:])
		if err != nil {
			return
		}
		filled += n
		taken := 0
		for {
			key, size, err := next(buffer[taken:filled])
			if err != nil {
				s.stray()
				_, _ = connection.Write(append(answers, refusal...))
				return
			}
			if size == 0 {
				break
			}
			s.mark(key)
			answers = append(answers, canned...)
			taken += size
		}
		if len(answers) > 0 {
			if _, err := connection.Write(answers); err != nil {
				return
			}
			answers = answers[:0]
		}
		filled = copy(buffer, buffer[taken:filled])
		if filled == len(buffer) {
			s.stray()
			return
		}
	}
}
