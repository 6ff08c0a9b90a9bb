package stream_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestC9AServerThatCountsAnewIsNoHole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.add(0, 1, 10)
		g.run()
		pass(10 * time.Second)
		g.source.Trim(0, 5)
		g.source.StopCounting()
		pass(10 * time.Second)
		g.add(0, 11, 12)
		pass(10 * time.Second)
		g.source.StartCounting(0)
		pass(10 * time.Second)
		assert.Empty(t, g.gaps())
		g.hold(true)
		g.add(0, 13, 30)
		g.source.Trim(0, 3)
		pass(10 * time.Second)
		assert.NotEmpty(t, g.gaps())
		g.end()
	})
}

func TestC9WhatCannotBeKnownIsNotReported(t *testing.T) {
	t.Parallel()
	for name, position := range map[string]wire.ID{
		"in the middle": {Ms: 15}, "before what is left": {Ms: 5}, "at the end": {Ms: 20}, "ahead of it": {Ms: 25}, "nowhere": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGapRig(t)
				g.add(0, 1, 20)
				g.source.Trim(0, 10)
				g.source.Delete(0, wire.ID{Ms: 17})
				g.foreign(position)
				g.run()
				pass(time.Minute)
				assert.Empty(t, g.gaps())
				assert.Equal(t, position.Ms == 25, g.log.count("position is ahead of the stream") == 1)
				g.add(0, 21, 30)
				pass(time.Minute)
				g.restart()
				assert.Empty(t, g.gaps())
				g.end()
				if position.Ms < 25 {
					g.add(0, 31, 40)
					g.source.Trim(0, 3)
					g.run()
					pass(time.Minute)
					assert.Equal(t, []string{"trimmed behind 30-0 before 38-0: 7"}, g.gaps(), "from then on it is known")
					g.end()
				}
			})
		})
	}
}

// foreign writes a position as another program does.
func (g *gapRig) foreign(id wire.ID) {
	_, err := g.store.Save(g.t.Context(), []position.Write{{Partition: 0, ID: id}})
	require.NoError(g.t, err)
}

func TestC9APositionThatAnotherProgramMovedIsCountedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.add(0, 1, 5)
		g.run()
		pass(10 * time.Second)
		g.end()
		g.add(0, 6, 20)
		g.foreign(wire.ID{Ms: 12})
		g.source.Trim(0, 8)
		g.run()
		pass(time.Minute)
		assert.Empty(t, g.gaps())
		assert.Equal(t, "20-0", g.position(0))
		g.end()
	})
}

func TestC9AServerThatDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.source.StopCounting()
		g.add(0, 1, 10)
		g.run()
		pass(10 * time.Second)
		g.end()
		g.add(0, 11, 20)
		g.source.Trim(0, 5)
		g.run()
		pass(time.Minute)
		assert.Empty(t, g.gaps())
		g.source.Drop(0)
		pass(time.Minute)
		assert.Equal(t, []string{"gone behind 20-0"}, g.gaps())
		g.restart()
		g.add(0, 1, 5)
		pass(time.Minute)
		g.restart()
		assert.Equal(t, []string{"gone behind 20-0", "ahead behind 20-0"}, g.gaps())
		g.add(0, 6, 25)
		pass(time.Minute)
		assert.Equal(t, "25-0", g.position(0))
		assert.Len(t, g.gaps(), 2)
		g.end()
	})
}

// What is found while what was known before is being written is written too.
func TestC9AReportDuringAWriteIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.config.Store = slow{g.store}
		g.config.PersistInterval = sampleTime - 50*time.Millisecond // its write takes 100 ms
		g.hold(true)
		g.add(0, 1, 20)
		g.run()
		g.source.Trim(0, 3)
		pass(sampleTime + time.Second)
		require.Equal(t, []string{"trimmed behind 6-0 before 18-0: 11"}, g.gaps())
		g.restart()
		assert.Equal(t, []string{"trimmed behind 6-0 before 18-0: 11", "trimmed behind 0-0 before 18-0: 6"}, g.gaps())
		g.end()
	})
}

// sampleTime is the time between two looks of a held reader.
const sampleTime = 5 * time.Second

// A run that begins elsewhere than at the stored position counts anew.
func TestC9ARunThatBeginsElsewhereCountsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGapRig(t)
		g.add(0, 1, 10)
		g.run()
		pass(10 * time.Second)
		g.end()
		g.source.Trim(0, 4)
		g.config.Start = func(context.Context, int, position.Stored, bool) (wire.ID, error) { return wire.ID{}, nil }
		g.run()
		pass(10 * time.Second)
		assert.Empty(t, g.gaps())
		assert.Len(t, splitDeliveries(g.deliveries()), 10+4)
		g.end()
	})
}
