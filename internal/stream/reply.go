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
type reply struct {
	raw []byte
	at  int // what was read of it
}

// part is where a text stands in a reply. It is no slice, as those would keep the collector busy.
type part struct{ from, to int }

func (p part) size() int { return p.to - p.from }

func (r *reply) of(p part) []byte { return r.raw[p.from:p.to] }

// errReply is an answer that is none, or not to what was asked.
var errReply = errors.New("answer is not understood")

// refusal is an error that the server answered with.
type refusal string

func (e refusal) Error() string { return string(e) }

// RedisError marks it for go-redis as one of the server's.
func (refusal) RedisError() {}

// head reads one line: what follows, and how much of it; -1 of what is null.
func (r *reply) head() (kind byte, size int, err error) {
	rest := r.raw[r.at:]
	end := bytes.IndexByte(rest, '\n')
	if end < 2 || rest[end-1] != '\r' {
		return 0, 0, errReply
	}
	kind = rest[0]
	line := rest[1 : end-1]
	r.at += end + 1
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
			err = refusal(r.of(text))
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
func (r *reply) take(size int) (part, error) {
	text := part{r.at, r.at + size}
	if size < 0 || len(r.raw)-r.at-2 < size || r.raw[text.to] != '\r' || r.raw[text.to+1] != '\n' {
		return part{}, errReply
	}
	r.at = text.to + 2
	return text, nil
}

func (r *reply) text() (part, error) {
	kind, size, err := r.head()
	if err != nil {
		return part{}, err
	}
	if kind != '$' {
		return part{}, errReply
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
// key and its entries, which RESP3 has as a map. Nothing may stand behind it.
func parsePages(raw []byte, batch int, types map[string]bool) ([]Page, error) {
	r := reply{raw: raw}
	pages, err := r.pages(batch, types)
	if err == nil && r.at != len(raw) {
		err = errReply
	}
	return pages, err
}

func (r *reply) pages(batch int, types map[string]bool) ([]Page, error) {
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
	binder := binder{reply: r, scratch: scratch, batch: batch, types: types}
	for range count {
		if err := binder.add(); err != nil {
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
	*reply
	*scratch

	batch int
	types map[string]bool // that are wanted; nil: all
	pages []Page

	read int  // entries of the page to come
	last part // id of the last of them
}

// scratch is where a page comes together.
type scratch struct {
	texts []part // of each entry that is wanted: id, then name and value of each field
	ends  []int  // of each entry that is wanted, where its texts end
}

var scratches = sync.Pool{New: func() any { return new(scratch) }} //nolint:gochecknoglobals // a pool is

func (s *scratch) release() {
	s.texts, s.ends = s.texts[:0], s.ends[:0]
	const size = 16 // of a part
	if cap(s.texts) <= maxKept/size {
		scratches.Put(s)
	}
}

// add reads an entry. One that is wanted and finds its page full begins another.
func (b *binder) add() error {
	if err := b.pair(); err != nil {
		return err
	}
	begin := len(b.texts)
	id, err := b.text()
	if err != nil {
		return err
	}
	fields, _, err := b.list()
	if err != nil {
		return err
	}
	if fields%2 != 0 {
		return errReply
	}
	b.texts = append(b.texts, id)
	wanted := b.types == nil
	for range fields / 2 {
		name, err := b.text()
		if err != nil {
			return err
		}
		value, err := b.text()
		if err != nil {
			return err
		}
		b.texts = append(b.texts, name, value)
		if b.types != nil && string(b.of(name)) == wire.FieldType {
			wanted = b.types[string(b.of(value))] // of a field that occurs twice the last counts, as everywhere
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
	if page.Last, err = wire.ParseID(string(b.of(b.last))); err != nil {
		return fmt.Errorf("%w: %w", errReply, err)
	}
	size := 0
	begin := 0
	for _, end := range b.ends {
		size += b.texts[begin].size()
		for i := begin + 2; i < end; i += 2 {
			size += b.texts[i].size()
		}
		begin = end
	}
	var text strings.Builder
	text.Grow(size)
	keep := func(kept part) string {
		before := text.Len()
		text.Write(b.of(kept))
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
			wire.SetField(entry, string(b.of(b.texts[at])), keep(b.texts[at+1]))
		}
		begin = end
	}
	b.pages = append(b.pages, page)
	b.read, b.texts, b.ends = 0, b.texts[:0], b.ends[:0]
	return nil
}
