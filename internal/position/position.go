// Package position stores how far each partition has been processed. A stored position moves backwards only when an
// operator resets it.
//
// The Redis store shares its hash with the .NET package RedisEvents. That package overwrites a position
// unconditionally; this one compares on the server, so that a late or second writer does no harm.
package position

import (
	"context"

	"github.com/redisevents/restatestart/internal/wire"
)

// Store keeps the positions of one consumer on one topic. Its methods may be called concurrently.
type Store interface {
	// Load returns what is stored for each of the partitions, in their order.
	Load(ctx context.Context, partitions []int) ([]Stored, error)

	// Save writes the positions that are ahead of what is stored and leaves the others. A partition with a pending
	// reset is not written: its reset is returned instead. A Write without a position only asks for the pending reset.
	// The results are in the order of the writes; on an error none or all may have been written.
	// Metadata is stored if the stored position is now the one it comes with, moved or not.
	Save(ctx context.Context, writes []Write) ([]*Reset, error)

	// ApplyReset moves the stored position to the reset's target, backwards too, and removes the reset and the
	// metadata. It reports false and changes nothing when the pending reset is no longer this one.
	ApplyReset(ctx context.Context, partition int, reset Reset) (bool, error)
}

// Stored is what a store holds for a partition.
type Stored struct {
	ID         wire.ID // last entry processed; meaningful when Found
	Found      bool
	Unreadable string // the stored value where it is not a position; Found is false then
	Metadata   string // stored with exactly this position; empty once the position was moved without any
	Reset      *Reset // pending reset, nil when there is none
}

// Write is the position to store for a partition. A zero ID moves nothing: its metadata, if any, is stored where there
// is no position yet.
type Write struct {
	Partition int
	ID        wire.ID
	Metadata  string // about this position, opaque to the store; not stored when empty

	// Rewrite marks a write that was made before, repeated in case the server lost it. It replaces nothing but this
	// process's own position or a missing one, so it undoes neither a reset nor another writer's position.
	Rewrite bool
}

// Reset is an operator's request that a partition resume after Target.
type Reset struct {
	Target wire.ID
	Value  string // as stored, which identifies the reset
}

func parseReset(value string) *Reset {
	target, err := wire.ParseReset(value)
	if err != nil {
		return nil
	}
	return &Reset{Target: target, Value: value}
}
