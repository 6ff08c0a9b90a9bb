package redisstream

import (
	"context"
	"log/slog"
	"time"

	"github.com/redisevents/restatestart/internal/stream"
)

// GapKind is how entries vanished before they were read. It has the methods String, MarshalText and UnmarshalText.
type GapKind = stream.GapKind

// The kinds.
const (
	GapUnknown  GapKind = stream.GapUnknown  // never reported
	GapTrimmed  GapKind = stream.GapTrimmed  // everything before the first surviving entry is gone: by MAXLEN or MINID of a producer, by XTRIM, or by XDEL
	GapDeleted  GapKind = stream.GapDeleted  // entries between others are gone, by XDEL
	GapGone     GapKind = stream.GapGone     // the stream is gone: by DEL or FLUSHALL, evicted, or lost in a restart of Redis without persistence
	GapReplaced GapKind = stream.GapReplaced // the stream counts fewer entries than were read: it was deleted and begun again, or a failover promoted a replica that lacked some
	GapAhead    GapKind = stream.GapAhead    // for the same reasons the stream ends below the position, and what is added up to there is not read
)

// Gap is a gap in a stream: entries that vanished before they were read, or that the reader cannot reach. Their starts
// were not made.
type Gap struct {
	Topic    string `json:"topic"`
	Consumer string `json:"consumer"`
	// Stream is the Redis key, and Partition its number.
	Stream    string  `json:"stream"`
	Partition int     `json:"partition"`
	Kind      GapKind `json:"kind"`
	// Position is the id of the last entry that was read before the gap, `0-0` when none was. With GapDeleted, the missing
	// entries were somewhere behind it; with GapAhead, the entries that are not read are before it.
	Position string `json:"position"`
	// First is the id of the first surviving entry behind the gap. Empty when nothing is left, and when it is not known, as
	// with GapDeleted.
	First string `json:"first,omitempty"`
	// Lost is how many entries are lost. Nil when that cannot be known, such as how many a stream held when it was deleted,
	// or an old primary when it failed.
	Lost *int64 `json:"lost,omitempty"`
	// At is when the gap was detected.
	At time.Time `json:"at"`
}

// GapPolicy is what a gap does to its partition.
type GapPolicy int

const (
	// GapContinue continues behind the gap. The position stays where it is, also when the stream ends below it: what such a
	// stream has up to there is not read. To read it, reset the position; workflows that Restate has forgotten since run
	// again then.
	GapContinue GapPolicy = iota
	// GapHold holds the partition at the gap until its position is reset, to the same position or another. The hold
	// survives restarts of a Run that begins from the stored position. A gap that is detected only after entries behind it
	// were delivered holds from there.
	GapHold
)

// gap reports a gap: to the metrics, the log and OnGap.
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
		Kind: found.Kind, Position: found.Position.String(), At: found.At,
	}
	if !found.First.IsZero() {
		gap.First = found.First.String()
	}
	if found.LostKnown {
		gap.Lost = &found.Lost
	}
	return gap
}
