package parked

import (
	"context"
	"errors"
	"fmt"

	"github.com/redisevents/restatestart/internal/wire"
)

// Failed is a parked entry that an operation failed for.
type Failed struct {
	ID  wire.ID
	Err error
}

// StoreError is an error of the store rather than of one entry.
type StoreError struct{ Err error }

func (e StoreError) Error() string { return e.Err.Error() }

func (e StoreError) Unwrap() error { return e.Err }

// Each calls do once for each of the parked entries, in the order given, and returns those that it failed for. After a
// StoreError, or once ctx is cancelled, the rest fail with the same error without a call. An id that is not valid is the
// only error, returned before anything is called.
func Each(ctx context.Context, ids []string, do func(ctx context.Context, id wire.ID) error) (failed []Failed, err error) {
	parsed, err := parseIDs(ids)
	if err != nil {
		return nil, err
	}
	ended := ctx.Err()
	for _, id := range parsed {
		err := ended
		if err == nil {
			err = do(ctx, id)
			ended = ctx.Err()
			if store, is := errors.AsType[StoreError](err); is {
				ended = store.Err
			}
		}
		if err != nil {
			failed = append(failed, Failed{id, err})
		}
	}
	return failed, nil
}

// parseIDs returns the ids without repetitions.
func parseIDs(texts []string) ([]wire.ID, error) {
	seen := make(map[wire.ID]bool, len(texts))
	ids := make([]wire.ID, 0, len(texts))
	for _, text := range texts {
		id, err := wire.ParseID(text)
		if err != nil {
			return nil, fmt.Errorf("id of a parked entry: %w", err)
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}
