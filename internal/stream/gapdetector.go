package stream

import (
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/wire"
)

// gapDetector finds entries of a partition that vanished before they were read, by counting. The server says how many
// entries were ever added; less those that the stream holds behind the reader, that is how many there were up to the
// reader. Those not counted as read were removed unread. Once reported they count as accounted for, so that nothing is
// reported twice; the count is stored with the position, for a restart to continue from.
//
// Only the reader checks, while no read is under way: only then does what the server says match what was read.
type gapDetector struct {
	mu    sync.Mutex
	state gapState // changed by the reader only

	position  wire.ID
	processed int64 // entries that the position moved past since begin
	reader    wire.ID
	read      int64 // entries read since begin

	// unprocessed are the pages that were read and that the position has not moved past. When a reset ends a session,
	// dropped has the wanted entries of its unprocessed pages, as far as they are read again: those that are gone by then
	// were read, but never processed.
	unprocessed []Page
	dropped     []wire.ID

	logged telemetry.LogLimiter
}

// begin starts counting at a position, from the metadata stored for it. With hold false, gaps hold nothing, not even
// those that did before.
func (d *gapDetector) begin(position wire.ID, metadata string, hold bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.position, d.reader, d.processed, d.read = position, position, 0, 0
	d.state = parseMetadata(metadata)
	d.state.complete = position
	d.state.holds = d.state.holds && hold
	d.dropped = nil
	if !d.state.counted { // otherwise the count finds them
		d.dropped = idsBehind(d.unprocessed, position)
	}
	d.unprocessed = nil
}

// idsBehind are the ids of the wanted entries above an id.
func idsBehind(pages []Page, last wire.ID) (ids []wire.ID) {
	for _, page := range pages {
		for _, entry := range page.Entries {
			if entry.ID.Compare(last) > 0 {
				ids = append(ids, entry.ID)
			}
		}
	}
	return ids
}

// rewind moves the reader back to the position, after what was read ahead has been dropped.
func (d *gapDetector) rewind() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reader, d.read, d.unprocessed = d.position, d.processed, nil
}

// addRead counts pages as read.
func (d *gapDetector) addRead(pages []Page) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, page := range pages {
		d.reader = page.Last
		d.read += int64(page.Read)
	}
	d.unprocessed = append(d.unprocessed, pages...)
}

// commit moves the position past a page, and enqueues it with its metadata before that can change.
func (d *gapDetector) commit(page Page, enqueue func(position wire.ID, metadata string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.position = page.Last
	d.processed += int64(page.Read)
	if len(d.unprocessed) > 0 {
		d.unprocessed[0] = Page{} // for the collector: the slice keeps its array
		d.unprocessed = d.unprocessed[1:]
	}
	enqueue(d.position, d.state.metadata(d.processed))
}

// metadata is what is stored with the current position.
func (d *gapDetector) metadata() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state.metadata(d.processed)
}

// holding is the gap that holds the partition, nil when none does.
func (d *gapDetector) holding() *Gap {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.state.holds {
		return nil
	}
	return d.state.standing
}

// check compares the stream's tail with what was read. A read at the same moment returned so many entries from behind
// the reader, and perhaps all of them. It returns the next state, to be accepted once the gap, if any, is reported. A
// gap that merely grows is reported at intervals, unless it is now to hold the partition.
func (d *gapDetector) check(tail Tail, read int, all, hold bool) (gapState, *Gap) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := observation{tail: tail, reader: d.reader, read: d.read, before: d.state}
	o.behind, o.behindKnown = tail.behind(d.reader, read, all)
	next, gap := o.reconcile()
	if gap == nil {
		gap = o.missing(d.dropped)
	}
	if gap == nil {
		d.dropped = nil
		return next, nil
	}
	begins := gap.Kind.lasts() && !d.state.isStanding(gap.Kind) || hold && !d.state.holds
	if !d.logged.Allow() && gap.LostKnown && !begins {
		return d.state, nil // not accounted for: a later check finds it, with what is added to it meanwhile
	}
	d.dropped = nil
	gap.At = time.Now()
	if next.holds = next.holds || hold; next.holds || gap.Kind.lasts() {
		standing := d.state.standing.merged(*gap)
		next.standing = &standing
	}
	return next, gap
}

// accept makes the result of a check the current state, and enqueues the metadata if that changes it.
func (d *gapDetector) accept(next gapState, enqueue func(position wire.ID, metadata string)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.state.metadata(d.processed)
	d.state = next
	if after := next.metadata(d.processed); after != before {
		enqueue(d.position, after)
	}
}

// isAhead reports whether the stream ends below the reader and may always have: an operator may have set the position
// there, or to a time that no entry has reached.
func (d *gapDetector) isAhead(tail Tail) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.state.within && tail.Last.Compare(d.reader) < 0
}
