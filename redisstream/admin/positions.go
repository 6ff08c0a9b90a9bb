package admin

import (
	"context"
	"slices"
	"time"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/text"
	"github.com/redisevents/restatestart/internal/wire"
)

// Position is what Redis holds for one partition, encodable as JSON.
type Position struct {
	Partition int `json:"partition"`
	// Stream is the partition's Redis key, and Missing says that it does not exist.
	Stream  string `json:"stream"`
	Missing bool   `json:"missing,omitempty"`
	// Position is the id of the last processed entry, as it was last written: a running consumer is ahead of it by up to
	// its PersistInterval. Empty when none is stored. While a reset is pending it is the reset's target.
	Position string `json:"position,omitempty"`
	// Unreadable is a stored value that is not a position. A consumer treats it as nothing stored.
	Unreadable string `json:"unreadable,omitempty"`
	// Writer is the id of the instance that wrote the position, or the constant Writer for a reset. Empty when not known.
	Writer string `json:"writer,omitempty"`
	// WrittenAt is when it was written, by the writer's clock. Zero when not known.
	WrittenAt time.Time `json:"writtenAt,omitzero"`
	// Length is how many entries the stream holds. First is the id of the first of them, empty when there is none. Last is
	// the greatest id that the stream ever generated, even if that entry is gone. A position beyond Last belongs to a stream
	// that is gone: new entries are read only once their ids are beyond the position.
	Length int64  `json:"length"`
	First  string `json:"first,omitempty"`
	Last   string `json:"last,omitempty"`
	// Lag is how many entries the stream holds behind Position, exactly, even after trimming or deletions. Nil when no
	// position is stored, and when LagLimit or more entries would have to be counted.
	Lag *int64 `json:"lag,omitempty"`
	// Pending is the reset that the consumer has not applied yet. Nil when there is none.
	Pending *PendingReset `json:"pending,omitempty"`
}

const maxUnreadable = 80 // bytes

// Writer is the writer of the positions that a reset stores, the same as in .NET.
const Writer = wire.AdminWriter

// PendingReset is a reset that the consumer has not applied yet.
type PendingReset struct {
	// To is the id behind which the partition will continue.
	To string `json:"to"`
	// Issued is when it was requested, by the requester's clock. Zero when not known.
	Issued time.Time `json:"issued,omitzero"`
}

// Positions returns the positions of all partitions, in order: those of the topic, by its meta hash or
// Options.Partitions, and any other that something is stored for. Each partition is read in one atomic step. Where its
// position is in the middle of the stream, the entries behind it are then counted, up to LagLimit, in steps that block the
// server only briefly.
func (c *Client) Positions(ctx context.Context) ([]Position, error) {
	list, err := c.list(ctx)
	if err != nil {
		return nil, c.wrap("list positions", err)
	}
	return list, nil
}

func (c *Client) list(ctx context.Context) ([]Position, error) {
	partitions, err := c.partitions(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Position, 0, len(partitions))
	for _, partition := range partitions {
		snapshot, err := c.admin.Snapshot(ctx, partition)
		if err != nil {
			return nil, err
		}
		found := c.describe(partition, snapshot)
		if found.Lag, err = c.lag(ctx, partition, snapshot); err != nil {
			return nil, err
		}
		list = append(list, found)
	}
	return list, nil
}

// partitions are those of the topic, and those that something is stored for.
func (c *Client) partitions(ctx context.Context) ([]int, error) {
	partitions, err := c.admin.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	count, err := c.count(ctx)
	if err != nil {
		return nil, err
	}
	for partition := range max(count, 1) {
		partitions = append(partitions, partition)
	}
	slices.Sort(partitions)
	return slices.Compact(partitions), nil
}

func (c *Client) describe(partition int, snapshot position.Snapshot) Position {
	found := Position{
		Partition: partition, Stream: c.keys.Stream(partition), Missing: !snapshot.Exists, Unreadable: text.Cut(snapshot.Unreadable, maxUnreadable),
		Writer: snapshot.Writer, WrittenAt: snapshot.WrittenAt, Length: snapshot.Length, Pending: pendingReset(snapshot),
	}
	if snapshot.Found {
		found.Position = snapshot.ID.String()
	}
	if snapshot.Exists {
		found.Last = snapshot.Last.String()
	}
	if snapshot.Length > 0 {
		found.First = snapshot.First.String()
	}
	return found
}

func pendingReset(snapshot position.Snapshot) *PendingReset {
	if snapshot.Reset == nil {
		return nil
	}
	return &PendingReset{To: snapshot.Reset.Target.String(), Issued: wire.ParseIssued(snapshot.Reset.Value)}
}

// lag counts entries only where it does not follow from the ends of the stream.
func (c *Client) lag(ctx context.Context, partition int, snapshot position.Snapshot) (*int64, error) {
	var behind int64
	switch {
	case !snapshot.Found:
		return nil, nil //nolint:nilnil // no position, no lag
	case snapshot.Length == 0 || snapshot.Last.Compare(snapshot.ID) <= 0:
	case snapshot.First.Compare(snapshot.ID) > 0:
		behind = snapshot.Length
	default:
		counted, more, err := c.admin.Count(ctx, partition, snapshot.ID, snapshot.Last, LagLimit)
		if err != nil || more {
			return nil, err
		}
		behind = counted
	}
	return &behind, nil
}
