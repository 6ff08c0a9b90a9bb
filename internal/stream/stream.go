// Package stream is the loop over the partitions of a topic: it reads ahead, hands over, holds, advances and
// drains. What a batch means is its caller's business; this package only moves a position once the caller says
// that everything up to it is done.
//
// Each partition has two goroutines and nothing in common with the others: a reader, which fills up to ReadAhead
// slots with batches, and a worker, which hands them over one by one. One more goroutine writes the positions of
// all of them, and one samples how far the streams are ahead.
package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

// Source reads partition streams. Its methods are called concurrently, once a partition at a time.
type Source interface {
	// Read returns what was asked for, or no page at all when nothing came in time.
	Read(ctx context.Context, partition int, ask Ask) (Answer, error)
	// Tail tells where a stream ends and how much it holds.
	Tail(ctx context.Context, partition int) (Tail, error)
}

// Ask is what to read: at most Count entries that stand strictly after an id, in pages of at most Batch.
type Ask struct {
	After wire.ID
	Count int
	Batch int
	Block time.Duration // how long to wait for the first; with 0 the answer has the stream's tail at that very moment
}

// Answer is what one read brought. No two of its pages share memory: each goes when it is done.
type Answer struct {
	Pages []Page
	Tail  *Tail // nil when it was not asked for, and when it could not be had
	Blind error // why it could not; nil when it could
	Bytes int   // of all that was read, what is not kept included
}

// Read is how many entries it brought.
func (a *Answer) Read() (entries int) {
	for _, page := range a.Pages {
		entries += page.Read
	}
	return entries
}

// page is the one that the next entry goes to. One that is wanted begins another when the last is full.
func (a *Answer) page(wanted bool, batch int) *Page {
	last := len(a.Pages) - 1
	if last < 0 || wanted && len(a.Pages[last].Entries) >= batch {
		a.Pages = append(a.Pages, Page{})
		last++
	}
	return &a.Pages[last]
}

// Page is what is handed over at once.
type Page struct {
	Entries []wire.Entry // those of a type that is wanted
	Read    int          // how many there were, the others included: above 0
	Last    wire.ID      // of the last one read

	gap *Gap // a hole that holds the partition, in the place of entries
}

// Tail describes a stream.
type Tail struct {
	Exists bool // the stream; where it does not, all else is zero
	Length int64
	First  wire.ID // lowest entry; meaningful when Length is above 0
	End    wire.ID // greatest entry; meaningful when Length is above 0
	Last   wire.ID // greatest id the stream ever gave out
	Added  int64   // entries ever added, -1 where the server does not say (before Redis 7)
}

// Batch is what is handed over at once.
type Batch struct {
	Partition int
	Entries   []wire.Entry
	Last      wire.ID // of the page that they came with; those that were passed over may stand behind the last entry
	Try       int     // from 1: how often some of the page has been handed over

	// Before is the Detail of the verdict that held these entries, nil at the first try.
	Before any
	// Stopping tells that the session is ending, so that what fails now may fail because of that.
	Stopping func() bool
}

// Verdict is what came of handing entries over.
type Verdict struct {
	Action  Action
	Skipped int // entries given up on in this hand-over, whatever the action
	Parked  int // entries put aside in this hand-over, whatever the action

	// The rest is for an Action other than Advance.

	Remaining  []wire.Entry  // what to hand over again, for Hold; what is given up on, for Skip
	RetryAfter time.Duration // raises the wait before that, up to maxRetryAfter
	Cause      string        // one word: what holds the position
	Err        error
	Detail     any         // for Status, and for the next hand-over
	Log        []slog.Attr // for the log
}

// Action is what to do with the position.
type Action int

// The actions.
const (
	Advance Action = iota // everything handed over is done
	Skip                  // it failed, and is given up on; not while stopping, which may be why it failed
	Hold                  // keep the position and hand over again, later
	Stop                  // keep the position and stop this partition
	Fail                  // keep the position and stop them all; Run returns the error
)

// Config says what to run. All fields are required but those that say otherwise.
type Config struct {
	Partitions []int                      // to begin with
	Name       func(partition int) string // of its stream, for the log and Status
	Source     Source
	Store      position.Store
	// Deliver hands entries over and says what to do next. Calls for different partitions run concurrently. When
	// the context is cancelled, the call should end, and only Advance moves the position then.
	Deliver  func(ctx context.Context, batch Batch) Verdict
	Logger   *slog.Logger // knows the topic and the consumer
	Observer Observer

	// Start says where to begin a partition, given what is stored. It may ask the source. Late tells that the partition
	// was added while the group ran.
	Start func(ctx context.Context, partition int, stored position.Stored, late bool) (wire.ID, error)

	// Gap is told of entries that vanished unread, before that is noted in the store. It is called on a goroutine of
	// the partition, whose reading waits for it. Nil: nobody is told.
	Gap     func(ctx context.Context, partition int, gap Gap)
	GapHold bool // such a hole holds the partition until its position is reset

	BatchSize       int
	Block           time.Duration
	ReadAhead       int // batches held at once per partition, the one in hand included
	PersistInterval time.Duration
	PersistEach     bool // write a position before the next batch is handed over
	DrainTimeout    time.Duration
	HoldMin         time.Duration
	HoldMax         time.Duration
}

// Left counts the entries of a page that were handed over and not done.
type Left struct {
	Skipped int // given up on in a hand-over, as its verdict said
	Dropped int // given up on with the batch, by an Action to skip
	Parked  int // put aside
}

// Observer is told what there is to count. It must not block, and is called concurrently.
type Observer interface {
	// Read tells that a read was answered, with something or with nothing.
	Read(partition int)
	// ReadFailed tells that reads fail, once an outage.
	ReadFailed(partition int)
	// Failed tells of a hand-over that did not work out.
	Failed(partition int, verdict Verdict)
	// Passed tells that the position moved past a page, and what of it was not done.
	Passed(partition int, page Page, left Left)
	// SaveFailed tells that positions could not be written.
	SaveFailed()
}

const (
	// maxBlock is how long one read may wait on the server. A client does not take back a read that waits, so that
	// this is also how long the end of a reader can take. A longer Block is several reads.
	maxBlock = time.Second
	// logInterval is the least time between two lines about the same trouble.
	logInterval = 30 * time.Second
	// maxRetryAfter is how long a verdict can put off the next hand-over.
	maxRetryAfter = 30 * time.Second
	// sampleInterval is the time between two looks at the tails of the streams.
	sampleInterval = 5 * time.Second
	// StopMargin is what Run takes at most beyond DrainTimeout.
	StopMargin = 950 * time.Millisecond
	// flushMargin is what of it is kept for the last write of positions.
	flushMargin = 450 * time.Millisecond
)
