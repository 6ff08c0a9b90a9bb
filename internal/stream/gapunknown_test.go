package stream_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestC9AServerThatRestartsItsCountIsNoGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 10)
		h.run()
		testkit.Pass(10 * time.Second)
		h.source.Trim(0, 5)
		h.source.StopCounting()
		testkit.Pass(10 * time.Second)
		h.add(0, 11, 12)
		testkit.Pass(10 * time.Second)
		h.source.StartCounting(0)
		testkit.Pass(10 * time.Second)
		assert.Empty(t, h.reportedGaps())
		h.hold(true)
		h.add(0, 13, 30)
		h.source.Trim(0, 3)
		testkit.Pass(10 * time.Second)
		assert.NotEmpty(t, h.reportedGaps())
		h.stop()
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
				h := newHarness(t, 0)
				h.add(0, 1, 20)
				h.source.Trim(0, 10)
				h.source.Delete(0, wire.ID{Ms: 17})
				h.setPosition(0, position)
				h.run()
				testkit.Pass(time.Minute)
				assert.Empty(t, h.reportedGaps())
				assert.Equal(t, position.Ms == 25, h.log.Count("position is ahead of the stream") == 1)
				h.add(0, 21, 30)
				testkit.Pass(time.Minute)
				h.restart()
				assert.Empty(t, h.reportedGaps())
				h.stop()
				if position.Ms < 25 {
					h.add(0, 31, 40)
					h.source.Trim(0, 3)
					h.run()
					testkit.Pass(time.Minute)
					assert.Equal(t, []string{"trimmed behind 30-0 before 38-0: 7"}, h.reportedGaps(), "from then on it is known")
					h.stop()
				}
			})
		})
	}
}

func TestC9APositionThatAnotherProgramMovedRestartsTheCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 5)
		h.run()
		testkit.Pass(10 * time.Second)
		h.stop()
		h.add(0, 6, 20)
		h.setPosition(0, wire.ID{Ms: 12})
		h.source.Trim(0, 8)
		h.run()
		testkit.Pass(time.Minute)
		assert.Empty(t, h.reportedGaps())
		assert.Equal(t, "20-0", h.position(0))
		h.stop()
	})
}

func TestC9AServerThatDoesNotCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.source.StopCounting()
		h.add(0, 1, 10)
		h.run()
		testkit.Pass(10 * time.Second)
		h.stop()
		h.add(0, 11, 20)
		h.source.Trim(0, 5)
		h.run()
		testkit.Pass(time.Minute)
		assert.Empty(t, h.reportedGaps())
		h.source.Drop(0)
		testkit.Pass(time.Minute)
		assert.Equal(t, []string{"gone behind 20-0"}, h.reportedGaps())
		h.restart()
		h.add(0, 1, 5)
		testkit.Pass(time.Minute)
		h.restart()
		assert.Equal(t, []string{"gone behind 20-0", "ahead behind 20-0"}, h.reportedGaps())
		h.add(0, 6, 25)
		testkit.Pass(time.Minute)
		assert.Equal(t, "25-0", h.position(0))
		assert.Len(t, h.reportedGaps(), 2)
		h.stop()
	})
}

func TestC9ARunThatBeginsElsewhereRestartsTheCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 10)
		h.run()
		testkit.Pass(10 * time.Second)
		h.stop()
		h.source.Trim(0, 4)
		h.config.Start = func(context.Context, int, position.Stored, bool) (wire.ID, error) { return wire.ID{}, nil }
		h.run()
		testkit.Pass(10 * time.Second)
		assert.Empty(t, h.reportedGaps())
		assert.Len(t, h.delivered(), 10+4)
		h.stop()
	})
}
