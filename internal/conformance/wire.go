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

// connection is one connection to the server. It is used by one goroutine.
type connection struct {
	conn    net.Conn
	reader  *bufio.Reader
	method  string        // of the request whose answer is read next
	written chan struct{} // closed once the latest text was written, or could not be
}

func newConnection(conn net.Conn) *connection {
	written := make(chan struct{})
	close(written)
	return &connection{conn: conn, reader: bufio.NewReader(conn), written: written}
}

// write sends text without waiting for the server to take it: it may answer before it has read everything.
func (c *connection) write(text string, cut bool) error {
	<-c.written
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	half, canCut := c.conn.(interface{ CloseWrite() error })
	if cut && !canCut {
		return errors.New("the writing half of this connection cannot be closed alone: dial TCP")
	}
	written := make(chan struct{})
	c.written = written
	go func() {
		defer close(written)
		// What could not be written is no error: the answer, or that there is none, tells.
		if _, err := io.WriteString(c.conn, text); err == nil && cut {
			_ = half.CloseWrite()
		}
	}()
	return nil
}

// read takes the answer in, leaving out interim ones.
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
			answer.Header.Set("Connection", "close") // which net/http has taken out
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

// text is the request as it is sent.
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

// framed reports whether a header says how long the body is.
func (r *Request) framed() bool {
	for _, line := range r.Headers {
		name, _, _ := strings.Cut(strings.ToLower(line), ":")
		if name == "content-length" || name == "transfer-encoding" {
			return true
		}
	}
	return false
}
