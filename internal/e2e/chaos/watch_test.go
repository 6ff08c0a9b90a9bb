package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/wire"
)

// watch looks at the stored positions all along, and at what the streams hold.
type watch struct {
	record     *check.Record
	client     redis.UniversalClient
	keys       wire.Keys
	partitions int
	live       bool // what a stream holds it will hold for ever, so that it can be told at once

	looking sync.Mutex // held over a look: what was read first must be noted first

	mu         sync.Mutex
	violations []check.Violation
}

const (
	// watchPause is between two looks at the positions.
	watchPause = 3 * time.Millisecond
	// liveInterval is between two looks at what that means.
	liveInterval = 250 * time.Millisecond
)

// run watches until the context ends, or something is broken: it calls broken then.
func (w *watch) run(ctx context.Context, broken func()) {
	ends := make([]wire.ID, w.partitions)
	looked := time.Now()
	for ctx.Err() == nil {
		positions, err := w.look(ctx)
		if err != nil {
			rest(ctx, 10*watchPause) // Redis is away
			continue
		}
		if w.live && time.Since(looked) > liveInterval {
			looked = time.Now()
			w.follow(ctx, positions, ends)
			if found := w.record.Live(); len(found) > 0 {
				w.mu.Lock()
				w.violations = append(w.violations, found...)
				w.mu.Unlock()
				broken()
				return
			}
		}
		rest(ctx, watchPause)
	}
}

// look notes the positions.
func (w *watch) look(ctx context.Context) (map[int]wire.ID, error) {
	w.looking.Lock()
	defer w.looking.Unlock()
	// One after the other: were the position the later one, as it can be in a pipeline while a slot moves, it would
	// seem older than it is.
	stored, err := w.client.HGetAll(ctx, w.keys.Positions(consumerName)).Result()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	meta, err := w.client.HGetAll(ctx, w.keys.PositionsMeta(consumerName)).Result()
	if err != nil {
		return nil, err
	}
	positions := make(map[int]wire.ID, w.partitions)
	for partition := range w.partitions {
		value, found := stored[wire.PositionField(partition)]
		if !found {
			continue
		}
		id, err := wire.ParsePosition(value)
		if err != nil {
			return nil, fmt.Errorf("position of partition %d: %w", partition, err)
		}
		// Zero when it is missing: the time of the look counts then.
		written, _ := time.Parse(wire.TimeLayout, meta[fmt.Sprintf("%d:updatedUtc", partition)])
		w.record.Position(partition, id, written, now)
		positions[partition] = id
	}
	return positions, nil
}

// follow tells what the streams hold up to the positions.
func (w *watch) follow(ctx context.Context, positions map[int]wire.ID, ends []wire.ID) {
	for partition, id := range positions {
		if id.Compare(ends[partition]) <= 0 {
			continue
		}
		entries, err := readStream(ctx, w.client, w.keys, partition, "("+ends[partition].String(), id.String())
		if err != nil {
			continue // the next look has another try
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
func readStream(ctx context.Context, client redis.UniversalClient, keys wire.Keys, partition int, from, to string) ([]check.Entry, error) {
	const page = 1_000
	var entries []check.Entry
	for {
		read, err := client.XRangeN(ctx, keys.Stream(partition), from, to, page).Result()
		if err != nil {
			return nil, err
		}
		for _, one := range read {
			id, err := wire.ParseID(one.ID)
			if err != nil {
				return nil, err
			}
			var m message
			if err := json.Unmarshal([]byte(wire.Decode(id, one.Values).Body), &m); err != nil {
				return nil, fmt.Errorf("entry %s of partition %d: %w", one.ID, partition, err)
			}
			entries = append(entries, check.Entry{Ref: check.Ref{Partition: partition, ID: id}, Message: m.Name, Key: m.Claim})
		}
		if len(read) < page {
			return entries, nil
		}
		from = "(" + read[page-1].ID
	}
}
