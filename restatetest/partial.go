package restatetest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// SlowBody answers normally, but sends the body a byte at a time, with an interval before each byte. The client sees a 202 at once, and
// its body of some 80 bytes takes as many intervals to read. The workflow is started even if the client does not wait. Zero and
// negative intervals do not wait.
func SlowBody(interval time.Duration) Step {
	return step(func(x *exchange) {
		buffered := x.buffer()
		x.w.Header().Set("Content-Length", strconv.Itoa(buffered.body.Len()))
		x.w.WriteHeader(buffered.status)
		x.w.Flush()
		for _, b := range buffered.body.Bytes() {
			x.wait(interval)
			if _, err := x.w.Write([]byte{b}); err != nil {
				abort()
			}
			x.w.Flush()
		}
	})
}

// TruncatedBody answers normally, but closes the connection after half of the body. The client sees a 202 with a Content-Length and an
// unexpected EOF while it reads the body; on HTTP/2, a stream reset with INTERNAL_ERROR. The workflow is started.
func TruncatedBody() Step {
	return step(func(x *exchange) {
		buffered := x.buffer()
		x.w.Header().Set("Content-Length", strconv.Itoa(buffered.body.Len()))
		x.w.WriteHeader(buffered.status)
		_, _ = x.w.Write(buffered.body.Bytes()[:buffered.body.Len()/2])
		x.w.Flush()
		abort()
	})
}

// EndlessBody answers with the normal status and header, and a body of spaces that never ends. The client sees a 202 and reads until a
// limit of its own. The workflow is started.
func EndlessBody() Step {
	return step(func(x *exchange) {
		buffered := x.buffer()
		x.w.WriteHeader(buffered.status)
		spaces := bytes.Repeat([]byte{' '}, 4096)
		for x.r.Context().Err() == nil {
			if _, err := x.w.Write(spaces); err != nil {
				break
			}
		}
		abort()
	})
}

// DropAfterStatus starts the workflow, sends the status line of the answer and closes the connection: the client sees an unexpected EOF and
// no response. On HTTP/2, where a header cannot be cut, it sends the header and resets the stream: the client sees a 202 and an
// error while it reads the body.
func DropAfterStatus() Step {
	return step(func(x *exchange) {
		buffered := x.buffer()
		if c := lineConn(x.r); c != nil {
			x.w.record(buffered.status)
			_, _ = fmt.Fprintf(c.Conn, "HTTP/1.1 %d %s\r\n", buffered.status, http.StatusText(buffered.status))
		} else {
			x.w.WriteHeader(buffered.status)
			x.w.Flush()
		}
		abort()
	})
}

// bufferedAnswer collects the status and body of the normal answer. Its header is that of the exchange's answer.
type bufferedAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *bufferedAnswer) Header() http.Header         { return h.header }
func (h *bufferedAnswer) WriteHeader(status int)      { h.status = status }
func (h *bufferedAnswer) Write(p []byte) (int, error) { return h.body.Write(p) }

func (x *exchange) buffer() *bufferedAnswer {
	sent := x.w
	held := &bufferedAnswer{header: sent.Header(), status: http.StatusOK}
	x.w = &answer{ResponseWriter: held, exchange: x, decided: true} // the status is recorded when it is sent
	x.answerNormally()
	x.w = sent
	return held
}
