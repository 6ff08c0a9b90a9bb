package stream

import (
	"fmt"
	"strings"
	"sync"

	"github.com/redisevents/restatestart/internal/wire"
)

// decodePages decodes the raw reply to an XREAD of one stream into pages of a batch each. The reply is null or empty, or
// has the key and its entries, as a list or, in RESP3, as a map. Nothing may follow it.
func decodePages(raw []byte, batch int, types map[string]bool) ([]Page, error) {
	d := decoder{raw: raw}
	pages, err := d.pages(batch, types)
	if err == nil && d.at != len(raw) {
		err = errReply
	}
	return pages, err
}

func (d *decoder) pages(batch int, types map[string]bool) ([]Page, error) {
	streams, isMap, err := d.list()
	if err != nil || streams == 0 {
		return nil, err
	}
	switch {
	case isMap && streams != 2, !isMap && streams != 1:
		return nil, errReply
	case !isMap:
		if err := d.pair(); err != nil {
			return nil, err
		}
	}
	if _, err = d.text(); err != nil { // the key
		return nil, err
	}
	count, _, err := d.list()
	if err != nil {
		return nil, err
	}
	scratch, _ := scratches.Get().(*scratch)
	defer scratch.release()
	builder := pageBuilder{decoder: d, scratch: scratch, batch: batch, types: types}
	for range count {
		if err := builder.add(); err != nil {
			return nil, err
		}
	}
	if builder.read > 0 {
		err = builder.finish()
	}
	return builder.pages, err
}

// pageBuilder collects entries into pages. The texts of a page stay in the reply until the page is complete: then they
// are copied, in one piece.
type pageBuilder struct {
	*decoder
	*scratch

	batch int
	types map[string]bool // wanted types; nil for all
	pages []Page          // complete

	read int  // entries of the next page
	last span // id of the last of them
}

// scratch has the texts of the next page.
type scratch struct {
	texts []span // of each wanted entry: its id, then name and value of each field
	ends  []int  // of each wanted entry: the end of its texts
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *scratch) release() {
	s.texts, s.ends = s.texts[:0], s.ends[:0]
	const size = 16 // of a span
	if cap(s.texts) <= maxPooled/size {
		scratches.Put(s)
	}
}

// add reads an entry. A wanted entry begins a new page when the current one is full.
func (b *pageBuilder) add() error {
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
		if b.types != nil && string(b.bytes(name)) == wire.FieldType {
			wanted = b.types[string(b.bytes(value))] // of a repeated field the last one counts, as everywhere
		}
	}
	switch {
	case !wanted:
		b.texts = b.texts[:begin]
	case len(b.ends) < b.batch:
		b.ends = append(b.ends, len(b.texts))
	default:
		entry := b.texts[begin:]
		if err := b.finish(); err != nil {
			return err
		}
		b.texts = append(b.texts, entry...)
		b.ends = append(b.ends, len(b.texts))
	}
	b.read++
	b.last = id
	return nil
}

// finish completes the page.
func (b *pageBuilder) finish() error {
	page := Page{Read: b.read, Entries: make([]wire.Entry, len(b.ends))}
	var err error
	if page.Last, err = wire.ParseID(string(b.bytes(b.last))); err != nil {
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
	keep := func(kept span) string {
		before := text.Len()
		text.Write(b.bytes(kept))
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
			wire.SetField(entry, string(b.bytes(b.texts[at])), keep(b.texts[at+1]))
		}
		begin = end
	}
	b.pages = append(b.pages, page)
	b.read, b.texts, b.ends = 0, b.texts[:0], b.ends[:0]
	return nil
}
