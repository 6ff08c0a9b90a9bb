package stream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// A hold that a restart takes over is no start that is not over.
func TestC9APartitionThatIsHeldAtAGapHasStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.config.GapHold = true
		g.add(0, 1, 3)
		g.run()
		pass(10 * time.Second)
		g.end()
		g.add(0, 4, 10)
		g.source.Trim(0, 2)
		g.run()
		pass(time.Minute)
		assert.True(t, g.status(0).Read, "first run")
		g.restart()
		pass(time.Hour)
		assert.True(t, g.status(0).Read, "after a restart: /readyz stays 503 otherwise")
		g.end()
	})
}

func TestAResetOfAPartitionThatComesBackIsNotUndone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, 1)
		hold := false
		r.deliver = func(_ context.Context, p int, e []wire.Entry) stream.Verdict {
			if hold && p == 1 {
				return stream.Verdict{Action: stream.Hold, Remaining: e, Err: errors.New("held")}
			}
			return stream.Verdict{}
		}
		r.add(1, 1, 6)
		r.run()
		pass(5 * time.Second)
		require.Equal(t, "6-0", r.position(1))
		require.NoError(t, r.group.Assign(t.Context(), []int{0}))
		pass(5 * time.Second)
		hold = true
		r.source.Fail(1, errors.New("down"))
		r.store.RequestReset(1, "1-0|")
		require.NoError(t, r.group.Assign(t.Context(), []int{0, 1}))
		pass(5 * time.Minute)
		assert.Equal(t, "1-0", r.position(1))
		_, err := r.stop()
		require.NoError(t, err)
	})
}

func TestNothingIsSaidOfTrimmingAPartitionThatWasLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, 1)
		r.add(1, 1, 1000)
		r.config.BatchSize = 1000
		r.run()
		pass(20 * time.Second)
		require.Equal(t, "1000-0", r.position(1))
		require.NoError(t, r.group.Assign(t.Context(), []int{0}))
		for range 60 { // another instance reads it, and MAXLEN 1000 goes on
			r.add(1, 1, 100)
			r.source.Trim(1, 1000)
			pass(time.Second)
		}
		assert.Zero(t, r.log.count("trimming comes near"), r.log.String())
		_, err := r.stop()
		require.NoError(t, err)
	})
}

func TestC9AHoleThatIsBeingToldWhenTheRunEndsIsToldOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		tell := g.config.Gap
		g.config.Gap = func(ctx context.Context, p int, gap stream.Gap) {
			tell(ctx, p, gap)
			time.Sleep(500 * time.Millisecond) // an alert by HTTP
		}
		g.add(0, 1, 3)
		g.run()
		pass(10 * time.Second)
		g.end()
		g.add(0, 4, 10)
		g.source.Trim(0, 2)
		g.run()
		pass(100 * time.Millisecond)
		g.restart()
		assert.Len(t, g.gaps(), 1)
		g.end()
	})
}

// m1 is held, what is behind it is in memory, and trimmed meanwhile. A reset over m1 drops what is in memory.
func TestC9WhatWasReadAheadAndIsGoneAtAResetIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.config.BatchSize, g.config.ReadAhead = 1, 4
		g.deliver = func(_ context.Context, _ int, e []wire.Entry) stream.Verdict {
			if bodies(e) == "m1" {
				return stream.Verdict{Action: stream.Hold, Remaining: e, Cause: "starts", Err: errors.New("never")}
			}
			return stream.Verdict{}
		}
		g.add(0, 1, 4)
		g.run()
		pass(10 * time.Second)
		g.add(0, 5, 6)
		g.source.Trim(0, 2) // m1 to m4 are gone from the stream, and in memory
		pass(time.Minute)
		assert.Empty(t, g.gaps(), "all of them are in memory")
		g.store.RequestReset(0, "1-0|")
		pass(time.Minute)
		require.Len(t, g.gaps(), 1)
		assert.Equal(t, "trimmed behind 1-0 before 5-0: 3", g.gaps()[0])
		g.end()
	})
}

func TestC9WhatVanishesWhileAPartitionIsStoppedIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.config.BatchSize, g.config.ReadAhead = 1, 2
		g.deliver = func(_ context.Context, _ int, e []wire.Entry) stream.Verdict {
			if bodies(e) == "m1" {
				return stream.Verdict{Action: stream.Stop, Remaining: e, Cause: "handler", Err: errors.New("never")}
			}
			return stream.Verdict{}
		}
		g.add(0, 1, 20)
		g.run()
		pass(10 * time.Second)
		g.source.Trim(0, 2)
		pass(time.Hour)
		assert.NotEmpty(t, g.gaps(), "while stopped")
		g.store.RequestReset(0, "1-0|")
		pass(time.Minute)
		assert.NotEmpty(t, g.gaps(), "m2 to m18 vanished unread: position "+g.position(0))
		g.end()
	})
}
