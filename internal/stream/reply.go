package stream

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redisevents/restatestart/internal/wire"
)

// reply is a raw answer of Redis, read from front to back. What it yields are parts of the answer, so that a page costs
// one string, where go-redis makes a map of each entry and a string of each of its fields. It speaks RESP2 and RESP3.
type reply struct{ rest []byte }

// errReply is an answer that is none, or not to what was asked.
var errReply = errors.New("answer is not understood")

// refusal is an error that the server answered with.
type refusal string

func (e refusal) Error() string { return string(e) }

// RedisError marks it for go-redis as one of the server's.
func (refusal) RedisError() {}

// head reads one line: what follows, and how much of it; -1 of what is null.
func (r *reply) head() (kind byte, size int, err error) {
	end := bytes.IndexByte(r.rest, '\n')
	if end < 2 || r.rest[end-1] != '\r' {
		return 0, 0, errReply
	}
	kind = r.rest[0]
	line := r.rest[1 : end-1]
	r.rest = r.rest[end+1:]
	switch kind {
	case '*', '%', '~', '$', '=', '!':
		if size, err = length(line); err != nil {
			return kind, 0, err
		}
	case '_':
		return kind, -1, nil
	case '-':
		return kind, 0, refusal(line)
	default:
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

// length reads how much follows, and -1.
func length(line []byte) (size int, err error) {
	if string(line) == "-1" {
		return -1, nil
	}
	const most = 18 // digits that fit
	if len(line) == 0 || len(line) > most {
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

// take reads so many bytes and the end of their line.
func (r *reply) take(size int) ([]byte, error) {
	if size < 0 || len(r.rest)-2 < size || r.rest[size] != '\r' || r.rest[size+1] != '\n' {
		return nil, errReply
	}
	text := r.rest[:size]
	r.rest = r.rest[size+2:]
	return text, nil
}

func (r *reply) text() ([]byte, error) {
	kind, size, err := r.head()
	if err != nil {
		return nil, err
	}
	if kind != '$' {
		return nil, errReply
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

// parsePages makes pages of the raw answer to an XREAD of one stream: of nothing at all, or of one list of a stream's
// key and its entries, which RESP3 has as a map.
func parsePages(raw []byte, batch int, types map[string]bool) ([]Page, error) {
	r := reply{raw}
	streams, isMap, err := r.list()
	if err != nil || streams == 0 {
		return nil, err
	}
	switch {
	case isMap && streams != 2, !isMap && streams != 1:
		return nil, errReply
	case !isMap:
		if err := r.pair(); err != nil {
			return nil, err
		}
	}
	if _, err = r.text(); err != nil { // the key
		return nil, err
	}
	count, _, err := r.list()
	if err != nil {
		return nil, err
	}
	scratch, _ := scratches.Get().(*scratch)
	defer scratch.release()
	binder := binder{scratch: scratch, batch: batch, types: types}
	for range count {
		if err := binder.add(&r); err != nil {
			return nil, err
		}
	}
	if binder.read > 0 {
		err = binder.bind()
	}
	return binder.pages, err
}

// binder binds entries into pages. What a page is to keep stays part of the reply until the page is full: then it is
// copied, in one piece.
type binder struct {
	batch int
	types map[string]bool // that are wanted; nil: all
	pages []Page

	*scratch

	read int    // entries of the page to come
	last []byte // id of the last of them
}

// scratch is where a page comes together.
type scratch struct {
	texts [][]byte // of each entry that is wanted: id, then name and value of each field
	ends  []int    // of each entry that is wanted, where its texts end
}

var scratches = sync.Pool{New: func() any { return new(scratch) }} //nolint:gochecknoglobals // a pool is

// release leaves nothing of the reply behind.
func (s *scratch) release() {
	clear(s.texts[:cap(s.texts)])
	s.texts, s.ends = s.texts[:0], s.ends[:0]
	scratches.Put(s)
}

// add reads an entry. One that is wanted and finds its page full begins another.
func (b *binder) add(r *reply) error {
	if err := r.pair(); err != nil {
		return err
	}
	begin := len(b.texts)
	id, err := r.text()
	if err != nil {
		return err
	}
	fields, _, err := r.list()
	if err != nil {
		return err
	}
	if fields%2 != 0 {
		return errReply
	}
	b.texts = append(b.texts, id)
	wanted := b.types == nil
	for range fields / 2 {
		name, err := r.text()
		if err != nil {
			return err
		}
		value, err := r.text()
		if err != nil {
			return err
		}
		b.texts = append(b.texts, name, value)
		if b.types != nil && string(name) == wire.FieldType {
			wanted = b.types[string(value)] // of a field that occurs twice the last counts, as everywhere
		}
	}
	switch {
	case !wanted:
		b.texts = b.texts[:begin]
	case len(b.ends) < b.batch:
		b.ends = append(b.ends, len(b.texts))
	default:
		entry := b.texts[begin:]
		if err := b.bind(); err != nil {
			return err
		}
		b.texts = append(b.texts, entry...)
		b.ends = append(b.ends, len(b.texts))
	}
	b.read++
	b.last = id
	return nil
}

// bind makes a page of what there is.
func (b *binder) bind() error {
	page := Page{Read: b.read, Entries: make([]wire.Entry, len(b.ends))}
	var err error
	if page.Last, err = wire.ParseID(string(b.last)); err != nil {
		return fmt.Errorf("%w: %w", errReply, err)
	}
	size := 0
	begin := 0
	for _, end := range b.ends {
		size += len(b.texts[begin])
		for i := begin + 2; i < end; i += 2 {
			size += len(b.texts[i])
		}
		begin = end
	}
	var text strings.Builder
	text.Grow(size)
	keep := func(part []byte) string {
		before := text.Len()
		text.Write(part)
		return text.String()[before:]
	}
	begin = 0
	for i, end := range b.ends {
		entry := &page.Entries[i]
		entry.Name = keep(b.texts[begin])
		if entry.ID, err = wire.ParseID(entry.Name); err != nil {
			return fmt.Errorf("%w: %w", errReply, err)
		}
		for at := begin + 1; at < end; at += 2 {
			wire.SetField(entry, string(b.texts[at]), keep(b.texts[at+1]))
		}
		begin = end
	}
	b.pages = append(b.pages, page)
	b.read, b.texts, b.ends = 0, b.texts[:0], b.ends[:0]
	return nil
}
