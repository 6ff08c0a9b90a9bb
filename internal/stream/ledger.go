package stream

import (
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// ledger keeps account of a partition's entries, to find those that vanished unread. The server says how many were ever
// added (A). Less those that the stream holds behind the reader (B), that is how many stood up to the reader: A − B.
// What of them was not counted as read was removed before it came. Once reported it is accounted for too, so that
// nothing is reported twice; and what is accounted for is noted along with the position, for a restart to go on from.
//
// Only the reader asks for an account, while no read is under way: only then does what the server says fit what was read.
type ledger struct {
	mu    sync.Mutex
	audit audit // changed by the reader alone

	position wire.ID
	passed   int64 // entries the position moved over since begin
	reader   wire.ID
	read     int64 // entries read since begin

	// undone are the pages read and not passed; dropped are the wanted entries of those of the session that a reset ended,
	// as far as they come again: what of them is gone by then was read, but never handled.
	undone  []Page
	dropped []wire.ID

	told Seldom
}

// begin starts an account at a position, with what was noted about it, if anything was. Where holes hold nothing, those
// that did no longer do.
func (l *ledger) begin(position wire.ID, note string, hold bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.position, l.reader, l.passed, l.read = position, position, 0, 0
	l.audit = parseAudit(note)
	l.audit.exact = position
	l.audit.holds = l.audit.holds && hold
	if l.dropped = nil; !l.audit.counted { // where it is, the count finds them
		l.dropped = behind(l.undone, position)
	}
	l.undone = nil
}

// behind are the wanted entries of pages above an id.
func behind(pages []Page, last wire.ID) (ids []wire.ID) {
	for _, page := range pages {
		for _, entry := range page.Entries {
			if entry.ID.Compare(last) > 0 {
				ids = append(ids, entry.ID)
			}
		}
	}
	return ids
}

// rewind goes back to the position: what was read ahead is not in memory any more.
func (l *ledger) rewind() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reader, l.read, l.undone = l.position, l.passed, nil
}

// advance moves the position past a page. It hands on what is to be noted with the new one before anything changes that.
func (l *ledger) advance(page Page, record func(position wire.ID, note string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.position = page.Last
	l.passed += int64(page.Read)
	if len(l.undone) > 0 {
		l.undone[0] = Page{} // which is to go, even if the slice does not
		l.undone = l.undone[1:]
	}
	record(l.position, l.audit.note(l.passed))
}

// took counts pages as read.
func (l *ledger) took(pages []Page) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, page := range pages {
		l.reader = page.Last
		l.read += int64(page.Read)
	}
	l.undone = append(l.undone, pages...)
}

// noted is what belongs to the position as it is.
func (l *ledger) noted() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.audit.note(l.passed)
}

// holding is the hole that holds the partition, nil when none does.
func (l *ledger) holding() *Gap {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.audit.holds {
		return nil
	}
	return l.audit.standing
}

// look compares what the server says with what was read. A read of that very moment brought so many entries from behind
// the reader, and perhaps all that there are. It returns what is known now, to be settled once the gap, if there is
// one, was reported. More of what was reported lately is left for later, unless the partition is to be held for it.
func (l *ledger) look(tail Tail, read int, all, hold bool) (audit, *Gap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := sight{tail: tail, reader: l.reader, read: l.read, before: l.audit}
	s.behind, s.exact = tail.behind(l.reader, read, all)
	next, gap := s.account()
	if gap == nil {
		gap = s.dropped(l.dropped)
	}
	if gap == nil {
		l.dropped = nil
		return next, nil
	}
	begins := gap.Kind.stands() && !l.audit.stands(gap.Kind) || hold && !l.audit.holds
	if !l.told.Now() && gap.LostKnown && !begins {
		return l.audit, nil // it stays unaccounted for, and a later look finds it with what came to it
	}
	l.dropped = nil
	gap.At = time.Now()
	if next.holds = next.holds || hold; next.holds || gap.Kind.stands() {
		standing := l.audit.standing.grown(*gap)
		next.standing = &standing
	}
	return next, gap
}

// settle takes over what a look has shown. It hands on what is to be noted with the position, if that has changed.
func (l *ledger) settle(next audit, record func(position wire.ID, note string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.audit.note(l.passed)
	l.audit = next
	if after := next.note(l.passed); after != before {
		record(l.position, after)
	}
}

// outside tells that the stream ends below the reader, and may always have: an operator may have put the position
// there, or it is a time that no entry has reached.
func (l *ledger) outside(tail Tail) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.audit.inside && tail.Last.Compare(l.reader) < 0
}
