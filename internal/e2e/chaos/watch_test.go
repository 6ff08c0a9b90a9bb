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

const samplePause = 3 * time.Millisecond // between two samples of the positions

// watch samples the stored positions all the time.
type watch struct {
	*kit.Topic

	record   *check.Record
	sampling sync.Mutex // held over a sample: what was read first must be recorded first
}

func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		pause := samplePause
		if _, err := w.sample(ctx); err != nil {
			pause *= 10 // Redis is down
		}
		kit.Sleep(ctx, pause)
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

// entries reads a partition's stream, in pages.
func (w *watch) entries(ctx context.Context, partition int) (entries []check.Entry, err error) {
	const page = 1_000
	for from := "-"; ; {
		read, err := w.Client.XRangeN(ctx, w.Stream(partition), from, "+", page).Result()
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
