package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/text"
	"github.com/redisevents/restatestart/internal/wire"
)

// ResetTarget is where a partition continues after a reset: ToID, ToTime, ToBeginning or ToEnd.
type ResetTarget struct {
	kind targetKind
	id   string
	at   time.Time
}

type targetKind int

const (
	targetNone targetKind = iota // the zero value, which is refused
	targetID
	targetTime
	targetBeginning
	targetEnd
)

// ToID continues strictly behind an id, `<ms>-<seq>`, whether there is an entry of that id or not: the id of a message
// skips that message. An id beyond the last id of the stream is refused.
func ToID(id string) ResetTarget { return ResetTarget{kind: targetID, id: id} }

// ToTime continues with the first entry that was added at that time or later, to the millisecond of the server's clock. A
// time after the last entry is the end of the stream; a time in the future, by the server's clock, is refused.
func ToTime(t time.Time) ResetTarget { return ResetTarget{kind: targetTime, at: t} }

// ToBeginning continues with the oldest entry that the stream still holds.
func ToBeginning() ResetTarget { return ResetTarget{kind: targetBeginning} }

// ToEnd continues behind the last entry at the time of the request. The entries before it are skipped, which loses their
// starts.
func ToEnd() ResetTarget { return ResetTarget{kind: targetEnd} }

// String is the target in a word, an id or a time.
func (t ResetTarget) String() string {
	switch t.kind {
	case targetID:
		return text.QuoteName(t.id)
	case targetTime:
		return t.at.UTC().Format(time.RFC3339Nano)
	case targetBeginning:
		return "beginning"
	case targetEnd:
		return "end"
	default:
		return "none"
	}
}

// ResetPreview is what a reset does to a partition, counted from its stored position. A running consumer is ahead of that
// by up to its PersistInterval, which adds to Redelivered, or reduces Skipped. Encodable as JSON.
type ResetPreview struct {
	Partition int    `json:"partition"`
	Stream    string `json:"stream"`
	// From is the stored position, or the target of a pending reset. Empty when there is neither: counting then begins
	// before the first entry, where such a consumer would begin. A misspelt Consumer looks the same.
	From string `json:"from,omitempty"`
	// To is the id behind which the partition continues.
	To string `json:"to"`
	// Redelivered is how many entries, of those that the stream still holds, are read again: they are behind To and not
	// behind From.
	Redelivered int64 `json:"redelivered"`
	// Skipped is how many entries are skipped: they are behind From and not behind To.
	Skipped int64 `json:"skipped"`
	// Trimmed says that entries behind To may have been trimmed: To is before the oldest entry that the stream still holds,
	// and entries were removed from the stream (Redis does not say which). False means that none was trimmed. Before Redis 7
	// the server does not count added entries, and it is true whenever To is before the oldest entry.
	Trimmed bool `json:"trimmed"`
	// Pending is another reset that the consumer has not applied yet, and that this one replaces. Nil when there is none.
	Pending *PendingReset `json:"pending,omitempty"`
}

// PreviewReset returns what Reset would do, and writes nothing. It counts every entry between From and To, in steps that
// block the server only briefly, until ctx ends. Its errors are those of Reset.
func (c *Client) PreviewReset(ctx context.Context, partition int, target ResetTarget) (ResetPreview, error) {
	preview, _, err := c.preview(ctx, partition, target)
	if err != nil {
		return ResetPreview{}, c.wrap(fmt.Sprintf("preview a reset of partition %d", partition), err)
	}
	return preview, nil
}

// Reset moves a partition's position to the target, forwards or backwards, and returns the preview that was counted just
// before. A running consumer applies the reset within its PersistInterval, also when it is idle, held, or stopped by
// ErrorStop: it finishes the batch it is processing, or the current wait of a hold, and continues behind To. A consumer that does not run
// applies it when it starts, whatever its StartFrom. Until then the reset is pending: another one replaces it, and
// CancelReset withdraws it.
//
// Consumers in .NET do the same, with two exceptions: one with Persist None does not look for resets, and an instance that
// starts removes those of all partitions, including other instances'. Check Positions afterwards.
//
// Messages that are read again are started again. Restate answers PreviouslyAccepted for a workflow that it still knows;
// one that completed longer ago than its workflow_completion_retention (one day by default) runs again. Do not go back
// further than that, unless running twice does no harm.
//
// Position and marker are written in one atomic step. An error means that nothing was written, except when the connection
// broke before the answer: then it may have been, which Positions shows. Reset refuses a partition that the topic does not
// have, an id that is not valid or beyond the stream, a time in the future, and a stream that does not exist when nothing
// is stored either.
func (c *Client) Reset(ctx context.Context, partition int, target ResetTarget) (ResetPreview, error) {
	preview, to, err := c.preview(ctx, partition, target)
	if err == nil {
		err = c.admin.RequestReset(ctx, partition, to)
	}
	if err != nil {
		if beyond, found := errors.AsType[*position.BeyondError](err); found {
			err = fmt.Errorf("target: %w", beyond)
		}
		return ResetPreview{}, c.wrap(fmt.Sprintf("reset partition %d", partition), err)
	}
	return preview, nil
}

