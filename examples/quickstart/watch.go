package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redisevents/restatestart"
)

const (
	look     = 50 * time.Millisecond
	patience = 30 * time.Second // beyond which nothing will move any more
)

var errStuck = errors.New("not finished, and nothing moves any more")

// watcher tells what the consumer's Status shows, and notices the end.
type watcher struct {
	status    func() restatestart.Status
	publisher *publisher
	ingress   ingress
	screen    *screen

	blocked map[int]restatestart.Blocked // by partition, those that are held now
	holds   int                          // how many there were in all
}

func newWatcher(status func() restatestart.Status, publisher *publisher, ingress ingress, screen *screen) *watcher {
	return &watcher{
		status: status, publisher: publisher, ingress: ingress, screen: screen,
		blocked: map[int]restatestart.Blocked{},
	}
}

// watch returns nil when every bet is published and the consumer's positions are behind all of them.
func (w *watcher) watch(ctx context.Context) error {
	moved, before := time.Now(), int64(-1)
	for {
		var passed int64
		for _, partition := range w.status().Partitions {
			passed += partition.Passed
			w.see(partition)
		}
		started := len(w.ingress.StartedKeys(workflow)) // first, so that it is not ahead of what was kept
		published, kept := w.publisher.counts()
		w.screen.progressf("published %d  kept %d  started %d  blocked partitions %d", published, kept, started, len(w.blocked))

		switch now := int64(published+started) + passed; {
		case published == w.publisher.config.bets && passed == int64(published):
			return nil
		case now != before:
			moved, before = time.Now(), now
		case time.Since(moved) > patience+w.publisher.config.outage:
			return errStuck
		}
		if err := sleep(ctx, look); err != nil {
			return err
		}
	}
}

// see notices when a partition begins to be held, and when that is over.
func (w *watcher) see(partition restatestart.PartitionStatus) {
	number, before := partition.Partition, w.blocked[partition.Partition]
	now := partition.Blocked
	if !before.Since.IsZero() && (now == nil || now.Since != before.Since) {
		delete(w.blocked, number)
		w.screen.eventf("partition %d goes on, after %v", number, time.Since(before.Since).Round(look))
	}
	if now == nil {
		return
	}
	if now.Since != before.Since {
		w.holds++
		w.screen.eventf("partition %d blocked at %s: %s", number, partition.Position, reason(*now))
	}
	w.blocked[number] = *now
}

// reason is the first failed start, and how many there are beside it.
func reason(blocked restatestart.Blocked) string {
	if len(blocked.Failed) < 2 {
		return blocked.Error
	}
	return fmt.Sprintf("%s, and %d more", blocked.Failed[0], len(blocked.Failed)-1)
}
