package stream_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/testkit"
)

func TestC7ReadErrorsAreRetriedWithBackoffAndLoggedEvery30Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0, 1)
		h.run()
		h.source.Fail(0, errors.New("UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"))
		before := h.source.Reads(0)
		testkit.Pass(10*time.Minute - time.Millisecond)
		assert.InDelta(t, 6+(600-31)/30, h.source.Reads(0)-before, 2)
		assert.InDelta(t, 20, h.log.Count("redis read failing"), 1, "one line in 30 s")
		status := h.status(0)
		assert.Equal(t, stream.StateBlocked, status.State)
		assert.Equal(t, stream.CauseRead, status.Blocked.Cause)
		require.ErrorContains(t, status.Blocked.Err, "UNBLOCKED")
		assert.InDelta(t, 600, time.Since(status.Blocked.Since).Seconds(), 2)
		assert.Equal(t, stream.StateIdle, h.status(1).State)

		h.source.Fail(0, nil)
		h.source.Add(0, "back")
		testkit.Pass(30 * time.Second)
		assert.Equal(t, []string{"0: back"}, h.deliveries())
		assert.Equal(t, 1, h.log.Count("redis read recovered"))
		assert.Equal(t, stream.StateIdle, h.status(0).State)
		h.stop()
	})
}

func TestC7AFlappingServerIsLoggedEvery30Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.run()
		for range 60 {
			h.source.Fail(0, io.ErrUnexpectedEOF)
			h.store.fail(io.ErrUnexpectedEOF)
			testkit.Pass(5 * time.Second)
			h.source.Fail(0, nil)
			h.store.fail(nil)
			testkit.Pass(5 * time.Second)
		}
		assert.InDelta(t, 20, h.log.Count("redis read failing"), 1)
		assert.InDelta(t, 20, h.log.Count("redis read recovered"), 1)
		assert.InDelta(t, 20, h.log.Count("position write failing"), 1)
		assert.InDelta(t, 20, h.log.Count("position write recovered"), 1)
		h.stop()
	})
}

func TestC7IdleReadsAreNoErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.Block = 200 * time.Millisecond
		h.run()
		testkit.Pass(10 * time.Minute)
		assert.Equal(t, stream.StateIdle, h.status(0).State)
		assert.Nil(t, h.status(0).Blocked)
		assert.Equal(t, 1, strings.Count(h.log.String(), "\n"), "that the stream does not exist yet, once:\n"+h.log.String())
		before := time.Now()
		h.source.Add(0, "x")
		synctest.Wait()
		assert.Equal(t, []string{"0: x"}, h.deliveries())
		assert.Zero(t, time.Since(before))
		h.stop()
	})
}

func TestC7ARunThatBeginsDuringAnOutageWaitsItOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.add(0, 1, 2)
		h.store.fail(io.ErrUnexpectedEOF)
		h.run()
		testkit.Pass(5 * time.Minute)
		assert.Empty(t, h.deliveries(), "it does not begin elsewhere while the position cannot be read")
		assert.Equal(t, stream.StateBlocked, h.status(0).State)
		h.store.fail(nil)
		testkit.Pass(31 * time.Second)
		assert.Equal(t, []string{"0: m1 m2"}, h.deliveries())
		h.stop()

		again := newHarness(t, 0)
		again.store.fail(io.ErrUnexpectedEOF)
		again.run()
		testkit.Pass(time.Minute)
		assert.Zero(t, again.stop())
	})
}

func TestAFailedPositionWriteIsRetriedAndVisible(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.run()
		h.store.fail(errors.New("READONLY You can't write against a read only replica."))
		h.add(0, 1, 2)
		testkit.Pass(5 * time.Minute)
		assert.Equal(t, []string{"0: m1", "0: m2"}, h.delivered(), "processing continues")
		assert.Equal(t, "2-0", h.status(0).Position.String())
		_, since, failing := h.loop.Status()
		require.ErrorContains(t, failing, "READONLY")
		assert.InDelta(t, 299, time.Since(since).Seconds(), 2)
		assert.InDelta(t, 10, h.log.Count("position write failing"), 1)

		h.store.fail(nil)
		testkit.Pass(31 * time.Second)
		assert.Equal(t, "2-0", h.position(0))
		_, _, failing = h.loop.Status()
		require.NoError(t, failing)
		assert.Equal(t, 1, h.log.Count("position write recovered"))
		h.stop()
	})
}
