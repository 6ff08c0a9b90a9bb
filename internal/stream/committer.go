package stream

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/backoff"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

// committer writes the positions of all partitions, and passes on the resets that it finds pending in the store.
type committer struct {
	loop *Loop

	mu           sync.Mutex // guards the fields below; never held over I/O
	queued       map[int]position.Write
	closed       bool
	err          error // of the last commit
	failingSince time.Time

	// A server that failed over or restarted may have lost a position that it had acknowledged, and go-redis does not
	// say so. The last acknowledged positions are therefore part of each commit: a quiet partition's would otherwise
	// stay lost, and a restart a day later would start again what Restate has forgotten by then.
	acknowledged map[int]position.Write
}

func newCommitter(loop *Loop) *committer {
	return &committer{loop: loop, queued: map[int]position.Write{}, acknowledged: map[int]position.Write{}}
}

// enqueue queues a position and its metadata for the next commit. After close it does nothing: what finishes later
// is redelivered.
func (c *committer) enqueue(partition int, id wire.ID, metadata string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && (!id.IsZero() || metadata != "") {
		c.queued[partition] = position.Write{Partition: partition, ID: id, Metadata: metadata}
	}
}

// discard drops the positions known of a partition: they must not overwrite a reset.
func (c *committer) discard(partition int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.queued, partition)
	delete(c.acknowledged, partition)
}

// run commits every PersistInterval until the context ends.
func (c *committer) run(ctx context.Context) {
	config := &c.loop.config
	waits := config.backoff()
	var failing outage
	wait := config.PersistInterval
	for backoff.Sleep(ctx, wait) {
		wait = config.PersistInterval
		err := c.commitAll(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			wait = max(wait, waits.Next())
			if failing.failed() {
				config.Logger.ErrorContext(ctx, "position write failing", slog.Any("partitions", c.uncommitted()), slog.Any("error", err),
					slog.Duration("next", wait), slog.Int("attempts", failing.attempts))
			}
		case failing.recovered(ctx, config.Logger, "position write recovered"):
			waits.Reset()
		}
	}
}

// uncommitted are the partitions with a position in the queue.
func (c *committer) uncommitted() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.queued))
}

// commitAll commits what is queued. It asks the server even when nothing is, for pending resets.
func (c *committer) commitAll(ctx context.Context) error {
	uncommitted := c.uncommitted()
	return c.commit(ctx, slices.DeleteFunc(c.loop.all(), func(p *partition) bool {
		return p.isRevoked() && !slices.Contains(uncommitted, p.number)
	}))
}

// commit writes the positions of some partitions, and asks for their resets.
func (c *committer) commit(ctx context.Context, partitions []*partition) error {
	for _, p := range partitions { // always in the loop's order, so that two commits cannot deadlock
		if err := p.committing.lock(ctx); err != nil {
			return err
		}
		defer p.committing.unlock()
	}
	writes := c.writes(partitions)
	resets, err := c.loop.config.Store.Save(ctx, writes)
	if err != nil {
		if ctx.Err() == nil { // otherwise stopping may have caused the error
			c.setError(err)
			c.loop.config.Observer.CommitFailed()
		}
		return err
	}
	c.committed(writes, resets)
	for i, reset := range resets {
		if reset != nil {
			partitions[i].resetFound(reset) //nolint:gosec // as many answers as writes, by Store's contract
		}
	}
	return nil
}

// writes are the queued positions of the partitions, or the last acknowledged ones.
func (c *committer) writes(partitions []*partition) []position.Write {
	c.mu.Lock()
	defer c.mu.Unlock()
	writes := make([]position.Write, len(partitions))
	for i, p := range partitions {
		write, queued := c.queued[p.number]
		if !queued {
			write = c.acknowledged[p.number]
			write.Rewrite = true
		}
		write.Partition = p.number
		writes[i] = write
	}
	return writes
}

// committed records a commit that worked. A partition whose reset is pending was not written.
func (c *committer) committed(writes []position.Write, resets []*position.Reset) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.failingSince = nil, time.Time{}
	for i, write := range writes {
		if resets[i] != nil {
			delete(c.acknowledged, write.Partition)
			continue
		}
		if !write.Rewrite && (!write.ID.IsZero() || write.Metadata != "") {
			c.acknowledged[write.Partition] = write
		}
		if c.queued[write.Partition] == write {
			delete(c.queued, write.Partition)
		}
	}
}

func (c *committer) setError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.failingSince = time.Now()
	}
	c.err = err
}

// lastError is the error of the last commit, and since when commits have failed; nil when it worked.
func (c *committer) lastError() (since time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failingSince, c.err
}

// applyReset moves the stored position to a reset's target, and returns where the partition begins, with its metadata.
// A reset that was cancelled leaves the position where it is; one that another has replaced is an error, and the
// caller retries with the other.
func (c *committer) applyReset(ctx context.Context, p *partition, reset *position.Reset) (wire.ID, string, error) {
	if err := p.committing.lock(ctx); err != nil {
		return wire.ID{}, "", err
	}
	defer p.committing.unlock()
	c.discard(p.number) // first: should the answer be lost, it must not overwrite the target

	store := c.loop.config.Store
	applied, err := store.ApplyReset(ctx, p.number, *reset)
	if err != nil || applied {
		return reset.Target, "", err
	}
	stored, err := store.Load(ctx, []int{p.number})
	switch {
	case err != nil:
		return wire.ID{}, "", err
	case stored[0].Reset != nil:
		p.replaceReset(stored[0].Reset)
		return wire.ID{}, "", errResetChanged
	case stored[0].ID == reset.Target:
		return reset.Target, "", nil // applied by another instance, or by an attempt whose answer was lost
	default:
		p.log.Info("position reset cancelled")
		at, metadata := p.status.at(), p.gaps.metadata()
		c.enqueue(p.number, at, metadata)
		return at, metadata, nil
	}
}

// close accepts no further positions and commits the queued ones, within a time limit.
func (c *committer) close(limit time.Duration) {
	c.mu.Lock()
	c.closed = true
	clean := len(c.queued) == 0
	c.mu.Unlock()
	if clean {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	result := make(chan error, 1)
	// A client may take longer over a dead connection than the context allows.
	c.loop.others.Go(func() { result <- c.commitAll(ctx) })
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		c.setError(err)
		if ctx.Err() != nil {
			c.loop.config.Observer.CommitFailed() // commit does not count what the context interrupted
		}
		c.loop.config.Logger.Error("last positions not written, their batches will be redelivered", slog.Any("partitions", c.uncommitted()), slog.Any("error", err))
	}
}