// ErrForeignReset is the error of CancelReset for a pending reset that another tool requested: the position before it is
// not known. Request a Reset to the right position instead.
var ErrForeignReset = position.ErrForeign

// CancelReset withdraws a reset that the consumer has not applied yet, and restores the position from before it. It
// returns false, and changes nothing, when no reset is pending.
func (c *Client) CancelReset(ctx context.Context, partition int) (bool, error) {
	err := c.checkPartition(ctx, partition)
	withdrawn := false
	if err == nil {
		withdrawn, err = c.admin.CancelReset(ctx, partition)
	}
	if err != nil {
		return false, c.wrap(fmt.Sprintf("cancel the reset of partition %d", partition), err)
	}
	return withdrawn, nil
}

func (c *Client) preview(ctx context.Context, partition int, target ResetTarget) (ResetPreview, wire.ID, error) {
	if err := target.check(); err != nil {
		return ResetPreview{}, wire.ID{}, fmt.Errorf("target: %w", err)
	}
	if err := c.checkPartition(ctx, partition); err != nil {
		return ResetPreview{}, wire.ID{}, err
	}
	snapshot, err := c.admin.Snapshot(ctx, partition)
	if err != nil {
		return ResetPreview{}, wire.ID{}, err
	}
	preview := ResetPreview{Partition: partition, Stream: c.keys.Stream(partition), Pending: pendingReset(snapshot)}
	if !snapshot.Exists && !snapshot.Found {
		return preview, wire.ID{}, fmt.Errorf("there is no stream %s, and no position is stored: nothing was published yet, or a name or the KeyPrefix is wrong", preview.Stream)
	}
	to, err := target.resolve(snapshot)
	if err != nil {
		return preview, wire.ID{}, fmt.Errorf("target: %w", err)
	}
	from := snapshot.ID // 0-0 where nothing is stored
	if snapshot.Reset != nil {
		from = snapshot.Reset.Target
	}
	if snapshot.Found || snapshot.Reset != nil {
		preview.From = from.String()
	}
	preview.To, preview.Trimmed = to.String(), trimmed(snapshot, to)
	if preview.Redelivered, _, err = c.admin.Count(ctx, partition, to, from, 0); err != nil {
		return preview, wire.ID{}, err
	}
	preview.Skipped, _, err = c.admin.Count(ctx, partition, from, to, 0)
	return preview, to, err
}

// checkPartition refuses partitions that the topic does not have. Where nothing says how many there are, any partition
// that has a stream or a stored position may be one.
func (c *Client) checkPartition(ctx context.Context, partition int) error {
	if partition < 0 {
		return fmt.Errorf("partition: %d is negative", partition)
	}
	count, err := c.count(ctx)
	switch {
	case err != nil:
		return err
	case count > 0 && partition >= count:
		return fmt.Errorf("partition: %d is not one of the topic's, 0 to %d", partition, count-1)
	default:
		return nil // whether there is a stream is checked by the caller
	}
}

// check refuses what is wrong for any stream.
func (t ResetTarget) check() error {
	switch {
	case t.kind == targetNone:
		return errors.New("none is given: ToID, ToTime, ToBeginning or ToEnd")
	case t.kind == targetTime && t.at.IsZero():
		return errors.New("the time is zero")
	case t.kind == targetID:
		if _, err := wire.ParseID(t.id); err != nil {
			return fmt.Errorf("%s is not an id of the form <ms>-<seq>", text.QuoteName(t.id))
		}
	}
	return nil
}

// resolve finds the id behind which to continue.
func (t ResetTarget) resolve(snapshot position.Snapshot) (wire.ID, error) {
	switch t.kind {
	case targetID:
		id, err := wire.ParseID(t.id)
		if err == nil && id.Compare(snapshot.Last) > 0 && (!snapshot.Found || id != snapshot.ID) { // where it is: ends a hold
			err = &position.BeyondError{Target: id, Last: snapshot.Last}
		}
		return id, err
	case targetTime:
		id := wire.FirstAt(t.at)
		switch {
		case id.Compare(snapshot.Last) <= 0:
			return id, nil
		case t.at.After(snapshot.ServerTime):
			return id, fmt.Errorf("%s is still to come by the server's clock, %s", t, snapshot.ServerTime.UTC().Format(time.RFC3339Nano))
		default:
			return snapshot.Last, nil // whatever is added now is later
		}
	case targetEnd:
		return snapshot.Last, nil
	default:
		return wire.ID{}, nil
	}
}

// trimmed reports whether entries behind an id may have been trimmed. Trimming removes the first entries: none behind the
// id is gone as long as there is one at the id or before it.
func trimmed(snapshot position.Snapshot, to wire.ID) bool {
	removed := snapshot.Added != snapshot.Length // also when Added is not known
	beforeFirst := snapshot.Length == 0 && to.Compare(snapshot.Last) < 0 || snapshot.Length > 0 && to.Compare(snapshot.First) < 0
	return removed && beforeFirst
}
