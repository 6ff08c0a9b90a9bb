package stream

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redisevents/restatestart/internal/wire"
)

// reply is a raw answer of Redis, read from front to back. What it yields are parts of the answer, so that a page costs
// one copy of it, where go-redis makes a map of each entry and a string of each of its fields. It speaks RESP2 and RESP3.
type reply struct{ rest string }

// errReply is an answer that is none, or not to what was asked.
var errReply = errors.New("answer is not understood")

// refusal is an error that the server answered with.
type refusal string

func (e refusal) Error() string { return string(e) }

// RedisError marks it for go-redis as one of the server's.
func (refusal) RedisError() {}

// head reads one line: what follows, and how much of it; -1 of what is null.
func (r *reply) head() (kind byte, size int, err error) {
	line, rest, found := strings.Cut(r.rest, "\r\n")
	if !found || line == "" {
		return 0, 0, errReply
	}
	r.rest = rest
	kind = line[0]
	switch kind {
	case '_':
		return kind, -1, nil
	case '-':
		return kind, 0, refusal(line[1:])
	case '*', '%', '~', '$', '=', '!':
	default:
		return kind, 0, errReply
	}
	if size, err = strconv.Atoi(line[1:]); err != nil || size < -1 {
		return kind, 0, errReply
	}
	if kind == '!' {
		text, err := r.take(size)
		if err == nil {
			err = refusal(text)
		}
		return kind, 0, err
	}
	return kind, size, nil
}

// take reads so many bytes and the end of their line.
func (r *reply) take(size int) (string, error) {
	if size < 0 || len(r.rest) < size+2 || r.rest[size] != '\r' || r.rest[size+1] != '\n' {
		return "", errReply
	}
	text := r.rest[:size]
	r.rest = r.rest[size+2:]
	return text, nil
}

func (r *reply) text() (string, error) {
	kind, size, err := r.head()
	if err != nil {
		return "", err
	}
	if kind != '$' {
		return "", errReply
	}
	return r.take(size)
}

// list reads the head of a list, and tells how many elements follow. Those of a map count twice.
func (r *reply) list() (elements int, isMap bool, err error) {
	kind, size, err := r.head()
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

// pair reads the head of a list of two.
func (r *reply) pair() error {
	elements, _, err := r.list()
	if err == nil && elements != 2 {
		err = errReply
	}
	return err
}

// parsePage makes a page of the raw answer to an XREAD of one stream: of nothing at all, or of
// one list of a stream's key and its entries, which RESP3 has as a map.
func parsePage(raw string, wants func(kind string, found bool) bool) (Page, error) {
	r := reply{raw}
	streams, isMap, err := r.list()
	if err != nil || streams == 0 {
		return Page{}, err
	}
	switch {
	case isMap && streams != 2, !isMap && streams != 1:
		return Page{}, errReply
	case !isMap:
		if err := r.pair(); err != nil {
			return Page{}, err
		}
	}
	if _, err = r.text(); err != nil { // the key
		return Page{}, err
	}
	return r.page(wants)
}

func (r *reply) page(wants func(kind string, found bool) bool) (Page, error) {
	count, _, err := r.list()
	if err != nil {
		return Page{}, err
	}
	if count > len(r.rest) { // an entry takes more than a byte
		return Page{}, errReply
	}
	page := Page{Read: count, Entries: make([]wire.Entry, 0, count)}
	for range count {
		if err := r.pair(); err != nil {
			return Page{}, err
		}
		text, err := r.text()
		if err != nil {
			return Page{}, err
		}
		if page.Last, err = wire.ParseID(text); err != nil {
			return Page{}, fmt.Errorf("%w: %w", errReply, err)
		}
		entry := wire.Entry{ID: page.Last, Name: text}
		kind, found, err := r.fields(&entry)
		if err != nil {
			return Page{}, err
		}
		if wants(kind, found) {
			page.Entries = append(page.Entries, entry)
		}
	}
	return page, nil
}

// fields reads the fields of an entry. Of one that occurs twice the last counts, as everywhere.
func (r *reply) fields(entry *wire.Entry) (kind string, found bool, err error) {
	count, _, err := r.list()
	if err != nil {
		return "", false, err
	}
	if count%2 != 0 {
		return "", false, errReply
	}
	for range count / 2 {
		name, err := r.text()
		if err != nil {
			return "", false, err
		}
		value, err := r.text()
		if err != nil {
			return "", false, err
		}
		if name == wire.FieldType {
			kind, found = value, true
		}
		wire.SetField(entry, name, value)
	}
	return kind, found, nil
}
