package stream

import (
	"context"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Source reads partition streams. Its methods are called concurrently, but never twice at once for the same partition.
type Source interface {
	// Read returns the entries requested, or no page at all when none came in time.
	Read(ctx context.Context, partition int, request ReadRequest) (ReadResult, error)
	// Tail describes a stream as it is now.
	Tail(ctx context.Context, partition int) (Tail, error)
}

// ReadRequest asks for at most Count entries strictly after an id, in pages of at most Batch.
type ReadRequest struct {
	After wire.ID
	Count int
	Batch int
	Block time.Duration // how long to wait for the first entry; 0 does not wait, and asks for the stream's tail at the same moment
}

// ReadResult is the answer to one read. Its pages share no memory, so each can be freed once it is processed.
type ReadResult struct {
	Pages   []Page
	Tail    *Tail // nil when it was not requested, and when it could not be read
	TailErr error // why the tail could not be read
	Bytes   int   // size of all entries read, including those of other types
}

// Read is the number of entries read.
func (r *ReadResult) Read() (entries int) {
	for _, page := range r.Pages {
		entries += page.Read
	}
	return entries
}

// page is the page that the next entry belongs to. A wanted entry begins a new page when the last one is full.
func (r *ReadResult) page(wanted bool, batch int) *Page {
	last := len(r.Pages) - 1
	if last < 0 || wanted && len(r.Pages[last].Entries) >= batch {
		r.Pages = append(r.Pages, Page{})
		last++
	}
	return &r.Pages[last]
}

// Page is a run of consecutive entries, delivered as one batch.
type Page struct {
	Entries []wire.Entry // those of a wanted type
	Read    int          // all entries, including those of other types: at least 1
	Last    wire.ID      // id of the last entry read

	gap *Gap // a gap that holds the partition, instead of entries
}

// Tail describes a stream.
type Tail struct {
	Exists bool // whether there is a stream; the other fields are zero when there is none
	Length int64
	First  wire.ID // lowest entry; meaningful when Length is above 0
	End    wire.ID // greatest entry; meaningful when Length is above 0
	Last   wire.ID // greatest id that the stream ever assigned
	Added  int64   // entries ever added; -1 when the server does not count them (before Redis 7)
}

// behind is how many entries the stream holds after an id, when that is known: at either end of the stream, it is all
// or none of them; in the middle, only a read from there that returned everything can tell.
func (t Tail) behind(id wire.ID, read int, all bool) (entries int64, known bool) {
	switch {
	case t.Length == 0 || t.End.Compare(id) <= 0:
		return 0, true
	case t.First.Compare(id) > 0:
		return t.Length, true
	default:
		return int64(read), all
	}
}
