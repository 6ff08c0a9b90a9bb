package redisstream

import (
	"context"
	"fmt"
	"time"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/redisstream/admin"
)

// removeTimeout bounds the removal of a parked entry that was accepted. A cancellation does not prevent it.
const removeTimeout = 5 * time.Second

// Replay delivers parked entries to the handler once more, one by one in the order given, each decoded anew and in a
// batch of its own. An entry that the handler returns nil for is removed from the parked stream; otherwise it stays, as it
// does when it still cannot be decoded. Replay returns nil when all are done, an *admin.ParkedError that names the others,
// or an error about an id that is not valid, and then nothing was done.
//
// It needs no Run, and may be called during one, in this process or elsewhere: the handler is then called concurrently
// with Run's calls, for the same partition too. Two replays of one entry at once do no harm, nor does a crash: Restate
// knows the repeated start by its workflow key. A replayed start runs after those of later messages; where one of them
// has started the same workflow and key meanwhile, Restate answers that it knows the key, and the replayed input never
// runs. Check admin.ParkedEntry.Key first.
//
// An error from Redis ends the replay: the entries behind it are not tried. So does the cancellation of ctx.
//
// Package admin lists parked entries and discards them.
func (c *Consumer[T]) Replay(ctx context.Context, ids ...string) error {
	failed, err := parked.Each(ctx, ids, c.replay)
	switch {
	case err != nil:
		return fmt.Errorf("redisstream: %w", err)
	case len(failed) == 0:
		return nil
	}
	left := &admin.ParkedError{Action: "replayed", Total: len(ids)}
	for _, entry := range failed {
		left.Failed = append(left.Failed, admin.FailedParked{ID: entry.ID.String(), Err: entry.Err})
	}
	return left
}

func (c *Consumer[T]) replay(ctx context.Context, id wire.ID) error {
	entry, found, err := c.backend.parked.Find(ctx, id)
	switch {
	case err != nil:
		return parked.StoreError{Err: err}
	case !found:
		return admin.ErrNotParked
	case entry.Foreign:
		return admin.ErrForeign
	}
	original := entry.Original()
	messages := make([]restatestart.Message[T], 1)
	if err := decodeInto(&messages[0], entry.Stream, entry.Partition, &original, []byte(original.Body), c.decode); err != nil {
		return err
	}
	if err := c.handle(ctx, messages); err != nil {
		return err
	}
	// It was accepted: a cancellation must not leave it parked.
	removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	_, found, err = c.backend.parked.Remove(removing, id)
	if err != nil {
		return parked.StoreError{Err: fmt.Errorf("accepted, and not removed from the parked stream: %w", err)}
	}
	if found { // else another replay was accepted too, and has recorded it
		c.parked.Record(ctx, parked.EventReplayed, entry)
	}
	return nil
}
