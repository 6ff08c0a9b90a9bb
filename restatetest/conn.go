package restatetest

import (
	"bytes"
	"context"
	"net"
	"net/http"
)

// maxRequestLine bounds a request line. A longer one is left to net/http, which refuses it.
const maxRequestLine = 1 << 20

// conn escapes broken percent escapes in request lines. The real server accepts "100%" as a key, but net/http answers 400 to it
// without calling the handler. So "%" becomes "%25" where no two hexadecimal digits follow, and the target as sent is kept for the
// handler. HTTP/2 is left alone after its preface, which looks like a request line.
//
// Its fields need no lock: only the goroutine that serves the connection uses them, or net/http's background read, which that
// goroutine waits for.
type conn struct {
	net.Conn
	server *Server

	expecting bool   // the next bytes are a request line
	line      []byte // as much of it as was read
	ready     []byte // bytes for the next calls of Read
	target    string // as sent, of the latest request line
	http2     bool   // no more request lines follow
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// sentTarget is the request target, byte for byte.
func sentTarget(r *http.Request) string {
	if c := lineConn(r); c != nil && c.target != "" {
		return c.target
	}
	return r.RequestURI
}

// lineConn is the request's connection, nil for HTTP/2.
func lineConn(r *http.Request) *conn {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok && r.ProtoMajor < 2 {
		return c
	}
	return nil
}

// expectRequest is called before each request. A pipelined one, of which bytes were read already, is not escaped.
func (c *conn) expectRequest() {
	if c.http2 {
		return
	}
	c.expecting, c.target = len(c.ready) == 0, ""
}

func (c *conn) Read(p []byte) (int, error) {
	for c.expecting {
		chunk := make([]byte, 4096)
		n, err := c.Conn.Read(chunk)
		c.line = append(c.line, chunk[:n]...)
		end := bytes.IndexByte(c.line, '\n')
		switch {
		case end >= 0:
			c.http2 = bytes.HasPrefix(c.line, []byte("PRI * HTTP/2.0"))
			c.ready = append(c.escaped(c.line[:end]), c.line[end:]...)
		case len(c.line) > maxRequestLine || !startsRequestLine(c.line):
			c.ready = c.line
		case err != nil:
			return 0, err
		}
		if len(c.ready) > 0 {
			c.expecting, c.line = false, nil
		}
	}
	if len(c.ready) > 0 {
		n := copy(p, c.ready)
		c.ready = c.ready[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// startsRequestLine reports whether text can begin a request line: with a method in capitals.
func startsRequestLine(text []byte) bool {
	for _, b := range text {
		if b < 'A' || b > 'Z' {
			return b == ' '
		}
	}
	return true
}

// escaped returns a request line with the broken escapes of its target escaped, and keeps the target. The line may lack its first byte,
// which net/http reads ahead when a request follows an answer at once.
func (c *conn) escaped(line []byte) []byte {
	c.target = ""
	first, last := bytes.IndexByte(line, ' '), bytes.LastIndexByte(line, ' ')
	if first < 0 || first == last {
		return bytes.Clone(line)
	}
	target := line[first+1 : last]
	c.target = string(target)

	whole := make([]byte, 0, len(line)+8)
	whole = append(whole, line[:first+1]...)
	for i, b := range target {
		whole = append(whole, b)
		if b == '%' && (i+2 >= len(target) || !isHex(target[i+1]) || !isHex(target[i+2])) {
			whole = append(whole, "25"...)
		}
	}
	return append(whole, line[last:]...)
}

// Write drops the body of net/http's own 400.
func (c *conn) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("HTTP/1.1 400 Bad Request")) &&
		bytes.Contains(p, []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request")) {
		if _, err := c.Conn.Write([]byte("HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// CloseWrite lets net/http end an answer gracefully on TCP, as it does on a net.TCPConn.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *conn) Close() error {
	c.server.wire.Lock()
	delete(c.server.open, c)
	c.server.wire.Unlock()
	return c.Conn.Close()
}
