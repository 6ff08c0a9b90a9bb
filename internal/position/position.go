// Package position keeps how far each partition has been processed, and never moves a position backwards
// except where an operator asked for it.
//
// The Redis store shares its hash with the .NET package RedisEvents. That package overwrites a position with
// whatever it holds; this one compares on the server, so that a late or second writer does no harm.
package position

import (
	"context"

	"github.com/redisevents/restatestart/internal/wire"
)

// Store keeps the positions of one consumer on one topic. Its methods may be called concurrently.
type Store interface {
	// Load tells what is stored for each of the partitions, in their order.
	Load(ctx context.Context, partitions []int) ([]Stored, error)

	// Save writes the positions that are ahead of what is stored and leaves the others. A partition with a
	// reset pending is not written: its reset comes back instead. A Write without a position only asks for
	// pending resets. The answer is in the order of the writes; on an error none or all may have been written.
	// A note is stored where the position is now the one that it comes with, moved or not.
	Save(ctx context.Context, writes []Write) ([]*Reset, error)

	// ApplyReset moves the stored position to the reset's target, backwards too, and removes the reset, and the note
	// as well. It reports false and changes nothing when the pending reset is no longer this one.
	ApplyReset(ctx context.Context, partition int, reset Reset) (bool, error)
}

// Stored is what a store holds for a partition.
type Stored struct {
	ID         wire.ID // last entry processed; meaningful when Found
	Found      bool
	Unreadable string // what stands in the place of a position and is none; such a partition counts as not stored
	Note       string // what was stored along with exactly this position, empty once anybody has moved it without one
	Reset      *Reset // pending reset, nil when there is none
}

// Write is the position to store for a partition. A zero ID moves nothing: its note, if it has one, belongs to having
// no position yet.
type Write struct {
	Partition int
	ID        wire.ID
	Note      string // about this position, as its writer likes; an empty one is not stored

	// Again tells that this was written before, and is written once more in case the server forgot: it takes the place of
	// nothing and of this writer's own, and leaves alone what anybody else has put there since, such as a reset.
	Again bool
}

// Reset is an operator's wish that a partition resume after Target.
type Reset struct {
	Target wire.ID
	Value  string // as stored, which tells one reset from the next
}

func parseReset(value string) *Reset {
	target, err := wire.ParseReset(value)
	if err != nil {
		return nil
	}
	return &Reset{Target: target, Value: value}
}
