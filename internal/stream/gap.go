package stream

import (
	"slices"
	"strconv"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Gap is a hole: entries that vanished from a stream before they were read, or out of reach of its reader.
type Gap struct {
	Kind      GapKind
	Position  wire.ID // the last entry that was read before it
	First     wire.ID // the first surviving entry behind it; zero when there is none, or which one it is cannot be told
	Lost      int64   // entries that are gone; meaningful when LostKnown
	LostKnown bool
	At        time.Time // when it was found
}

// GapKind is how entries vanished.
type GapKind int

// The kinds.
const (
	GapTrimmed  GapKind = iota + 1 // everything before the first surviving entry is gone
	GapDeleted                     // entries between others are gone
	GapGone                        // the stream that was read is gone, or was emptied into a new one
	GapReplaced                    // the stream under the key is another one, or lacks what it had: it counts less than was read
	GapAhead                       // the stream ends below the position, and what is added up to that is not read
)

var kindNames = [...]string{"", "trimmed", "deleted", "gone", "replaced", "ahead"}

// String is the kind in one word.
func (k GapKind) String() string {
	if k <= 0 || int(k) >= len(kindNames) {
		return "GapKind(" + strconv.Itoa(int(k)) + ")"
	}
	return kindNames[k]
}

// kindOf is the kind of that name, 0 where there is none.
func kindOf(name string) GapKind { return GapKind(max(0, slices.Index(kindNames[:], name))) }

// stands tells that the kind is a state of the stream, which lasts, rather than something that happened.
func (k GapKind) stands() bool { return k == GapGone || k == GapAhead }

// String is the hole in one line.
func (g *Gap) String() string {
	lost := "an unknown number of entries"
	switch {
	case g.LostKnown && g.Lost == 1:
		lost = "1 entry"
	case g.LostKnown:
		lost = strconv.FormatInt(g.Lost, 10) + " entries"
	}
	switch g.Kind {
	case GapDeleted:
		return lost + " deleted unread somewhere behind " + g.Position.String()
	case GapGone:
		return "the stream is gone that was read up to " + g.Position.String()
	case GapReplaced:
		return "the stream counts fewer entries than were read up to " + g.Position.String() + ": it is another one, or an older state of it"
	case GapAhead:
		return "the stream ends below " + g.Position.String() + ", up to where it counts as read: " + lost + " not read"
	default:
		if g.First.IsZero() {
			return lost + " trimmed unread behind " + g.Position.String()
		}
		return lost + " trimmed unread between " + g.Position.String() + " and " + g.First.String()
	}
}

// grown is what a hole has become: another one, or more of the same.
func (g *Gap) grown(more Gap) Gap {
	if g != nil && g.Kind == more.Kind && g.LostKnown && more.LostKnown {
		more.Position, more.At = g.Position, g.At
		more.Lost += g.Lost
	}
	return more
}
