package stream

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Gap is entries that vanished from a stream before they were read, or that its reader cannot reach.
type Gap struct {
	Kind      GapKind
	Position  wire.ID // the last entry that was read before it
	First     wire.ID // the first surviving entry behind it; zero when there is none, or it is unknown
	Lost      int64   // number of entries; meaningful when LostKnown
	LostKnown bool
	At        time.Time // when it was found
}

// GapKind is how entries vanished before they were read. It has the methods String, MarshalText and UnmarshalText.
type GapKind int

// The kinds.
const (
	GapUnknown  GapKind = iota // never reported
	GapTrimmed                 // everything before the first surviving entry is gone: by MAXLEN or MINID of a producer, by XTRIM, or by XDEL
	GapDeleted                 // entries between others are gone, by XDEL
	GapGone                    // the stream is gone: by DEL or FLUSHALL, evicted, or lost in a restart of Redis without persistence
	GapReplaced                // the stream counts fewer entries than were read: it was deleted and begun again, or a failover promoted a replica that lacked some
	GapAhead                   // for the same reasons the stream ends below the position, and what is added up to there is not read
)

var gapKinds = [...]string{"unknown", "trimmed", "deleted", "gone", "replaced", "ahead"}

// GapKinds are the kinds that are reported.
func GapKinds() []GapKind { return []GapKind{GapTrimmed, GapDeleted, GapGone, GapReplaced, GapAhead} }

// String is the kind in one word, for logs and metrics.
func (k GapKind) String() string {
	if k < 0 || int(k) >= len(gapKinds) {
		return "GapKind(" + strconv.Itoa(int(k)) + ")"
	}
	return gapKinds[k]
}

// MarshalText renders the kind as String does.
func (k GapKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *GapKind) UnmarshalText(text []byte) error {
	at := slices.Index(gapKinds[:], string(text))
	if at < 0 {
		return fmt.Errorf("no gap kind is called %q", text)
	}
	*k = GapKind(at)
	return nil
}

// lasts reports whether the kind is a state of the stream, rather than an event.
func (k GapKind) lasts() bool { return k == GapGone || k == GapAhead }

// String describes the gap in one line.
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
		return "the stream that was read up to " + g.Position.String() + " is gone"
	case GapReplaced:
		return "the stream counts fewer entries than were read up to " + g.Position.String() + ": it was replaced, or is an older state of it"
	case GapAhead:
		return "the stream ends below " + g.Position.String() + ", up to where it counts as read: " + lost + " not read"
	default:
		if g.First.IsZero() {
			return lost + " trimmed unread behind " + g.Position.String()
		}
		return lost + " trimmed unread between " + g.Position.String() + " and " + g.First.String()
	}
}

// merged is the gap with more of the same kind added to it, or another gap in its place.
func (g *Gap) merged(more Gap) Gap {
	if g != nil && g.Kind == more.Kind && g.LostKnown && more.LostKnown {
		more.Position, more.At = g.Position, g.At
		more.Lost += g.Lost
	}
	return more
}
