package sink

import (
	"bytes"
	"errors"
	"strconv"
)

var (
	errRequest = errors.New("not a start with a Content-Length")
	headEnd    = []byte("\r\n\r\n")
	lineEnd    = []byte("\r\n")
	lengthName = []byte("\r\nContent-Length: ") // as net/http writes it
)

// next finds the first whole request of data. Size is 0 while it has not come in full. Only what keep-alive and
// pipelining need is looked at: the target, and the length of the body.
func next(data []byte) (key []byte, size int, err error) {
	end := bytes.Index(data, headEnd)
	if end < 0 {
		return nil, 0, nil
	}
	head := data[:end+len(lineEnd)]
	_, rest, found := bytes.Cut(head, lengthName)
	if !found {
		return nil, 0, errRequest
	}
	value, _, _ := bytes.Cut(rest, lineEnd)
	length, err := strconv.Atoi(string(value))
	if err != nil || length < 0 {
		return nil, 0, errRequest
	}
	if key = keyOf(head); key == nil {
		return nil, 0, errRequest
	}
	size = end + len(headEnd) + length
	if len(data) < size {
		return nil, 0, nil
	}
	return key, size, nil
}

// keyOf is the second segment of the target: POST /{workflow}/{key}/{handler}/send HTTP/1.1.
func keyOf(head []byte) []byte {
	rest, found := bytes.CutPrefix(head, []byte("POST /"))
	if !found {
		return nil
	}
	_, rest, found = bytes.Cut(rest, []byte("/"))
	if !found {
		return nil
	}
	key, _, found := bytes.Cut(rest, []byte("/"))
	if !found || bytes.ContainsAny(key, " \r\n") {
		return nil
	}
	return key
}
