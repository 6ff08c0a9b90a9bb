package stream

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

// keeper writes the positions of all partitions, and passes on the resets that operators ask for.
type keeper struct {
	group *Group

	mu     sync.Mutex // guards the fields below; never held over I/O
	dirty  map[int]wire.ID
	closed bool
	err    error // of the last write
	since  time.Time

	storing sync.Mutex // held over I/O: a write that is under way ends before a reset is applied
}

func newKeeper(group *Group) *keeper { return &keeper{group: group, dirty: map[int]wire.ID{}} }

// record notes a position to be written. After close it does nothing: whatever finishes later will be handed
// over again.
func (k *keeper) record(partition int, id wire.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		k.dirty[partition] = id
	}
}

// run writes what was recorded, every PersistInterval, until the context ends.
func (k *keeper) run(ctx context.Context) {
	steps := k.group.config.ladder()
	var trouble outage
	wait := k.group.config.PersistInterval
	for sleep(ctx, wait) {
		wait = k.group.config.PersistInterval
		err := k.flush(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait = max(wait, steps.next())
			if trouble.failed() {
				k.group.config.Logger.ErrorContext(ctx, "position write failing", slog.Any("error", err),
					slog.Duration("next", wait), slog.Int("attempts", trouble.attempts))
			}
		case trouble.attempts > 0:
			if trouble.told {
				k.group.config.Logger.InfoContext(ctx, "position write recovered", slog.Int("attempts", trouble.attempts), slog.Duration("elapsed", time.Since(trouble.since)))
			}
			trouble.over()
			steps.reset()
		}
	}
}

// flush writes what was recorded since the last time it worked, and asks for pending resets.
func (k *keeper) flush(ctx context.Context) error {
	k.storing.Lock()
	defer k.storing.Unlock()
	k.mu.Lock()
	writes := make([]position.Write, len(k.group.partitions))
	for i, p := range k.group.partitions {
		writes[i] = position.Write{Partition: p.number, ID: k.dirty[p.number]}
	}
	k.mu.Unlock()

	resets, err := k.group.config.Store.Save(ctx, writes)

	k.mu.Lock()
	k.note(err)
	if err == nil {
		for _, write := range writes {
			if k.dirty[write.Partition] == write.ID {
				delete(k.dirty, write.Partition)
			}
		}
	}
	k.mu.Unlock()
	for i, reset := range resets {
		if reset != nil {
			k.group.partitions[i].requestReset(reset)
		}
	}
	return err
}

// note keeps what Status tells about writes.
func (k *keeper) note(err error) {
	if err == nil {
		k.since = time.Time{}
	} else if k.err == nil {
		k.since = time.Now()
	}
	k.err = err
}

// trouble is the error of the last write, and since when writes have failed; nil when it worked.
func (k *keeper) trouble() (time.Time, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.since, k.err
}

// applyReset moves a stored position to where a reset says. What was recorded before it is forgotten.
func (k *keeper) applyReset(ctx context.Context, partition int, reset position.Reset) error {
	k.storing.Lock()
	defer k.storing.Unlock()
	k.mu.Lock()
	delete(k.dirty, partition)
	k.mu.Unlock()
	_, err := k.group.config.Store.ApplyReset(ctx, partition, reset)
	return err
}

// close takes no further positions and writes those it has, within the time given.
func (k *keeper) close(limit time.Duration) {
	k.mu.Lock()
	k.closed = true
	clean := len(k.dirty) == 0
	k.mu.Unlock()
	if clean {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	result := make(chan error, 1)
	// A client may take longer over a dead connection than the context allows.
	k.group.others.Go(func() { result <- k.flush(ctx) })
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		k.group.config.Logger.Error("last positions not written; their batches will be handed over again", slog.Any("error", err))
	}
}
