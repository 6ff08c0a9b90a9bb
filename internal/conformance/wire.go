package conformance

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// patience bounds each step.
const patience = 10 * time.Second

// connection is one connection to the server, for use by one goroutine.
type connection struct {
	conn    net.Conn
	reader  *bufio.Reader
	method  string        // of the request whose answer is read next
	written chan struct{} // closed when the latest write ended
}

func newConnection(conn net.Conn) *connection {
	written := make(chan struct{})
	close(written)
	return &connection{conn: conn, reader: bufio.NewReader(conn), written: written}
}

// write sends text without waiting: the server may answer before it has read everything.
func (c *connection) write(text string, cut bool) error {
	<-c.written
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	half, canCut := c.conn.(interface{ CloseWrite() error })
	if cut && !canCut {
		return errors.New("this connection cannot be closed by half: dial TCP")
	}
	written := make(chan struct{})
	c.written = written
	go func() {
		defer close(written)
		// A failed write shows in the answer, or in its absence.
		if _, err := io.WriteString(c.conn, text); err == nil && cut {
			_ = half.CloseWrite()
		}
	}()
	return nil
}

// read reads the answer, without interim ones.
func (c *connection) read() (Response, error) {
	for {
		answer, err := http.ReadResponse(c.reader, &http.Request{Method: c.method})
		if err != nil {
			return Response{}, fmt.Errorf("read the answer: %w", err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			return Response{}, fmt.Errorf("read the body of answer %d: %w", answer.StatusCode, err)
		}
		if answer.StatusCode < http.StatusOK {
			continue
		}
		if answer.Close {
			answer.Header.Set("Connection", "close") // net/http has removed it
		}
		return Response{Status: answer.StatusCode, Header: answer.Header, Body: body}, nil
	}
}

// awaitContinue waits until the server asks for the body.
func (c *connection) awaitContinue() error {
	answer, err := http.ReadResponse(c.reader, &http.Request{Method: c.method})
	if err != nil {
		return fmt.Errorf("wait for 100 Continue: %w", err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusContinue {
		return fmt.Errorf("wait for 100 Continue: got %s", answer.Status)
	}
	return nil
}

func (c *connection) close() {
	_ = c.conn.Close()
	<-c.written
}

// text is the request as sent.
func (r *Request) text(key string) (string, error) {
	lines := append([]string{r.Method + " " + r.Target + " HTTP/1.1", "host: restate.test"}, r.Headers...)
	head, err := expand(strings.Join(lines, "\r\n"), key)
	if err != nil || r.Body == nil {
		return head + "\r\n\r\n", err
	}
	body, err := expand(*r.Body, key)
	if !r.framed() {
		head += fmt.Sprintf("\r\ncontent-length: %d", len(body))
	}
	return head + "\r\n\r\n" + body, err
}

// framed reports whether a header frames the body.
func (r *Request) framed() bool {
	for _, line := range r.Headers {
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		if name == "content-length" || name == "transfer-encoding" {
			return true
		}
	}
	return false
}
