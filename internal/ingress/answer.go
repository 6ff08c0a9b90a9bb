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
	"unicode"
	"unicode/utf8"
)

const (
	// maxAnswer is how much of an answer is read. A connection with more to say is closed, not drained.
	maxAnswer = 64 << 10
	// MaxText is how many bytes of an answer's text are kept.
	MaxText = 256
)

// Answer is what came back for a send.
type Answer struct {
	Status       int
	InvocationID string        // of an accepted start, when the answer named one
	Previously   bool          // the key was known already; nothing new was started
	RetryAfter   time.Duration // how long the answer asks to wait; 0 when it does not
	Text         string        // of an answer other than 2xx: its message, one line of at most MaxText bytes
}

// Accepted tells whether the start is in Restate's hands: any 2xx.
func (a Answer) Accepted() bool { return a.Status >= 200 && a.Status < 300 }

func (c *Client) read(response *http.Response, send *Send) Answer {
	answer := Answer{Status: response.StatusCode, RetryAfter: retryAfter(response.Header)}
	if answer.Status == http.StatusSwitchingProtocols {
		return answer // what follows is a conversation without end, which no context ends
	}
	buffer, _ := c.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new(make([]byte, 0, smallAnswer))
	}
	defer c.buffers.Put(buffer)
	*buffer = readUpTo(maxAnswer, response.Body, *buffer)
	c.understand(&answer, *buffer, send)
	return answer
}

// smallAnswer is more than Restate's answers take.
const smallAnswer = 512

// readUpTo fills a buffer with what there is. Reading to the end lets the connection serve again. What breaks off keeps
// what came.
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

// understand makes facts of an answer's body.
func (c *Client) understand(answer *Answer, body []byte, send *Send) {
	if answer.Accepted() {
		if id, previously, plain := accepted(body); plain {
			answer.InvocationID, answer.Previously = id, previously
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
	text := string(body)
	if isJSON && known.Message != "" {
		text = known.Message
	}
	answer.Text = Cut(c.redact(OneLine(text), send), MaxText)
}

const statusPreviously = "PreviouslyAccepted"

// accepted reads the answer that Restate gives to a start, to the letter. Any other one is for a JSON decoder.
func accepted(body []byte) (invocationID string, previously, plain bool) {
	rest, opened := bytes.CutPrefix(body, []byte(`{"invocationId":"`))
	id, rest, found := bytes.Cut(rest, []byte(`","`))
	if !opened || !found || bytes.IndexFunc(id, notOfAnID) >= 0 {
		return "", false, false
	}
	if delayed, found := bytes.CutPrefix(rest, []byte(`executionTime":"`)); found {
		var at []byte
		if at, rest, found = bytes.Cut(delayed, []byte(`","`)); !found || bytes.IndexFunc(at, notOfATime) >= 0 {
			return "", false, false
		}
	}
	switch string(rest) {
	case `status":"Accepted"}`:
		return string(id), false, true
	case `status":"` + statusPreviously + `"}`:
		return string(id), true, true
	default:
		return "", false, false
	}
}

func notOfAnID(r rune) bool {
	return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && r != '_'
}

func notOfATime(r rune) bool {
	return (r < '0' || r > ':') && r != '-' && r != '.' && r != 'T' && r != 'Z'
}

// OneLine folds white space and drops what a terminal or a log would stumble over.
func OneLine(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
}

// Cut shortens a text to at most limit bytes, between characters.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const more = "…"
	end := limit - len(more)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + more
}

// retryAfter reads a Retry-After header, in seconds or as a date. A date is held against the answer's own Date
// where there is one, so that the two clocks need not agree. What cannot be read, and what lies in the past,
// is 0; what is too large to hold is the longest duration there is.
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
