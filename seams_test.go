package restatestart_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/restatetest"
)

// A stream that is gone, or ends below the position, holds with GapHold until a reset to where the position is.
func TestAPositionAheadOfItsStreamCanBeResetToWhereItIs(t *testing.T) {
	t.Parallel()
	server, _, positions := positionsOn(t)
	server.HSet("p:{claims}:payout", "0", "500-0|"+svc0)
	_, err := positions.Reset(t.Context(), 0, restatestart.ToID("500-0"))
	require.NoError(t, err, "the stream is gone")
	addEntries(t, server, 0, 1, 3)
	_, err = positions.Reset(t.Context(), 0, restatestart.ToID("500-0"))
	require.NoError(t, err, "the stream ends below it")
}

// In a rolling deploy two processes may be one writer, by the instance's index. The reset that one of them has taken is not
// undone by what the other, which is idle, writes again.
func TestAResetIsNotUndoneByAnotherProcessOfTheSameWriter(t *testing.T) {
	t.Setenv("STREAMS_INSTANCE_INDEX", "0")
	t.Setenv("STREAMS_INSTANCE_COUNT", "1")
	server, client := redisWorld(t, &redis.Options{PoolSize: 20})
	positions, err := restatestart.NewPositions(client, "claims", restatestart.PositionsOptions{Consumer: "payout"})
	require.NoError(t, err)
	addEntries(t, server, 0, 1, 500)
	var hold atomic.Bool
	start := func(interval time.Duration) func() {
		c, err := restatestart.NewConsumer(client, "claims", func([]byte) (claim, error) { return claim{}, nil },
			restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error {
				if hold.Load() {
					return errors.New("down")
				}
				return nil
			}), restatestart.ConsumerOptions{Consumer: "payout", Block: 10 * time.Millisecond, PersistInterval: interval})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = c.Run(ctx) }()
		return func() { cancel(); <-done }
	}
	stopOld := start(time.Second)
	stopNew := start(20 * time.Millisecond)
	require.Eventually(t, func() bool { return strings.HasPrefix(server.HGet("p:{claims}:payout", "0"), "500-0") }, 5*time.Second, 10*time.Millisecond)
	time.Sleep(1500 * time.Millisecond) // real time, since there is a Redis: the old one has written too
	hold.Store(true)
	_, err = positions.Reset(t.Context(), 0, restatestart.ToID("100-0"))
	require.NoError(t, err)
	time.Sleep(2500 * time.Millisecond) // two of its ticks
	got := server.HGet("p:{claims}:payout", "0")
	stopOld()
	stopNew()
	assert.Equal(t, "100-0", got[:5], "nothing behind 100-0 was accepted since the reset")
}

// What was discarded before the position had passed it is parked again when a reset makes it come again.
func TestC5ADiscardedEntryThatAResetBringsBackIsParkedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, fake := parking(t, "bad", "held")
		fake.Script("bad", restatetest.Status(400, "no").Always())
		fake.Script("held", restatetest.Status(404, "no").Times(6))
		w.run(once(t, fake))
		pass(2 * time.Second)
		require.Equal(t, []string{"1-0 rejected"}, w.parkedIDs())
		require.Equal(t, "0-0", w.position(0), "held by the other")
		require.NoError(t, w.consumer.Discard(t.Context(), w.parkedEntries()[0].ID))
		pass(10 * time.Minute)
		require.Equal(t, "2-0", w.position(0), "passed")
		w.store.RequestReset(0, "0-0|later")
		pass(10 * time.Minute)
		assert.Equal(t, "2-0", w.position(0))
		assert.Equal(t, []string{"1-0 rejected"}, w.parkedIDs(), "neither accepted nor parked, and passed")
		require.NoError(t, w.stop())
	})
}

// lostAnswer parks, and says that it failed, once.
type lostAnswer struct {
	*parked.Memory
	lose atomic.Bool
}

func (s *lostAnswer) Park(ctx context.Context, p int, parkings []parked.Parking) ([]wire.ID, error) {
	ids, err := s.Memory.Park(ctx, p, parkings)
	if s.lose.CompareAndSwap(true, false) {
		return nil, errors.New("EOF")
	}
	return ids, err
}

func TestC5AParkingWhoseAnswerWasLostIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		w.options.OnMalformed = restatestart.MalformedPark
		w.source.AddMalformed(0)
		store := &lostAnswer{Memory: w.parked.Memory}
		store.lose.Store(true)
		w.options.Logger = w.logger()
		consumer, err := restatestart.NewConsumerOn(restatestart.Backend{Source: w.source, Store: w.store, Meta: w.meta, Parked: store},
			"claims", restatestart.JSON[claim], restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error { return nil }), w.options)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- consumer.Run(ctx) }()
		pass(time.Minute)
		assert.Contains(t, telemetry.metrics(t), "streams.parked{consumer=payout,event=parked,partition=0,topic=claims} total 1")
		assert.Equal(t, 1, w.logged(`level=ERROR msg="entry parked"`))
		cancel()
		require.NoError(t, <-done)
	})
}
