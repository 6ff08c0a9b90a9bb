package chaos_test

import (
	"context"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
	"github.com/redisevents/restatestart/internal/wire"
)

// operatorActions are what people do to a topic while all else goes on.
func (w *world) operatorActions() {
	w.actions["operator grow"] = func(ctx context.Context, _ schedule.Fault) error {
		more := w.current.Load() + 1
		if more > int64(w.partitions+w.growth) {
			return nil
		}
		// Those who publish know of it before the consumers do.
		w.current.Store(more)
		return insist(ctx, "add a partition", func(ctx context.Context) error {
			return w.admin.HSet(ctx, w.keys.Meta(), wire.MetaPartitions, more).Err()
		})
	}
	w.actions["operator reset"] = func(ctx context.Context, fault schedule.Fault) error {
		const back = 20
		partition := fault.Choice % w.partitions
		return insist(ctx, "reset a position", func(ctx context.Context) error {
			stored, err := w.admin.HGet(ctx, w.keys.Positions(consumerName), wire.PositionField(partition)).Result()
			if err != nil {
				return err
			}
			position, err := wire.ParsePosition(stored)
			if err != nil {
				return err
			}
			before, err := w.admin.XRevRangeN(ctx, w.keys.Stream(partition), position.String(), "-", back).Result()
			if err != nil || len(before) == 0 {
				return err
			}
			target, err := wire.ParseID(before[len(before)-1].ID)
			if err != nil {
				return err
			}
			w.record.Reset(partition, target)
			return w.admin.HSet(ctx, w.keys.Positions(consumerName), wire.ResetField(partition), wire.FormatReset(target, time.Now())).Err()
		})
	}
}

// operators are those deeds.
var operators = schedule.Domain{
	Name:     "operator",
	Kinds:    []schedule.Kind{{Name: "grow"}, {Name: "reset"}},
	QuietMin: 4 * time.Second, QuietMax: 12 * time.Second,
}
