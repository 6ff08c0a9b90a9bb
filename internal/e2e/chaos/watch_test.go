package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/wire"
)

const (
	samplePause   = 3 * time.Millisecond   // between two samples of the positions
	checkInterval = 250 * time.Millisecond // between two checks of the record
)

// watch samples the stored positions all the time, and reads the streams up to them.
type watch struct {
	*kit.Topic

	record *check.Record
	live   bool // streams lose nothing, so that the record can be checked meanwhile

	sampling sync.Mutex // held over a sample: what was read first must be recorded first

	mu         sync.Mutex
	violations []check.Violation
}

// run watches until the context ends, or something is violated: it calls violated then.
func (w *watch) run(ctx context.Context, violated func()) {
	ends := make([]wire.ID, w.Partitions)
	checked := time.Now()
	for ctx.Err() == nil {
		positions, err := w.sample(ctx)
		if err != nil {
			kit.Sleep(ctx, 10*samplePause) // Redis is down
			continue
		}
		if w.live && time.Since(checked) > checkInterval {
			checked = time.Now()
			w.follow(ctx, positions, ends)
			if found := w.record.Live(); len(found) > 0 {
				w.mu.Lock()
				w.violations = found
				w.mu.Unlock()
				violated()
				return
			}
		}
		kit.Sleep(ctx, samplePause)
	}
}

// sample records the positions.
func (w *watch) sample(ctx context.Context) (map[int]wire.ID, error) {
	w.sampling.Lock()
	defer w.sampling.Unlock()
	// One after the other: a pipeline may read the positions last while a slot moves, and they would seem older than they
	// are.
	stored, err := w.Client.HGetAll(ctx, w.Positions(kit.ConsumerName)).Result()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	meta, err := w.Client.HGetAll(ctx, w.PositionsMeta(kit.ConsumerName)).Result()
	if err != nil {
		return nil, err
	}
	positions := make(map[int]wire.ID, w.Partitions)
	for partition := range w.Partitions {
		value, found := stored[wire.PositionField(partition)]
		if !found {
			continue
		}
		id, err := wire.ParsePosition(value)
		if err != nil {
			return nil, fmt.Errorf("position of partition %d: %w", partition, err)
		}
		// Zero when it is missing: the time of the sample counts then.
		written, _ := time.Parse(wire.TimeLayout, meta[fmt.Sprintf("%d:updatedUtc", partition)])
		w.record.Position(partition, id, written, now)
		positions[partition] = id
	}
	return positions, nil
}

// follow records what the streams hold up to the positions.
func (w *watch) follow(ctx context.Context, positions map[int]wire.ID, ends []wire.ID) {
	for partition, id := range positions {
		if id.Compare(ends[partition]) <= 0 {
			continue
		}
		entries, err := readStream(ctx, w.Topic, partition, "("+ends[partition].String(), id.String())
		if err != nil {
			continue // the next sample tries again
		}
		w.record.Append(partition, entries...)
		ends[partition] = id
	}
}

func (w *watch) found() []check.Violation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.violations
}

// readStream reads a part of a partition's stream, in pages.
func readStream(ctx context.Context, topic *kit.Topic, partition int, from, to string) (entries []check.Entry, err error) {
	const page = 1_000
	for {
		read, err := topic.Client.XRangeN(ctx, topic.Stream(partition), from, to, page).Result()
		if err != nil {
			return nil, err
		}
		for _, one := range read {
			id, err := wire.ParseID(one.ID)
			if err != nil {
				return nil, err
			}
			var bet kit.Bet
			if err := json.Unmarshal([]byte(wire.Decode(id, one.Values).Body), &bet); err != nil {
				return nil, fmt.Errorf("entry %s of partition %d: %w", one.ID, partition, err)
			}
			entries = append(entries, check.Entry{Ref: check.Ref{Partition: partition, ID: id}, Message: bet.ID, Key: bet.Claim})
		}
		if len(read) < page {
			return entries, nil
		}
		from = "(" + read[page-1].ID
	}
}
