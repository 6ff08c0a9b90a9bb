package stream_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestC1ThePositionMovesOnlyPastWhatIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 4)
		release := make(chan struct{})
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			<-release
			return stream.Verdict{}
		}
		r.run()
		pass(5 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3"}, r.deliveries())
		assert.Equal(t, "0-0", r.position(0), "read, and not done")

		release <- struct{}{}
		pass(5 * time.Second)
		assert.Equal(t, "3-0", r.position(0))
		release <- struct{}{}
		pass(5 * time.Second)
		assert.Equal(t, "4-0", r.position(0))
		_, err := r.stop()
		require.NoError(t, err)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m4"}, r.deliveries())
	})
}

func TestC2AHoldWaitsOneSecondDoublingToThirtyForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 3)
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			return stream.Verdict{Action: stream.Hold, Remaining: entries, Cause: "starts", Err: errors.New("down")}
		}
		r.run()
		pass(time.Hour)
		times := r.times()
		assert.Equal(t, []float64{0, 1, 3, 7, 15, 31, 61, 91, 121}, times[:9])
		for i := 8; i < len(times); i++ {
			assert.InDelta(t, 30, times[i]-times[i-1], 1e-9, "the wait neither grows nor ends")
		}
		assert.Len(t, times, 6+(3600-31)/30)
		assert.Equal(t, "0-0", r.position(0))
		took, _ := r.stop()
		assert.Less(t, took, 1100*time.Millisecond, "a sleep is no reason to stay")
	})
}

func TestC2OnlyWhatRemainsIsHandedOverAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 4)
		calls := 0
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			calls++
			switch calls {
			case 1:
				return stream.Verdict{Action: stream.Hold, Remaining: entries[1:], Err: errors.New("two failed")}
			case 2:
				return stream.Verdict{Action: stream.Hold, Remaining: entries[1:], Err: errors.New("one failed")}
			default:
				return stream.Verdict{}
			}
		}
		r.run()
		pass(10 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m2 m3", "0: m3", "0: m4"}, r.deliveries())
		assert.Equal(t, "4-0", r.position(0))
		_, _ = r.stop()
	})
}

func TestC2ALadderBeginsAnewWithEachHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.BatchSize = 1
		r.add(0, 1, 2)
		failures := map[string]int{"m1": 4, "m2": 2}
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if body := bodies(entries); failures[body] > 0 {
				failures[body]--
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			}
			return stream.Verdict{}
		}
		r.run()
		pass(time.Minute)
		assert.Equal(t, []float64{0, 1, 3, 7, 15, 15, 16, 18}, r.times())
		_, _ = r.stop()
	})
}

func TestS12ARetryAfterRaisesTheWaitUpToThirtySeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 1)
		asked := []time.Duration{20 * time.Second, time.Hour, time.Millisecond}
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if len(asked) == 0 {
				return stream.Verdict{}
			}
			wait := asked[0]
			asked = asked[1:]
			return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("busy"), RetryAfter: wait}
		}
		r.run()
		pass(2 * time.Minute)
		assert.Equal(t, []float64{0, 20, 50, 54}, r.times())
		_, _ = r.stop()
	})
}

func TestC3AHeldPartitionDelaysNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, 1, 2)
		r.add(0, 1, 50)
		r.deliver = func(ctx context.Context, partition int, entries []wire.Entry) stream.Verdict {
			switch partition {
			case 0:
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			case 1:
				<-ctx.Done() // slow
			}
			return stream.Verdict{}
		}
		r.run()
		r.source.Add(1, "slow")
		pass(20 * time.Second)
		before := time.Now()
		id := r.source.Add(2, "x")
		synctest.Wait()
		assert.Zero(t, time.Since(before), "handed over at once")
		pass(time.Second)
		assert.Equal(t, id.String(), r.position(2))
		assert.Equal(t, stream.Holding, r.status(0).State)
		assert.Equal(t, stream.Running, r.status(1).State)
		assert.Equal(t, stream.Idle, r.status(2).State)
		_, _ = r.stop()
	})
}

func TestC8FilteredEntriesAdvanceThePosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.Source = filtering{r.source}
		r.add(0, 1, 7)
		r.run()
		pass(2 * time.Second)
		assert.Equal(t, []string{"0: m2", "0: m4 m6"}, r.deliveries(), "and a page with nothing wanted is not handed over")
		assert.Equal(t, "7-0", r.position(0))
		assert.Equal(t, int64(7), r.status(0).Passed)
		assert.Equal(t, int64(3), r.status(0).Handed)
		assert.Zero(t, r.log.count("no message is of a type"))
		_, _ = r.stop()
	})
}

// filtering wants only entries with even ids.
type filtering struct{ *streamtest.Source }

func (f filtering) Read(ctx context.Context, partition int, ask stream.Ask) (stream.Answer, error) {
	answer, err := f.Source.Read(ctx, partition, ask)
	for i, page := range answer.Pages {
		answer.Pages[i].Entries = slices.DeleteFunc(page.Entries, func(entry wire.Entry) bool { return entry.ID.Ms%2 != 0 })
	}
	return answer, err
}

func TestC10NoMoreThanReadAheadBatchesAreInMemory(t *testing.T) {
	t.Parallel()
	for readAhead := 1; readAhead <= 8; readAhead++ {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			r.config.ReadAhead = readAhead
			source := &tally{Source: r.source}
			r.config.Source = source
			r.add(0, 1, 100)
			r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			}
			r.run()
			pass(time.Hour)
			_, _ = r.stop()
			assert.Equal(t, readAhead*r.config.BatchSize, source.entries)
		})
	}
}

// tally counts what was read, and notes how much each read that worked asked for.
type tally struct {
	*streamtest.Source

	entries int
	asked   []int
}

func (s *tally) Read(ctx context.Context, partition int, ask stream.Ask) (stream.Answer, error) {
	answer, err := s.Source.Read(ctx, partition, ask)
	if err == nil {
		s.entries += answer.Read()
		s.asked = append(s.asked, ask.Count)
	}
	return answer, err
}

// A read of several batches costs little more than one of a single batch: a reader that is behind asks for as many as it
// may have in memory.
func TestAReaderThatIsBehindAsksForSeveralBatchesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.ReadAhead, r.config.BatchSize = 4, 10
		source := &tally{Source: r.source}
		r.config.Source = source
		r.add(0, 1, 105)
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			time.Sleep(time.Second)
			return stream.Verdict{}
		}
		r.run()
		pass(time.Minute)
		assert.Equal(t, "105-0", r.position(0))
		assert.Len(t, r.deliveries(), 11)
		_, _ = r.stop()
		assert.Equal(t, []int{10, 30, 10}, source.asked[:3], "first one, as nobody knows how many there are; then what there is room for")
	})
}

// What a read was given room for and did not need is there for the next.
func TestRoomThatAReadDidNotNeedIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.ReadAhead, r.config.BatchSize = 4, 10
		source := &tally{Source: r.source}
		r.config.Source = source
		r.run()
		const outages = 5
		for burst := range outages {
			r.source.Fail(0, errors.New("down"))
			r.add(0, 15*burst+1, 15*burst+15)
			pass(time.Minute)
			r.source.Fail(0, nil)
			pass(time.Minute)
		}
		assert.Equal(t, "75-0", r.position(0))
		_, _ = r.stop()
		several := slices.DeleteFunc(source.asked, func(count int) bool { return count == 10 })
		assert.Len(t, several, outages, "one after each")
	})
}

// Large entries, or many of them, are not asked for at once: the answer is in memory beside what waits.
func TestAReadOfSeveralBatchesIsBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ batch, size, second int }{
		"large entries": {batch: 10, size: 30_000, second: 10},
		"middling ones": {batch: 10, size: 10_000, second: 20},
		"many":          {batch: 400, second: 800},
		"a large batch": {batch: 1500, second: 1500},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, 0)
			r.config.ReadAhead, r.config.BatchSize = 4, test.batch
			source := &tally{Source: r.source}
			r.config.Source = source
			body := strings.Repeat("x", test.size)
			for range 4 * test.batch {
				r.source.Add(0, body)
			}
			r.run()
			pass(time.Minute)
			_, _ = r.stop()
			assert.Equal(t, []int{test.batch, test.second}, source.asked[:2], name)
			assert.Equal(t, 4*test.batch, source.entries, name)
		})
	}
}
