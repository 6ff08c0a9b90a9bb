package restatestart

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/redisevents/restatestart/internal/stream"
)

// GapKind is how entries vanished unread.
type GapKind int

// The kinds.
const (
	GapUnknown  GapKind = iota // never set by this package
	GapTrimmed                 // everything before the first surviving entry is gone: by MAXLEN or MINID of a producer, by XTRIM, or by XDEL
	GapDeleted                 // entries between others are gone, by XDEL
	GapGone                    // the stream that was read is gone: by DEL or FLUSHALL, evicted, or lost by a restart of Redis without persistence
	GapReplaced                // the stream counts fewer entries than were read: it was deleted and begun again, or a failover promoted a replica that lacked some
	GapAhead                   // for the same reasons the stream ends below the position, and what is added up to there is not read
)

var gapKindNames = [...]string{"unknown", "trimmed", "deleted", "gone", "replaced", "ahead"}

// String is the kind in one word, fit for a log or a metric.
func (k GapKind) String() string {
	if k < 0 || int(k) >= len(gapKindNames) {
		return "GapKind(" + strconv.Itoa(int(k)) + ")"
	}
	return gapKindNames[k]
}

// MarshalText renders the kind as String does.
func (k GapKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *GapKind) UnmarshalText(text []byte) error {
	at := slices.Index(gapKindNames[:], string(text))
	if at < 0 {
		return fmt.Errorf("restatestart: no kind of gap is called %q", text)
	}
	*k = GapKind(at)
	return nil
}

// Gap is a hole in a stream: entries that vanished before they were read, or that are out of the reader's reach. The
// starts they stood for were not made.
type Gap struct {
	Topic    string `json:"topic"`
	Consumer string `json:"consumer"`
	// Stream is the Redis key, and Partition its number.
	Stream    string  `json:"stream"`
	Partition int     `json:"partition"`
	Kind      GapKind `json:"kind"`
	// Position is the id of the last entry that was read before the hole, `0-0` when none was. With GapDeleted, what is
	// missing stood somewhere behind it; with GapAhead, what is not read stands before it.
	Position string `json:"position"`
	// First is the id of the first surviving entry behind the hole. Empty when nothing is left, and when it cannot be
	// told, as with GapDeleted.
	First string `json:"first,omitempty"`
	// Lost is how many entries are gone, or out of reach. Nil when nobody can know: how much a stream held when it was
	// deleted, or an old primary when it failed.
	Lost *int64 `json:"lost,omitempty"`
	// At is when the hole was found.
	At time.Time `json:"at"`
}

// GapPolicy is what a hole does to its partition.
type GapPolicy int

const (
	// GapContinue goes on behind the hole. The position stays where it is, also when the stream ends below it: what such
	// a stream has up to there is not read. To read it, reset the position; what was started before, and forgotten by
	// Restate since, is started again then.
	GapContinue GapPolicy = iota
	// GapHold holds the partition at the hole until its position is reset, to the position it has or to another. The hold
	// lasts over restarts of a Run that begins from the stored position. A hole that comes to light only when entries
	// behind it were handed over holds from there.
	GapHold
)

// gap is told of a hole once.
func (c *Consumer[T]) gap(ctx context.Context, partition int, found stream.Gap) {
	gap := c.gapOf(partition, found)
	attrs := []any{
		slog.Int("partition", partition), slog.String("stream", gap.Stream), slog.String("kind", gap.Kind.String()),
		slog.String("position", gap.Position), slog.String("first", gap.First), slog.String("gap", found.String()),
	}
	if gap.Lost != nil {
		attrs = append(attrs, slog.Int64("lost", *gap.Lost))
	}
	c.metrics.gap(partition, gap)
	c.log.ErrorContext(ctx, "entries lost", attrs...)
	if c.options.OnGap == nil {
		return
	}
	defer func() {
		if reason := recover(); reason != nil {
			c.log.ErrorContext(ctx, "OnGap panicked", slog.Int("partition", partition), slog.Any("error", newPanicError(reason)))
		}
	}()
	c.options.OnGap(ctx, gap)
}

func (c *Consumer[T]) gapOf(partition int, found stream.Gap) Gap {
	gap := Gap{
		Topic: c.topic, Consumer: c.options.Consumer, Stream: c.keys.Stream(partition), Partition: partition,
		Kind: gapKindOf(found.Kind), Position: found.Position.String(), At: found.At,
	}
	if !found.First.IsZero() {
		gap.First = found.First.String()
	}
	if found.LostKnown {
		gap.Lost = &found.Lost
	}
	return gap
}

func gapKindOf(kind stream.GapKind) GapKind {
	switch kind {
	case stream.GapTrimmed:
		return GapTrimmed
	case stream.GapDeleted:
		return GapDeleted
	case stream.GapGone:
		return GapGone
	case stream.GapReplaced:
		return GapReplaced
	case stream.GapAhead:
		return GapAhead
	default:
		return GapUnknown
	}
}
