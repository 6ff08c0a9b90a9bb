package restatetest

import (
	"bytes"
	"context"
	"net"
	"net/http"
)

// maxRequestLine is where a request line is given up on and left to net/http to refuse.
const maxRequestLine = 1 << 20

// conn is a connection whose request lines net/http can always parse. The real server keeps a broken percent escape in a key as
// it stands, so that "100%" is a legal key; net/http answers 400 to it before any handler is asked. Here "%" becomes "%25" where no
// two hexadecimal digits follow, and the target as it was sent is kept for the handler.
//
// Its fields are touched by the one goroutine that serves the connection, or by net/http's background read, which that goroutine
// waits for. On HTTP/2, whose preface looks like a request line, they are left alone after it; what keys can be there is up to
// net/http.
type conn struct {
	net.Conn
	server *Server

	expecting bool   // the next bytes are a request line
	line      []byte // as much of it as was read
	ready     []byte // bytes to hand out before reading on
	target    string // as sent, of the latest request line
	http2     bool   // there are no more request lines to come
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// sentTarget is the request target byte for byte.
func sentTarget(r *http.Request) string {
	if c := lineConn(r); c != nil && c.target != "" {
		return c.target
	}
	return r.RequestURI
}

// lineConn is the request's connection, unless that is HTTP/2.
func lineConn(r *http.Request) *conn {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok && r.ProtoMajor < 2 {
		return c
	}
	return nil
}

// expectRequest is called before each request. Bytes of a pipelined one may have been read already; it keeps net/http's rules.
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
			c.ready = append(c.repaired(c.line[:end]), c.line[end:]...)
		case len(c.line) > maxRequestLine || !beginsLine(c.line):
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

// beginsLine reports whether text can be the beginning of a request line: a method in capitals.
func beginsLine(text []byte) bool {
	for _, b := range text {
		if b < 'A' || b > 'Z' {
			return b == ' '
		}
	}
	return true
}

// repaired returns a request line with its target's broken escapes made whole, and notes the target. The line may lack its first
// byte, which net/http reads ahead when a request follows an answer at once.
func (c *conn) repaired(line []byte) []byte {
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

// Write leaves out the body of net/http's own 400.
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

// CloseWrite lets net/http end an answer gracefully on TCP, as it would without this type in between.
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
