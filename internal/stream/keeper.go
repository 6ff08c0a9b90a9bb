package stream

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

// keeper writes the positions of all partitions, and passes on the resets that operators ask for.
type keeper struct {
	group *Group

	mu     sync.Mutex // guards the fields below; never held over I/O
	dirty  map[int]position.Write
	closed bool
	err    error // of the last write
	since  time.Time

	// A server that fails over, or comes back from a disk, may have forgotten a position that it had acknowledged, and
	// go-redis does not tell. Nothing else would write that of a quiet partition, and a restart a day later would start
	// again what Restate has forgotten by then.
	written map[int]position.Write // what was acknowledged last
}

func newKeeper(group *Group) *keeper {
	return &keeper{group: group, dirty: map[int]position.Write{}, written: map[int]position.Write{}}
}

// record notes a position to be written, and what is to be noted with it. After close it does nothing: whatever
// finishes later will be handed over again.
func (k *keeper) record(partition int, id wire.ID, note string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed && (!id.IsZero() || note != "") {
		k.dirty[partition] = position.Write{Partition: partition, ID: id, Note: note}
	}
}

// forget drops what was recorded of a partition, which must not be written over a reset.
func (k *keeper) forget(partition int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.dirty, partition)
	delete(k.written, partition)
}

// run writes what was recorded, every PersistInterval, until the context ends.
func (k *keeper) run(ctx context.Context) {
	steps := k.group.config.ladder()
	var trouble outage
	wait := k.group.config.PersistInterval
	for Sleep(ctx, wait) {
		wait = k.group.config.PersistInterval
		err := k.flush(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait = max(wait, steps.Next())
			if trouble.failed() {
				k.group.config.Logger.ErrorContext(ctx, "position write failing", slog.Any("partitions", k.unwritten()), slog.Any("error", err),
					slog.Duration("next", wait), slog.Int("attempts", trouble.attempts))
			}
		case trouble.attempts > 0:
			if trouble.told {
				k.group.config.Logger.InfoContext(ctx, "position write recovered", slog.Int("attempts", trouble.attempts), slog.Duration("elapsed", time.Since(trouble.since)))
			}
			trouble.over()
			steps.Reset()
		}
	}
}

// unwritten are the partitions whose positions are to be written.
func (k *keeper) unwritten() []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.dirty))
}

// flush writes what was recorded, what it has written before included, and asks for pending resets, which is why it
// goes to the server even when there is nothing new.
func (k *keeper) flush(ctx context.Context) error {
	return k.save(ctx, slices.DeleteFunc(k.group.all(), func(p *partition) bool { return p.letGo() && !k.has(p.number) }))
}

func (k *keeper) has(partition int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, found := k.dirty[partition]
	return found
}

// save does that for some of the partitions.
func (k *keeper) save(ctx context.Context, partitions []*partition) error {
	for _, p := range partitions { // always in the group's order, so that no two wait for each other
		select {
		case p.storing <- struct{}{}:
			defer func() { <-p.storing }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	k.mu.Lock()
	writes := make([]position.Write, len(partitions))
	for i, p := range partitions {
		var recorded bool
		if writes[i], recorded = k.dirty[p.number]; !recorded {
			writes[i] = k.written[p.number]
			writes[i].Again = true
		}
		writes[i].Partition = p.number
	}
	k.mu.Unlock()

	resets, err := k.group.config.Store.Save(ctx, writes)

	cut := err != nil && ctx.Err() != nil
	k.mu.Lock()
	if !cut {
		k.note(err)
	}
	if err == nil {
		for i, write := range writes {
			switch {
			case resets[i] != nil:
				delete(k.written, write.Partition)
			case !write.Again && (!write.ID.IsZero() || write.Note != ""):
				k.written[write.Partition] = write
			}
			if resets[i] == nil && k.dirty[write.Partition] == write {
				delete(k.dirty, write.Partition)
			}
		}
	}
	k.mu.Unlock()
	if err != nil && !cut {
		k.group.config.Observer.SaveFailed()
	}
	for i, reset := range resets {
		if reset != nil {
			partitions[i].requestReset(reset) //nolint:gosec // as many answers as writes, by Store's contract
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

// applyReset moves a stored position to where a reset says, and returns where that is, with what is noted about it. What was recorded before it
// is forgotten first: should the answer be lost, it must not be written over the target. A reset that another has
// replaced is an error, since that one will be noticed; one that was withdrawn leaves the position where it is.
func (k *keeper) applyReset(ctx context.Context, p *partition, reset *position.Reset) (wire.ID, string, error) {
	select {
	case p.storing <- struct{}{}:
		defer func() { <-p.storing }()
	case <-ctx.Done():
		return wire.ID{}, "", ctx.Err()
	}
	k.forget(p.number)

	store := k.group.config.Store
	applied, err := store.ApplyReset(ctx, p.number, *reset)
	if err != nil || applied {
		return reset.Target, "", err
	}
	stored, err := store.Load(ctx, []int{p.number})
	switch {
	case err != nil:
		return wire.ID{}, "", err
	case stored[0].Reset != nil:
		p.mu.Lock()
		p.reset = stored[0].Reset
		p.mu.Unlock()
		return wire.ID{}, "", errResetChanged
	case stored[0].ID == reset.Target:
		return reset.Target, "", nil // applied by another instance, or by a try whose answer was lost
	default:
		p.log.Info("position reset withdrawn")
		at, note := p.status.at(), p.ledger.noted()
		k.record(p.number, at, note)
		return at, note, nil
	}
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
		k.mu.Lock()
		k.note(err)
		k.mu.Unlock()
		if ctx.Err() != nil {
			k.group.config.Observer.SaveFailed() // which save does not say of a write that was cut short
		}
		k.group.config.Logger.Error("last positions not written; their batches will be handed over again", slog.Any("partitions", k.unwritten()), slog.Any("error", err))
	}
}
