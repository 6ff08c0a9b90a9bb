package wire

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"
)

// Limits of a publisher. A reader does not enforce them.
const (
	MaxHeaders     = 64
	MaxHeaderBytes = 8192
)

// ErrHeaders is wrapped by every error about a malformed header block.
var ErrHeaders = errors.New("malformed header block")

// Headers is a packed header block: `<len>:<name><len>:<value>` for each header, len in bytes. It is parsed lazily, so
// that a malformed block affects only those who read it.
type Headers string

// Header is one name and value of a block.
type Header struct {
	Name  string
	Value string
}

// PackHeaders packs headers in the order given. More than MaxHeaders of them, or more than MaxHeaderBytes in all, is an error.
func PackHeaders(headers ...Header) (Headers, error) {
	if len(headers) > MaxHeaders {
		return "", fmt.Errorf("%d headers, at most %d fit an entry", len(headers), MaxHeaders)
	}
	var packed []byte
	for _, header := range headers {
		packed = appendField(appendField(packed, header.Name), header.Value)
	}
	if len(packed) > MaxHeaderBytes {
		return "", fmt.Errorf("%d bytes of packed headers, at most %d fit an entry", len(packed), MaxHeaderBytes)
	}
	return Headers(packed), nil
}

func appendField(packed []byte, text string) []byte {
	packed = strconv.AppendInt(packed, int64(len(text)), 10)
	packed = append(packed, ':')
	return append(packed, text...)
}

// All yields the headers in order. A malformed block yields the headers before the fault, then an error wrapping ErrHeaders.
func (h Headers) All() iter.Seq2[Header, error] {
	return func(yield func(Header, error) bool) {
		rest := string(h)
		for rest != "" {
			var header Header
			var err error
			if header.Name, rest, err = cutField(rest); err == nil {
				header.Value, rest, err = cutField(rest)
			}
			if err != nil {
				yield(Header{}, fmt.Errorf("%w: %w", ErrHeaders, err))
				return
			}
			if !yield(header, nil) {
				return
			}
		}
	}
}

// Lookup returns the first header of that name. A fault before it, or anywhere when there is no such header, is an error
// wrapping ErrHeaders; one after it is not noticed.
func (h Headers) Lookup(name string) (value string, found bool, err error) {
	for header, err := range h.All() {
		if err != nil {
			return "", false, err
		}
		if header.Name == name {
			return header.Value, true, nil
		}
	}
	return "", false, nil
}

func cutField(packed string) (field, rest string, err error) {
	var length int64
	for i := range len(packed) {
		c := packed[i]
		switch {
		case c == ':' && i == 0:
			return "", "", errors.New("empty length")
		case c == ':':
			rest = packed[i+1:]
			if length > int64(len(rest)) {
				return "", "", errors.New("length beyond the end of the block")
			}
			return rest[:length], rest[length:], nil
		case c < '0' || c > '9':
			return "", "", errors.New("length is not a number")
		}
		if length = length*10 + int64(c-'0'); length > math.MaxInt32 {
			return "", "", errors.New("length beyond the end of the block")
		}
	}
	return "", "", errors.New("block ends within a header")
}
