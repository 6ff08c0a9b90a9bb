package restatestart

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// removeTimeout bounds the removal of a parked entry that was accepted, which no cancellation keeps from being tried.
const removeTimeout = 5 * time.Second

// Replay hands parked entries to the handler once more, one by one in the order given, each decoded anew and in a batch of
// its own. One that the handler returns nil for is taken out of the parked stream; whatever else it returns, the entry
// stays, as it does when it still cannot be decoded. It returns nil when all of them are done, a *ParkedError that names
// the others, or an error about an id that is none, and then nothing was done.
//
// It needs no Run, and may be called while there is one, in this process or elsewhere: the handler is called beside those
// of Run then, for the same partition too. Two replays of one entry at once do no harm, nor does a crash: Restate knows the
// start that comes again by its workflow key. A start that is replayed runs after those of later
// messages; where one of them has started the same workflow and key meanwhile, Restate answers that it knows the key, and
// the replayed input never runs. Look at ParkedEntry.Key first.
//
// What Redis refuses ends the replay: the entries behind it are not tried. So does the cancellation of ctx.
func (c *Consumer[T]) Replay(ctx context.Context, ids ...string) error {
	return c.eachParked(ctx, "replayed", ids, c.replay)
}

// Discard takes parked entries out of the parked stream, for good: the bodies are lost where their streams are trimmed, and
// their starts are never made. The position needs not have passed them; they are not parked again when it comes to them. It
// returns as Replay does.
func (c *Consumer[T]) Discard(ctx context.Context, ids ...string) error {
	return c.eachParked(ctx, "discarded", ids, c.discard)
}

func (c *Consumer[T]) discard(ctx context.Context, id wire.ID) error {
	entry, found, err := c.backend.parked.Remove(ctx, id)
	switch {
	case err != nil:
		return storeError{err}
	case !found:
		return ErrNotParked
	}
	c.tellParked(ctx, entryDiscarded, entry)
	return nil
}

func (c *Consumer[T]) replay(ctx context.Context, id wire.ID) error {
	entry, found, err := c.backend.parked.Find(ctx, id)
	switch {
	case err != nil:
		return storeError{err}
	case !found:
		return ErrNotParked
	case entry.Foreign:
		return ErrForeign
	}
	original := entry.Original()
	messages := make([]Message[T], 1)
	if err := messages[0].read(entry.Stream, entry.Partition, &original, []byte(original.Body), c.decode); err != nil {
		return err
	}
	if err := c.handle(ctx, messages); err != nil {
		return err
	}
	// It was accepted, and must not wait for the next one who comes along.
	removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	_, found, err = c.backend.parked.Remove(removing, id)
	if err != nil {
		return storeError{fmt.Errorf("accepted, and not taken out of the parked stream: %w", err)}
	}
	if found { // else another replay was accepted too, and has told
		c.tellParked(ctx, entryReplayed, entry)
	}
	return nil
}

// storeError is not about one entry.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// eachParked does something with one parked entry after the other. Once Redis refuses, or the context is cancelled, the
// entries that are left fail with that.
func (c *Consumer[T]) eachParked(ctx context.Context, done string, ids []string, do func(ctx context.Context, id wire.ID) error) error {
	parsed, err := parkedIDs(ids)
	if err != nil {
		return err
	}
	failed := &ParkedError{done: done, of: len(parsed)}
	ended := ctx.Err()
	for _, id := range parsed {
		err := ended
		if err == nil {
			err = do(ctx, id)
			ended = ctx.Err()
			if store, is := errors.AsType[storeError](err); is {
				ended = store.error
			}
		}
		if err != nil {
			failed.Failed = append(failed.Failed, FailedParked{ID: id.String(), Err: err})
		}
	}
	if len(failed.Failed) == 0 {
		return nil
	}
	return failed
}

// parkedIDs reads ids, each once.
func parkedIDs(texts []string) ([]wire.ID, error) {
	seen := make(map[wire.ID]bool, len(texts))
	ids := make([]wire.ID, 0, len(texts))
	for _, text := range texts {
		id, err := wire.ParseID(text)
		if err != nil {
			return nil, fmt.Errorf("restatestart: id of a parked entry: %w", err)
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}
