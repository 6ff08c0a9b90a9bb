package chaos_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/wire"
)

// settleLimit is how long everything may take to be done once the faults are over, in each of two steps.
const settleLimit = time.Minute

// farewell adds one more message to each partition. A failover may have lost a position that the consumer knows to be
// written, or left it one that is ahead of the stream: it writes the next one with the next message only.
func (w *world) farewell() {
	ctx, cancel := mending(w.t.Context())
	defer cancel()
	for partition := range int(w.current.Load()) {
		if !w.sources[0].publish(ctx, partition, message{Name: fmt.Sprintf("last-%d", partition)}) {
			w.problem(fmt.Sprintf("the last message of partition %d is not acknowledged", partition))
		}
	}
}

// settle waits until the consumers have caught up and every invocation is over. When that does not come to pass, the
// record tells what is missing.
func (w *world) settle() {
	began := time.Now()
	defer func() {
		w.over = time.Now()
		w.settled = w.over.Sub(began)
	}()
	await := func(what string, done func(ctx context.Context) (bool, error)) {
		deadline := time.Now().Add(settleLimit)
		var last error
		for len(w.watch.found()) == 0 {
			finished, err := done(w.t.Context())
			if finished {
				return
			}
			if err != nil {
				last = err
			}
			if time.Now().After(deadline) {
				w.problem(fmt.Sprintf("%s: not within %s of the last fault (last error: %v)", what, settleLimit, last))
				return
			}
			rest(w.t.Context(), 50*time.Millisecond)
		}
	}
	await("the consumers catch up", w.caughtUp)
	await("every invocation is over", w.allOver)
}

// caughtUp tells that every position is the end of its stream.
func (w *world) caughtUp(ctx context.Context) (bool, error) {
	positions, err := w.watch.look(ctx)
	if err != nil {
		return false, err
	}
	for partition := range int(w.current.Load()) {
		entries, err := w.admin.XRevRangeN(ctx, w.keys.Stream(partition), "+", "-", 1).Result()
		if err != nil {
			return false, err
		}
		last := wire.ID{}
		if len(entries) > 0 {
			if last, err = wire.ParseID(entries[0].ID); err != nil {
				return false, err
			}
		}
		if positions[partition] != last {
			return false, fmt.Errorf("partition %d is at %s of %s", partition, positions[partition], last)
		}
	}
	return true, nil
}

// allOver tells that Restate has nothing left to do.
func (w *world) allOver(ctx context.Context) (bool, error) {
	counts, err := w.restate.CountByStatus(ctx, payout.Workflow)
	if err != nil {
		return false, err
	}
	delete(counts, "completed")
	if len(counts) > 0 {
		return false, fmt.Errorf("invocations are left: %v", counts)
	}
	return true, nil
}

// end is what everybody says once all is over.
func (w *world) end(ctx context.Context) (check.End, error) {
	end := check.End{Positions: map[int]wire.ID{}, Runs: w.payouts.Executions(), Inputs: map[string]check.Ref{}}
	for partition := range int(w.current.Load()) {
		entries, err := readStream(ctx, w.admin, w.keys, partition, "-", "+")
		if err != nil {
			return end, err
		}
		w.record.Replace(partition, entries)
	}
	var err error
	if end.Positions, err = w.watch.look(ctx); err != nil {
		return end, err
	}
	for _, source := range w.sources {
		acknowledged, _ := source.told()
		end.Acknowledged = append(end.Acknowledged, acknowledged...)
	}
	for key, input := range w.payouts.Inputs() {
		if end.Inputs[key], err = refOf(input); err != nil {
			return end, err
		}
	}
	end.Started, err = w.restate.StartedKeys(ctx, payout.Workflow)
	return end, err
}
