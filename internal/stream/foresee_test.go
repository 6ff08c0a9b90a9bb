package stream_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// While a position stands, status and log tell when trimming reaches it, as soon as anything is trimmed.
func TestC9TrimmingIsForeseen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		const most = 10_000
		published := 0
		publish := func(entries int, while time.Duration) {
			for range int(while / time.Second) {
				for range entries {
					published++
					g.source.AddAt(0, wire.ID{Ms: uint64(published)}, "m")
				}
				g.source.Trim(0, most)
				pass(time.Second)
			}
		}
		g.config.BatchSize = 100
		g.run()
		publish(5, 30*time.Minute)
		assert.Nil(t, g.status(0).TrimIn, "it moves")
		g.hold(true)
		publish(5, time.Minute)
		assert.Nil(t, g.status(0).TrimIn, "nothing was trimmed yet, so nobody knows that anything ever will be")
		publish(5, 3*time.Minute)
		require.Equal(t, most, int(g.length()))

		publish(5, 10*time.Minute)
		behind := 5 * 14 * 60
		left := g.status(0).TrimIn
		require.NotNil(t, left)
		assert.InDelta(t, float64(most-behind)/5, left.Seconds(), 60)
		assert.Zero(t, g.log.count("trimming comes near"))
		publish(10, 2*time.Minute)
		assert.InDelta(t, float64(most-behind-1200)/10, g.status(0).TrimIn.Seconds(), 60, "by the rate as it is now")
		assert.InDelta(t, 4, g.log.count("trimming comes near"), 1, "once in 30 s")
		pass(2 * time.Minute)
		assert.Nil(t, g.status(0).TrimIn, "nothing comes any more")
		publish(10, 12*time.Minute)
		require.NotNil(t, g.status(0).TrimIn)
		assert.Zero(t, *g.status(0).TrimIn)
		g.hold(false)
		for before := g.status(0).Position; g.status(0).Position == before; {
			pass(100 * time.Millisecond)
		}
		assert.Nil(t, g.status(0).TrimIn, "as soon as it moves")
		pass(time.Minute)
		assert.Nil(t, g.status(0).TrimIn)
		lines := g.log.count("trimming comes near")
		publish(10, 10*time.Minute)
		pass(20 * time.Second)
		assert.Nil(t, g.status(0).TrimIn, "nothing is behind it")
		assert.Equal(t, lines, g.log.count("trimming comes near"))
		g.end()
	})
}

func (g *gapRig) length() int64 {
	tail, err := g.source.Tail(g.t.Context(), 0)
	require.NoError(g.t, err)
	return tail.Length
}

// A stream that was trimmed by hand, once, is not being trimmed.
func TestC9WhatWasTrimmedLongAgoIsNoForecast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.hold(true)
		g.run()
		for n := range 20 * 60 {
			g.add(0, 1, 2)
			if n == 60 {
				g.source.Trim(0, 80)
			}
			pass(time.Second)
			switch n {
			case 70, 600:
				assert.NotNil(t, g.status(0).TrimIn, "%d s", n)
			case 50, 680, 1190:
				assert.Nil(t, g.status(0).TrimIn, "%d s", n)
			}
		}
		g.end()
	})
}

// A stream that begins again is not taken for the one whose rate was measured.
func TestC9AStreamThatBeginsAgainHasNoForecast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.hold(true)
		g.run()
		for range 60 {
			g.add(0, 1, 10)
			g.source.Trim(0, 50)
			pass(time.Second)
		}
		require.NotNil(t, g.status(0).TrimIn)
		g.source.Drop(0)
		g.add(0, 1, 10)
		pass(20 * time.Second)
		assert.Nil(t, g.status(0).TrimIn)
		for range 180 {
			g.add(0, 1, 10)
			pass(time.Second)
		}
		assert.Nil(t, g.status(0).TrimIn, "nobody has trimmed this one")
		g.end()
	})
}

// A position that moves, though slowly, has no forecast.
func TestC9APositionThatMovesHasNoForecast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			time.Sleep(3 * time.Second)
			return stream.Verdict{}
		}
		g.run()
		for range 10 * 60 {
			g.add(0, 1, 4)
			g.source.Trim(0, 400)
			pass(time.Second)
			assert.Nil(t, g.status(0).TrimIn)
		}
		g.end()
	})
}
