package stream_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestResetsAreHonouredWhileRunning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 6)
		r.run()
		pass(5 * time.Second)
		require.Equal(t, "6-0", r.position(0))
		r.store.RequestReset(0, "2-0|2026-09-06T11:22:33.4440000+00:00")
		pass(5 * time.Second)
		assert.Equal(t, []string{"0: m1", "0: m2", "0: m3", "0: m4", "0: m5", "0: m6", "0: m3", "0: m4", "0: m5", "0: m6"}, splitDeliveries(r.deliveries()))
		assert.Equal(t, "6-0", r.position(0))
		r.store.RequestReset(0, "5-0|forward and back are the same")
		pass(5 * time.Second)
		assert.Len(t, splitDeliveries(r.deliveries()), 11)
		_, _ = r.stop()
	})
}

func TestAResetEndsAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.BatchSize = 1
		r.add(0, 1, 4)
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if bodies(entries) == "m2" {
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("never")}
			}
			return stream.Verdict{}
		}
		r.run()
		pass(100 * time.Second)
		require.Equal(t, "1-0", r.position(0))
		r.store.RequestReset(0, "2-0")
		pass(3 * time.Second)
		assert.Equal(t, "4-0", r.position(0), "the operator stepped over it")
		assert.Equal(t, stream.Idle, r.status(0).State)
		_, _ = r.stop()
	})
}

// What was in hand when the reset came is not recorded after it, and what was read ahead is not handed over.
func TestAResetIsNotOverrunByWhatWasInHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 9)
		first := true
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			if first {
				first = false
				time.Sleep(10 * time.Second)
			}
			return stream.Verdict{}
		}
		r.run()
		r.store.RequestReset(0, "7-0")
		pass(9 * time.Second)
		assert.Equal(t, "0-0", r.position(0))
		pass(5 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m8 m9"}, r.deliveries())
		assert.Equal(t, "9-0", r.position(0))
		_, _ = r.stop()
	})
}

func TestAResetBackwardsIsNotOverrunByWhatWasInHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 9)
		done := 0
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			switch done++; {
			case done < 3:
				return stream.Verdict{}
			case done == 3:
				time.Sleep(10 * time.Second)
				return stream.Verdict{}
			default:
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			}
		}
		r.run()
		pass(2 * time.Second)
		require.Equal(t, "6-0", r.position(0))
		r.store.RequestReset(0, "1-0")
		pass(30 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m4 m5 m6", "0: m7 m8 m9", "0: m2 m3 m4"}, r.deliveries()[:4])
		assert.Equal(t, "1-0", r.position(0))
		_, _ = r.stop()
		assert.Equal(t, "1-0", r.position(0))
	})
}

// A position that was recorded and not yet written when the reset came is forgotten.
func TestAResetIsNotOverrunByWhatWasRecorded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 6)
		var hold atomic.Bool
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			if hold.Load() {
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			}
			return stream.Verdict{}
		}
		r.run()
		pass(500 * time.Millisecond)
		require.Equal(t, "6-0", r.status(0).Position.String())
		require.Equal(t, "0-0", r.position(0), "not written yet")
		hold.Store(true)
		r.store.RequestReset(0, "2-0")
		pass(10 * time.Second)
		assert.Equal(t, "2-0", r.position(0))
		_, _ = r.stop()
		assert.Equal(t, "2-0", r.position(0))
	})
}

func TestAResetWaitsForTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		failing := &failingReset{store: r.store, failures: 3}
		r.config.Store = failing
		r.add(0, 1, 3)
		r.run()
		pass(2 * time.Second)
		r.store.RequestReset(0, "1-0")
		pass(20 * time.Second)
		assert.Equal(t, []string{"0: m1", "0: m2", "0: m3", "0: m2", "0: m3"}, splitDeliveries(r.deliveries()))
		assert.Equal(t, "3-0", r.position(0))
		_, _ = r.stop()
	})
}

type failingReset struct {
	*store
	failures int
}

