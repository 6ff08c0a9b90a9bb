package stream

import "github.com/redisevents/restatestart/internal/wire"

// audit is what is known of a stream's entries, beside what was counted since begin.
type audit struct {
	// inside tells that the reader was within what the stream had: one that ends below the reader now has changed.
	inside bool
	// counted tells that base is known: how many entries were accounted for when begin was. It and those passed are
	// what is up to the position, it and those read what is up to the reader.
	counted bool
	base    int64
	exact   wire.ID // up to here, nothing is missing that was not reported
	// standing is what was reported and lasts: a state of the stream, or the hole that holds the partition. Or nil.
	standing *Gap
	holds    bool // the partition, until a reset
}

// sight is what there is to judge by at one moment: a stream, its reader, and what was known before.
type sight struct {
	tail   Tail
	behind int64 // entries that the stream holds behind the reader
	exact  bool  // whether behind is known
	reader wire.ID
	read   int64
	before audit
}

// behind is how many entries a stream holds behind its reader, when that can be told: those of a stream that begins
// behind it or ends before it, or those of a read that brought all there are.
func (t Tail) behind(reader wire.ID, read int, all bool) (entries int64, known bool) {
	switch {
	case t.Length == 0 || t.End.Compare(reader) <= 0:
		return 0, true
	case t.First.Compare(reader) > 0:
		return t.Length, true
	default:
		return int64(read), all
	}
}

// account tells what is known now, all that vanished being accounted for, and what did vanish, if anything.
func (s sight) account() (audit, *Gap) {
	if s.tail.Exists && s.tail.Added < 0 {
		s.before.counted = false // by this server
	}
	switch below := s.tail.Last.Compare(s.reader) < 0; {
	case below && !s.before.inside:
		return s.before, nil // it may always have been so
	case s.tail.Last.IsZero():
		return s.empty()
	case below:
		return s.below()
	default:
		return s.inside()
	}
}

// empty is a key under which nothing was ever added, as every stream begins.
func (s sight) empty() (audit, *Gap) {
	next := s.before.counting(0, s.read)
	next.inside = true
	if s.reader.IsZero() || s.before.stands(GapGone) {
		return next, nil
	}
	return next, s.gap(GapGone)
}

// below is a stream that ends below the reader. Whether what it has was read before is known only of one that begins
// anew before the reader's eyes.
func (s sight) below() (audit, *Gap) {
	gone, ahead, counted := s.before.stands(GapGone), s.before.stands(GapAhead), s.before.counted
	lost := s.tail.Added - s.before.base - s.read
	next := s.before
	if next.counted = s.tail.Added >= 0; next.counted {
		next = next.counting(s.tail.Added, s.read)
	}
	switch {
	case ahead && (!counted || lost == 0):
		return next, nil
	case (gone || ahead) && counted && lost > 0:
		return next, s.lost(GapAhead, lost)
	default:
		return next, s.gap(GapAhead)
	}
}

// inside is a stream that goes up to the reader at least.
func (s sight) inside() (audit, *Gap) {
	counted := s.before.base + s.read
	next := s.before
	next.inside = true
	switch {
	case s.tail.Added < 0:
		return next.cleared(), nil
	case !s.exact && s.before.counted && s.tail.Added < counted:
		next.counted = false
		return next.cleared(), s.gap(GapReplaced)
	case !s.exact:
		return next, nil
	}
	next = next.counting(s.tail.Added-s.behind, s.read).cleared()
	next.exact = s.reader
	switch lost := s.tail.Added - s.behind - counted; {
	case !s.before.counted || lost == 0:
		return next, nil
	case lost < 0:
		return next, s.gap(GapReplaced)
	case s.before.stands(GapAhead), s.before.stands(GapGone) && s.tail.First.Compare(s.reader) <= 0:
		gap := s.lost(GapAhead, lost)
		gap.Position = s.before.standing.Position // the reader may have gone on behind it
		return next, gap
	case s.tail.Length == 0 || s.tail.First.Compare(s.reader) > 0:
		return next, s.lost(GapTrimmed, lost)
	default:
		gap := s.lost(GapDeleted, lost)
		gap.Position = s.before.exact // they stood somewhere from here on
		return next, gap
	}
}

// dropped is the hole that entries left which a session had read when a reset ended it.
func (s sight) dropped(ids []wire.ID) *Gap {
	var lost int64
	for _, id := range ids {
		if s.tail.Length == 0 || id.Compare(s.tail.First) < 0 {
			lost++
		}
	}
	if lost == 0 {
		return nil
	}
	return s.lost(GapTrimmed, lost)
}

// gap is one of which nobody can tell how large it is.
func (s sight) gap(kind GapKind) *Gap {
	gap := &Gap{Kind: kind, Position: s.reader}
	if s.tail.Length > 0 && s.tail.First.Compare(s.reader) > 0 {
		gap.First = s.tail.First
	}
	return gap
}

func (s sight) lost(kind GapKind, entries int64) *Gap {
	gap := s.gap(kind)
	gap.Lost, gap.LostKnown = entries, true
	return gap
}

// counting takes all entries up to the reader as accounted for, of which it has read so many since begin.
func (a audit) counting(entries, read int64) audit {
	a.counted, a.base = true, entries-read
	return a
}

// cleared is without a state of the stream that is over. A hole that holds the partition is not over.
func (a audit) cleared() audit {
	if !a.holds {
		a.standing = nil
	}
	return a
}

func (a audit) stands(kind GapKind) bool { return a.standing != nil && a.standing.Kind == kind }
