package stream

import (
	"bytes"
	"errors"
)

// decoder reads a raw reply of Redis, in RESP2 or RESP3, from front to back. A page costs one string, where go-redis
// makes a map of each entry and a string of each field.
type decoder struct {
	raw []byte
	at  int // next byte to read
}

// span is a text within a reply. A slice would be a pointer for the collector to follow.
type span struct{ from, to int }

func (s span) size() int { return s.to - s.from }

func (d *decoder) bytes(s span) []byte { return d.raw[s.from:s.to] }

// errReply is a reply that is malformed, or is not one to an XREAD of one stream.
var errReply = errors.New("unexpected reply")

// serverError is an error that the server replied with.
type serverError string

func (e serverError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (serverError) RedisError() {}

// header reads one line: the kind of what follows, and its size; -1 for null.
func (d *decoder) header() (kind byte, size int, err error) {
	rest := d.raw[d.at:]
	end := bytes.IndexByte(rest, '\n')
	if end < 2 || rest[end-1] != '\r' {
		return 0, 0, errReply
	}
	kind = rest[0]
	line := rest[1 : end-1]
	d.at += end + 1
	switch kind {
	case '*', '%', '~', '$', '=', '!':
		if size, err = length(line); err != nil {
			return kind, 0, err
		}
	case '_':
		return kind, -1, nil
	case '-':
		return kind, 0, serverError(line)
	default:
		return kind, 0, errReply
	}
	if kind == '!' {
		text, err := d.take(size)
		if err == nil {
			err = serverError(d.bytes(text))
		}
		return kind, 0, err
	}
	return kind, size, nil
}

// length reads a size, or -1.
func length(line []byte) (size int, err error) {
	if string(line) == "-1" {
		return -1, nil
	}
	const maxDigits = 18 // fit
	if len(line) == 0 || len(line) > maxDigits {
		return 0, errReply
	}
	for _, digit := range line {
		if digit < '0' || digit > '9' {
			return 0, errReply
		}
		size = size*10 + int(digit-'0')
	}
	return size, nil
}

// take reads a text of a given size, and the end of its line.
func (d *decoder) take(size int) (span, error) {
	text := span{d.at, d.at + size}
	if size < 0 || len(d.raw)-d.at-2 < size || d.raw[text.to] != '\r' || d.raw[text.to+1] != '\n' {
		return span{}, errReply
	}
	d.at = text.to + 2
	return text, nil
}

func (d *decoder) text() (span, error) {
	kind, size, err := d.header()
	if err != nil {
		return span{}, err
	}
	if kind != '$' {
		return span{}, errReply
	}
	return d.take(size)
}

// list reads the header of a list and returns the number of its elements; a map has two for each pair.
func (d *decoder) list() (elements int, isMap bool, err error) {
	kind, size, err := d.header()
	switch {
	case err != nil:
		return 0, false, err
	case kind == '%':
		return 2 * size, true, nil
	case kind == '*', kind == '~', kind == '_':
		return max(size, 0), false, nil
	default:
		return 0, false, errReply
	}
}

// pair reads the header of a list of two.
func (d *decoder) pair() error {
	elements, _, err := d.list()
	if err == nil && elements != 2 {
		err = errReply
	}
	return err
}