func (f *failingReset) ApplyReset(ctx context.Context, partition int, reset position.Reset) (bool, error) {
	if f.failures > 0 {
		f.failures--
		return false, io.ErrUnexpectedEOF
	}
	return f.store.ApplyReset(ctx, partition, reset)
}

func TestAResetIsHonouredAtStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, 1)
		_, err := r.store.Save(t.Context(), []position.Write{{Partition: 0, ID: wire.ID{Ms: 3}}, {Partition: 1, ID: wire.ID{Ms: 3}}})
		require.NoError(t, err)
		r.store.RequestReset(0, "1-0|whenever")
		r.store.RequestReset(7, "1-0|of a partition that is somebody else's")
		r.add(0, 1, 3)
		r.add(1, 1, 3)
		r.run()
		pass(2 * time.Second)
		assert.Equal(t, []string{"0: m2 m3"}, r.deliveries())
		assert.Equal(t, "3-0", r.position(0))
		others, err := r.store.Load(t.Context(), []int{7})
		require.NoError(t, err)
		assert.NotNil(t, others[0].Reset)
		_, _ = r.stop()
	})
}

// A reset that was withdrawn before it was applied moves nothing, and hands nothing over again.
func TestAResetThatWasWithdrawnMovesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 9)
		done := 0
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			if done++; done == 2 {
				time.Sleep(10 * time.Second)
			}
			return stream.Verdict{}
		}
		r.run()
		r.store.RequestReset(0, "7-0")
		pass(5 * time.Second)
		r.store.WithdrawReset(0)
		pass(20 * time.Second)
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m4 m5 m6", "0: m7 m8 m9"}, r.deliveries())
		assert.Equal(t, "9-0", r.position(0))
		assert.Equal(t, 1, r.log.count("position reset withdrawn"))
		_, _ = r.stop()
	})
}

// A reset that another one has replaced gives way to it.
func TestAResetThatWasReplacedGivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 9)
		first := true
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			if first {
				first = false
				time.Sleep(10 * time.Second)
			}
			return stream.Verdict{}
		}
		r.run()
		r.store.RequestReset(0, "7-0")
		pass(5 * time.Second)
		applied, err := r.store.ApplyReset(t.Context(), 0, position.Reset{Target: wire.ID{Ms: 7}, Value: "7-0"})
		require.NoError(t, err)
		require.True(t, applied)
		r.store.RequestReset(0, "1-0") // and another one in its place
		pass(20 * time.Second)
		assert.Equal(t, "9-0", r.position(0))
		assert.Equal(t, []string{"0: m1 m2 m3", "0: m2 m3 m4", "0: m5 m6 m7", "0: m8 m9"}, r.deliveries(), "the one in its place counts")
		_, _ = r.stop()
	})
}

// A reset that was applied, and whose answer was lost, is not overrun by what was recorded before it.
func TestAResetWhoseAnswerWasLostIsNotUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.config.Store = &lostAnswer{store: r.store}
		r.add(0, 1, 6)
		done := 0
		r.deliver = func(_ context.Context, _ int, entries []wire.Entry) stream.Verdict {
			switch done++; {
			case done == 2:
				time.Sleep(10 * time.Second)
				return stream.Verdict{}
			case done > 2:
				return stream.Verdict{Action: stream.Hold, Remaining: entries, Err: errors.New("down")}
			}
			return stream.Verdict{}
		}
		r.run()
		pass(2 * time.Second)
		r.store.RequestReset(0, "1-0")
		pass(30 * time.Second)
		assert.Equal(t, "1-0", r.position(0))
		assert.Equal(t, "0: m2 m3 m4", r.deliveries()[2])
		_, _ = r.stop()
		assert.Equal(t, "1-0", r.position(0))
	})
}

// lostAnswer applies a first reset and says that it could not.
type lostAnswer struct {
	*store

	lost bool
}

func (l *lostAnswer) ApplyReset(ctx context.Context, partition int, reset position.Reset) (bool, error) {
	applied, err := l.store.ApplyReset(ctx, partition, reset)
	if !l.lost {
		l.lost = true
		return false, io.ErrUnexpectedEOF
	}
	return applied, err
}
