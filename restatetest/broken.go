package restatetest

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// SlowBody answers normally, the status and the header at once, then the body a byte at a time with an interval before each. The
// client sees a 202 whose body, of some 80 bytes, takes as many intervals to read. The workflow is started before that, whether
// or not the client waits. Zero and negative intervals do not wait.
func SlowBody(interval time.Duration) Step {
	return step(func(x *exchange) {
		held := x.hold()
		x.w.Header().Set("Content-Length", strconv.Itoa(held.body.Len()))
		x.w.WriteHeader(held.status)
		x.w.Flush()
		for _, b := range held.body.Bytes() {
			x.wait(interval)
			if _, err := x.w.Write([]byte{b}); err != nil {
				abandon()
			}
			x.w.Flush()
		}
	})
}

// TruncatedBody answers normally but for the second half of the body: the connection is closed in its place. The client sees a 202
// with a Content-Length, and an unexpected EOF while reading the body; on HTTP/2, a stream reset with INTERNAL_ERROR. The
// workflow is started.
func TruncatedBody() Step {
	return step(func(x *exchange) {
		held := x.hold()
		x.w.Header().Set("Content-Length", strconv.Itoa(held.body.Len()))
		x.w.WriteHeader(held.status)
		_, _ = x.w.Write(held.body.Bytes()[:held.body.Len()/2])
		x.w.Flush()
		abandon()
	})
}

// EndlessBody answers with the status and header of the normal answer, and a body of spaces that never ends. The client sees
// a 202 and bytes for as long as it reads; a client without a limit never gets further. The workflow is started.
func EndlessBody() Step {
	return step(func(x *exchange) {
		held := x.hold()
		x.w.WriteHeader(held.status)
		spaces := bytes.Repeat([]byte{' '}, 4096)
		for x.r.Context().Err() == nil {
			if _, err := x.w.Write(spaces); err != nil {
				break
			}
		}
		abandon()
	})
}

// DropAfterStatus starts the workflow, sends the first line of the answer and closes the connection: the client sees an unexpected
// EOF and no response. On HTTP/2, where a header cannot be cut, it sends the header and resets the stream: the client sees a
// 202, and an error while reading the body.
func DropAfterStatus() Step {
	return step(func(x *exchange) {
		held := x.hold()
		if c := lineConn(x.r); c != nil {
			x.w.note(held.status)
			_, _ = fmt.Fprintf(c.Conn, "HTTP/1.1 %d %s\r\n", held.status, http.StatusText(held.status))
		} else {
			x.w.WriteHeader(held.status)
			x.w.Flush()
		}
		abandon()
	})
}

// heldAnswer is the normal answer, held back to be sent in another manner. Its header is in the exchange's answer already.
type heldAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (h *heldAnswer) Header() http.Header         { return h.header }
func (h *heldAnswer) WriteHeader(status int)      { h.status = status }
func (h *heldAnswer) Write(p []byte) (int, error) { return h.body.Write(p) }

func (x *exchange) hold() *heldAnswer {
	sent := x.w
	held := &heldAnswer{header: sent.Header(), status: http.StatusOK}
	x.w = &answer{ResponseWriter: held, exchange: x, decided: true} // nothing is to be noted before it is sent
	x.normally()
	x.w = sent
	return held
}
