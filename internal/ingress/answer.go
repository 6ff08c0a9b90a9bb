package ingress

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redisevents/restatestart/internal/text"
)

const (
	// maxAnswer is how many bytes of an answer are read. A connection with more than that is closed.
	maxAnswer = 64 << 10
	// MaxText is how many bytes of an answer's text are kept.
	MaxText = 256
)

// Answer is what the ingress, or a proxy before it, answered to a send.
type Answer struct {
	Status       int
	InvocationID string        // of an accepted start, when the answer named one
	Previously   bool          // PreviouslyAccepted: the key was known, and nothing new was started
	RetryAfter   time.Duration // how long the answer asks to wait; 0 when it does not
	Text         string        // the message of an answer other than 2xx, one line of at most MaxText bytes
}

// Accepted reports whether Restate has the start: any 2xx.
func (a Answer) Accepted() bool { return a.Status >= 200 && a.Status < 300 }

func (c *Client) read(response *http.Response, send *Send) Answer {
	answer := Answer{Status: response.StatusCode, RetryAfter: retryAfter(response.Header)}
	if answer.Status == http.StatusSwitchingProtocols {
		return answer // its body is the connection, which no context ends
	}
	buffer, _ := c.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new(make([]byte, 0, smallAnswer))
	}
	defer c.buffers.Put(buffer)
	*buffer = readUpTo(maxAnswer, response.Body, *buffer)
	c.parse(&answer, *buffer, send)
	return answer
}

// smallAnswer is more bytes than an answer of Restate has.
const smallAnswer = 512

// readUpTo reads into a buffer, to the end if that is within the limit, which lets the connection be reused. After an error
// it returns what was read before.
func readUpTo(limit int, from io.Reader, buffer []byte) []byte {
	buffer = buffer[:0]
	for len(buffer) < limit {
		if len(buffer) == cap(buffer) {
			buffer = slices.Grow(buffer, 1)
		}
		n, err := from.Read(buffer[len(buffer):min(cap(buffer), limit)])
		buffer = buffer[:len(buffer)+n]
		if err != nil {
			return buffer
		}
	}
	return buffer
}

// parse reads an answer's body.
func (c *Client) parse(answer *Answer, body []byte, send *Send) {
	if answer.Accepted() {
		if id, previously, plain := accepted(body); plain {
			answer.Previously = previously
			if !send.OmitID {
				answer.InvocationID = string(id)
			}
			return
		}
	}
	var known struct {
		InvocationID string `json:"invocationId"`
		Status       string `json:"status"`
		Message      string `json:"message"`
	}
	// An answer need not be JSON: a proxy's is a page, and Restate's own 413 is plain text.
	isJSON := json.Unmarshal(body, &known) == nil
	if answer.Accepted() {
		answer.InvocationID = known.InvocationID
		answer.Previously = known.Status == statusPreviously
		return
	}
	message := string(body)
	if isJSON && known.Message != "" {
		message = known.Message
	}
	answer.Text = text.Cut(c.redact(text.OneLine(message), send), MaxText)
}

const statusPreviously = "PreviouslyAccepted"

// accepted reads the two answers that Restate gives to a start, byte by byte. Plain is false for any other, which needs a
// JSON decoder.
func accepted(body []byte) (invocationID []byte, previously, plain bool) {
	rest, opened := bytes.CutPrefix(body, []byte(`{"invocationId":"`))
	id, rest, found := bytes.Cut(rest, []byte(`","`))
	if !opened || !found || !consistsOf(id, isIDByte) {
		return nil, false, false
	}
	if delayed, found := bytes.CutPrefix(rest, []byte(`executionTime":"`)); found {
		var at []byte
		if at, rest, found = bytes.Cut(delayed, []byte(`","`)); !found || !consistsOf(at, isTimeByte) {
			return nil, false, false
		}
	}
	switch string(rest) {
	case `status":"Accepted"}`:
		return id, false, true
	case `status":"` + statusPreviously + `"}`:
		return id, true, true
	default:
		return nil, false, false
	}
}

func consistsOf(text []byte, valid func(byte) bool) bool {
	for _, c := range text {
		if !valid(c) {
			return false
		}
	}
	return true
}

func isIDByte(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c == '_'
}

func isTimeByte(c byte) bool {
	return '0' <= c && c <= ':' || c == '-' || c == '.' || c == 'T' || c == 'Z'
}

// retryAfter reads a Retry-After header, in seconds or as a date. A date is compared with the answer's own Date where there is
// one, so that the clocks need not agree. It is 0 when it cannot be read or is in the past, and the longest duration when it
// is out of range.
func retryAfter(header http.Header) time.Duration {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		const most = int64(1<<63-1) / int64(time.Second)
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > most {
			return 1<<63 - 1
		}
		return time.Duration(seconds) * time.Second
	}
	when, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now := time.Now()
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return max(0, when.Sub(now))
}
