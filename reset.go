package restatestart

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

// ResetTarget is where a reset lets a partition go on: ToID, ToTime, ToBeginning or ToEnd.
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

// ToID goes on strictly behind the id, `<ms>-<seq>`, whether there is an entry of that id or not: the id of a message
// steps over it. One beyond the last id of the stream is refused.
func ToID(id string) ResetTarget { return ResetTarget{kind: targetID, id: id} }

// ToTime goes on with the first entry that was added at that time or later, to the millisecond of the server's clock. A
// time after the last entry is the end of the stream; one that the server's clock has not reached is refused.
func ToTime(t time.Time) ResetTarget { return ResetTarget{kind: targetTime, at: t} }

// ToBeginning goes on with the oldest entry that the stream still holds.
func ToBeginning() ResetTarget { return ResetTarget{kind: targetBeginning} }

// ToEnd goes on behind everything that the stream holds when the reset is asked for. What lies between is passed over,
// which loses its starts.
func ToEnd() ResetTarget { return ResetTarget{kind: targetEnd} }

// String is the target in a word, an id or a time.
func (t ResetTarget) String() string {
	switch t.kind {
	case targetID:
		return printable(t.id)
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

// ResetPreview is what a reset does to a partition, counted from its stored position. A consumer that runs is ahead of
// that by up to its PersistInterval, and what it is ahead adds to Again, or takes from Skipped. Encodable as JSON.
type ResetPreview struct {
	Partition int    `json:"partition"`
	Stream    string `json:"stream"`
	// From is the stored position, or the target of the reset that is pending. Empty when there is neither: then it counts
	// as the place before every entry, where a consumer begins. That is also what a misspelt Consumer looks like.
	From string `json:"from,omitempty"`
	// To is the id behind which the partition goes on.
	To string `json:"to"`
	// Again is how many entries that the stream still holds lie behind To and not behind From: they are read again.
	Again int64 `json:"again"`
	// Skipped is how many lie behind From and not behind To: they are passed over.
	Skipped int64 `json:"skipped"`
	// Trimmed tells that To lies before the oldest entry that the stream still holds, and that entries were removed
	// from the stream: some that the reset asks for are gone, or may be, since Redis does not tell which ones they
	// were. False means that none behind To was trimmed. It is true as well where the server does not count what was
	// added (before Redis 7).
	Trimmed bool `json:"trimmed"`
	// Pending is another reset that the consumer has not taken yet, and that this one replaces. Nil when there is none.
	Pending *PendingReset `json:"pending,omitempty"`
}

// Preview tells what Reset would do at this moment, and writes nothing. It counts every entry between From and To, in
// steps that are short for the server, until ctx ends it. Its errors are those of Reset.
func (p *Positions) Preview(ctx context.Context, partition int, target ResetTarget) (ResetPreview, error) {
	preview, _, err := p.preview(ctx, partition, target)
	if err != nil {
		return ResetPreview{}, p.wrap(fmt.Sprintf("preview a reset of partition %d", partition), err)
	}
	return preview, nil
}

// Reset moves a partition's position to the target, backwards too, and returns what that does, as Preview does, counted
// just before. A consumer that runs takes the reset within its PersistInterval, idle, held or stopped by ErrorStop: it lets the
// batch in hand finish, or the wait of a hold end, and goes on behind To. One that does not run takes it when it starts,
// whatever its StartFrom says. Until then the reset is pending, another one replaces it, and Withdraw takes it back.
//
// In .NET the same holds, with two exceptions: a consumer with Persist None looks for no resets, and an instance that
// starts removes those of all partitions, other instances' included. Look at List afterwards.
//
// Messages that are read again are sent to Restate again. Restate answers PreviouslyAccepted to a start whose workflow it
// still knows; one that completed longer ago than its workflow_completion_retention (one day by default) runs again.
// Do not go back further than that, unless running twice does no harm.
//
// Position and marker are written in one step on the server. An error means that nothing was written, except where the
// connection broke before the answer came: then it may have been, which List shows. Refused are a partition that the topic does not
// have, an id that is none or lies beyond the stream, a time to come, and a stream that does not exist where nothing is
// stored either.
func (p *Positions) Reset(ctx context.Context, partition int, target ResetTarget) (ResetPreview, error) {
	preview, to, err := p.preview(ctx, partition, target)
	if err == nil {
		err = p.admin.Request(ctx, partition, to)
	}
	if err != nil {
		if beyond, found := errors.AsType[*position.BeyondError](err); found {
			err = fmt.Errorf("target: %w", beyond)
		}
		return ResetPreview{}, p.wrap(fmt.Sprintf("reset partition %d", partition), err)
	}
	return preview, nil
}

// ErrForeignReset is what Withdraw returns for a pending reset that another tool asked for: where the position stood
// before it is not known. Reset to where it is to go on instead.
var ErrForeignReset = position.ErrForeign

// Withdraw takes back a reset that the consumer has not taken yet, and puts back the position that stood before it. It
// reports false, and changes nothing, when no reset is pending, or none any more.
func (p *Positions) Withdraw(ctx context.Context, partition int) (bool, error) {
	err := p.checkPartition(ctx, partition)
	withdrawn := false
	if err == nil {
		withdrawn, err = p.admin.Withdraw(ctx, partition)
	}
	if err != nil {
		return false, p.wrap(fmt.Sprintf("withdraw the reset of partition %d", partition), err)
	}
	return withdrawn, nil
}

func (p *Positions) preview(ctx context.Context, partition int, target ResetTarget) (ResetPreview, wire.ID, error) {
	if err := target.check(); err != nil {
		return ResetPreview{}, wire.ID{}, fmt.Errorf("target: %w", err)
	}
	if err := p.checkPartition(ctx, partition); err != nil {
		return ResetPreview{}, wire.ID{}, err
	}
	view, err := p.admin.View(ctx, partition)
	if err != nil {
		return ResetPreview{}, wire.ID{}, err
	}
	preview := ResetPreview{Partition: partition, Stream: p.keys.Stream(partition), Pending: pendingReset(view)}
	if !view.Exists && !view.Found {
		return preview, wire.ID{}, fmt.Errorf("there is no stream %s, and no position is stored: nothing was published yet, or a name or the KeyPrefix is wrong", preview.Stream)
	}
	to, err := target.resolve(view)
	if err != nil {
		return preview, wire.ID{}, fmt.Errorf("target: %w", err)
	}
	from := view.ID // 0-0 where nothing is stored
	if view.Reset != nil {
		from = view.Reset.Target // as good as there
	}
	if view.Found || view.Reset != nil {
		preview.From = from.String()
	}
	preview.To, preview.Trimmed = to.String(), trimmed(view, to)
	if preview.Again, _, err = p.admin.Count(ctx, partition, to, from, 0); err != nil {
		return preview, wire.ID{}, err
	}
	preview.Skipped, _, err = p.admin.Count(ctx, partition, from, to, 0)
	return preview, to, err
}

// checkPartition refuses what is not the topic's. Where nothing tells how many partitions there are, any that has a
// stream or something stored may be one.
func (p *Positions) checkPartition(ctx context.Context, partition int) error {
	if partition < 0 {
		return fmt.Errorf("partition: %d is negative", partition)
	}
	count, err := p.count(ctx)
	switch {
	case err != nil:
		return err
	case count > 0 && partition >= count:
		return fmt.Errorf("partition: %d is not one of the topic's, 0 to %d", partition, count-1)
	default:
		return nil // whether there is a stream is looked at with everything else
	}
}

// check refuses what is wrong whatever the server says.
func (t ResetTarget) check() error {
	switch {
	case t.kind == targetNone:
		return errors.New("none is given: ToID, ToTime, ToBeginning or ToEnd")
	case t.kind == targetTime && t.at.IsZero():
		return errors.New("the time is zero")
	case t.kind == targetID:
		if _, err := wire.ParseID(t.id); err != nil {
			return fmt.Errorf("%s is not an id of the form <ms>-<seq>", printable(t.id))
		}
	}
	return nil
}

// resolve finds the id behind which to go on.
func (t ResetTarget) resolve(view position.View) (wire.ID, error) {
	switch t.kind {
	case targetID:
		id, err := wire.ParseID(t.id)
		if err == nil && id.Compare(view.Last) > 0 && (!view.Found || id != view.ID) { // where it is: ends a hold
			err = &position.BeyondError{Target: id, Last: view.Last}
		}
		return id, err
	case targetTime:
		id := wire.FirstAt(t.at)
		switch {
		case id.Compare(view.Last) <= 0:
			return id, nil
		case t.at.After(view.ServerTime):
			return id, fmt.Errorf("%s is still to come by the server's clock, %s", t, view.ServerTime.UTC().Format(time.RFC3339Nano))
		default:
			return view.Last, nil // whatever is added now is later
		}
	case targetEnd:
		return view.Last, nil
	default:
		return wire.ID{}, nil
	}
}

// trimmed tells whether entries behind an id may be gone from the beginning of a stream. Trimming takes the lowest
// ones first: none behind the id is gone as long as one at the id or before it is there.
func trimmed(view position.View, to wire.ID) bool {
	removed := view.Added != view.Length // also when the server does not say
	beforeFirst := view.Length == 0 && to.Compare(view.Last) < 0 || view.Length > 0 && to.Compare(view.First) < 0
	return removed && beforeFirst
}
