package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redisevents/restatestart/redisstream"
)

const (
	pollInterval = 50 * time.Millisecond
	patience     = 30 * time.Second // without any progress, beside the outage
)

var errStuck = errors.New("not finished, and no progress any more")

// watcher reports the consumer's holds, and notices the end.
type watcher struct {
	status    func() redisstream.Status
	publisher *publisher
	ingress   ingress
	progress  *progress

	blocked map[int]redisstream.Blocked // by partition, those held now
	holds   int                         // of all partitions, so far
}

// watch returns nil when every bet is published and processed.
func (w *watcher) watch(ctx context.Context) error {
	advanced, before := time.Now(), int64(-1)
	for {
		var processed int64
		for _, partition := range w.status().Partitions {
			processed += partition.Processed
			w.observe(partition)
		}
		started := len(w.ingress.StartedKeys(workflow)) // first, so that it does not exceed the number of claims
		published, claims := w.publisher.counts()
		w.progress.reportf("published %d  claims %d  started %d  blocked partitions %d", published, claims, started, len(w.blocked))

		switch now := int64(published+started) + processed; {
		case published == w.publisher.config.bets && processed == int64(published):
			return nil
		case now != before:
			advanced, before = time.Now(), now
		case time.Since(advanced) > patience+w.publisher.config.outage:
			return errStuck
		}
		if err := sleep(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// observe reports the begin and the end of a hold.
func (w *watcher) observe(partition redisstream.PartitionStatus) {
	number, now := partition.Partition, partition.Blocked
	before, held := w.blocked[number]
	if held && (now == nil || now.Since != before.Since) {
		delete(w.blocked, number)
		w.progress.eventf("partition %d resumed after %v", number, time.Since(before.Since).Round(pollInterval))
	}
	if now == nil {
		return
	}
	if !held || now.Since != before.Since {
		w.holds++
		w.progress.eventf("partition %d blocked at %s: %s", number, partition.Position, reason(*now))
	}
	w.blocked[number] = *now
}

// reason is the first failed start and the number of others.
func reason(blocked redisstream.Blocked) string {
	if len(blocked.Failed) < 2 {
		return blocked.Error
	}
	return fmt.Sprintf("%s, and %d more", blocked.Failed[0], len(blocked.Failed)-1)
}

// result is the outcome of a run.
type result struct{ published, claims, started, duplicates, blocked, lost int }

// result compares what was published with what the ingress started. The consumer is not asked: it is what is tested.
func (w *watcher) result() result {
	published, claims := w.publisher.counts()
	started := w.ingress.StartedKeys(workflow)
	r := result{published: published, claims: claims, started: len(started), duplicates: w.ingress.Duplicates(), blocked: w.holds}
	for _, claim := range w.publisher.claims {
		if _, found := slices.BinarySearch(started, claim); !found {
			r.lost++
		}
	}
	return r
}

func (r result) String() string {
	return fmt.Sprintf("published=%d claims=%d started=%d duplicates=%d blocked=%d lost=%d",
		r.published, r.claims, r.started, r.duplicates, r.blocked, r.lost)
}
