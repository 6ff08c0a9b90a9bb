package stream

import "github.com/redisevents/restatestart/internal/wire"

// gapState is what is known about a stream's entries, apart from those counted since begin.
type gapState struct {
	// within says that the reader was within the stream before: if the stream ends below it now, the stream has changed.
	within bool
	// counted says that base is known: how many entries were accounted for at begin. Adding those processed gives the
	// entries up to the position, adding those read the entries up to the reader.
	counted  bool
	base     int64
	complete wire.ID // up to here, every missing entry was reported
	// standing is a reported gap that lasts: a state of the stream, or the gap that holds the partition. Or nil.
	standing *Gap
	holds    bool // the partition, until a reset
}

// withCount accounts for all entries up to the reader, of which so many were read since begin.
func (s gapState) withCount(entries, read int64) gapState {
	s.counted, s.base = true, entries-read
	return s
}

// cleared removes a standing state of the stream that is over. A gap that holds the partition is not.
func (s gapState) cleared() gapState {
	if !s.holds {
		s.standing = nil
	}
	return s
}

func (s gapState) isStanding(kind GapKind) bool { return s.standing != nil && s.standing.Kind == kind }

// observation is a stream and its reader at one moment, and what was known before.
type observation struct {
	tail        Tail
	behind      int64 // entries that the stream holds behind the reader
	behindKnown bool
	reader      wire.ID
	read        int64
	before      gapState
}

// reconcile returns the state with all vanished entries accounted for, and the gap that they left, if any.
func (o observation) reconcile() (gapState, *Gap) {
	if o.tail.Exists && o.tail.Added < 0 {
		o.before.counted = false // not by this server
	}
	switch below := o.tail.Last.Compare(o.reader) < 0; {
	case below && !o.before.within:
		return o.before, nil // it may always have been so
	case o.tail.Last.IsZero():
		return o.reconcileEmpty()
	case below:
		return o.reconcileBelow()
	default:
		return o.reconcileWithin()
	}
}

// reconcileEmpty is for a key to which nothing was ever added, as every stream begins.
func (o observation) reconcileEmpty() (gapState, *Gap) {
	next := o.before.withCount(0, o.read)
	next.within = true
	if o.reader.IsZero() || o.before.isStanding(GapGone) {
		return next, nil
	}
	return next, o.gap(GapGone)
}

// reconcileBelow is for a stream that ends below the reader. Which of its entries were read before is known only of a
// stream that was seen to begin again.
func (o observation) reconcileBelow() (gapState, *Gap) {
	gone, ahead, counted := o.before.isStanding(GapGone), o.before.isStanding(GapAhead), o.before.counted
	lost := o.tail.Added - o.before.base - o.read
	next := o.before
	if next.counted = o.tail.Added >= 0; next.counted {
		next = next.withCount(o.tail.Added, o.read)
	}
	switch {
	case ahead && (!counted || lost == 0):
		return next, nil
	case (gone || ahead) && counted && lost > 0:
		return next, o.gapOf(GapAhead, lost)
	default:
		return next, o.gap(GapAhead)
	}
}

// reconcileWithin is for a stream that reaches the reader.
func (o observation) reconcileWithin() (gapState, *Gap) {
	counted := o.before.base + o.read
	next := o.before
	next.within = true
	switch {
	case o.tail.Added < 0:
		return next.cleared(), nil
	case !o.behindKnown && o.before.counted && o.tail.Added < counted:
		next.counted = false
		return next.cleared(), o.gap(GapReplaced)
	case !o.behindKnown:
		return next, nil
	}
	next = next.withCount(o.tail.Added-o.behind, o.read).cleared()
	next.complete = o.reader
	switch lost := o.tail.Added - o.behind - counted; {
	case !o.before.counted || lost == 0:
		return next, nil
	case lost < 0:
		return next, o.gap(GapReplaced)
	case o.before.isStanding(GapAhead), o.before.isStanding(GapGone) && o.tail.First.Compare(o.reader) <= 0:
		gap := o.gapOf(GapAhead, lost)
		gap.Position = o.before.standing.Position // the reader may have continued behind it
		return next, gap
	case o.tail.Length == 0 || o.tail.First.Compare(o.reader) > 0:
		return next, o.gapOf(GapTrimmed, lost)
	default:
		gap := o.gapOf(GapDeleted, lost)
		gap.Position = o.before.complete // they were somewhere behind this one
		return next, gap
	}
}

// missing is the gap left by entries that were read before a reset and are no longer in the stream.
func (o observation) missing(ids []wire.ID) *Gap {
	var lost int64
	for _, id := range ids {
		if o.tail.Length == 0 || id.Compare(o.tail.First) < 0 {
			lost++
		}
	}
	if lost == 0 {
		return nil
	}
	return o.gapOf(GapTrimmed, lost)
}

// gap is a gap of unknown size.
func (o observation) gap(kind GapKind) *Gap {
	gap := &Gap{Kind: kind, Position: o.reader}
	if o.tail.Length > 0 && o.tail.First.Compare(o.reader) > 0 {
		gap.First = o.tail.First
	}
	return gap
}

func (o observation) gapOf(kind GapKind, lost int64) *Gap {
	gap := o.gap(kind)
	gap.Lost, gap.LostKnown = lost, true
	return gap
}
