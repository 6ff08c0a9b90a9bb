package restatestart_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

func TestC2ABlockedErrorThatNamesNothingUsableHoldsAll(t *testing.T) {
	t.Parallel()
	for name, failed := range map[string][]restatestart.FailedStart{
		"none":                     nil,
		"one that is not there":    {{EntryID: "9-9"}},
		"one of them is not there": {{EntryID: "2-0"}, {EntryID: "9-9"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.publish(0, keysOf(3)...)
			first := true
			handler := &recorder{fail: func([]restatestart.Message[claim]) error {
				if first {
					first = false
					return fmt.Errorf("wrapped: %w", &restatestart.BlockedError{Failed: failed})
				}
				return nil
			}}
			w.run(handler)
			pass(10 * time.Second)
			assert.Equal(t, []string{"k1 k2 k3", "k1 k2 k3"}, handler.handed(), name)
			require.NoError(t, w.stop())
		})
	}
}

func TestC4AnErrorOfTheHandlerFollowsThePolicy(t *testing.T) {
	t.Parallel()
	failing := func(batch []restatestart.Message[claim]) error {
		if batch[0].Value.Key == "bad" {
			return errBoom
		}
		return nil
	}
	panicking := func(batch []restatestart.Message[claim]) error {
		if batch[0].Value.Key == "bad" {
			panic(errBoom)
		}
		return nil
	}
	for name, fail := range map[string]func([]restatestart.Message[claim]) error{"an error": failing, "a panic": panicking} {
		run := func(t *testing.T, policy restatestart.ErrorPolicy) (*world, *recorder) {
			t.Helper()
			w := newWorld(t, 1)
			w.options.BatchSize, w.options.OnError = 1, policy
			w.publish(0, "a", "bad", "b")
			handler := &recorder{fail: fail}
			w.run(handler)
			pass(8 * time.Second)
			return w, handler
		}
		t.Run(name+" holds", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, handler := run(t, restatestart.ErrorHold)
				assert.Equal(t, []string{"a", "bad", "bad", "bad", "bad"}, handler.handed())
				assert.Equal(t, "handler", w.partition(0).Blocked.Cause)
				assert.Contains(t, w.partition(0).Blocked.Error, "boom")
				assert.Equal(t, "1-0", w.position(0))
				require.NoError(t, w.stop())
			})
		})
		t.Run(name+" is skipped", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, handler := run(t, restatestart.ErrorSkip)
				assert.Equal(t, []string{"a", "bad", "b"}, handler.handed())
				assert.Equal(t, "3-0", w.position(0))
				assert.Equal(t, int64(1), w.partition(0).Skipped)
				assert.Equal(t, 1, w.logged("batch skipped"))
				require.NoError(t, w.stop())
			})
		})
		t.Run(name+" stops the partition", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, handler := run(t, restatestart.ErrorStop)
				assert.Equal(t, []string{"a", "bad"}, handler.handed())
				assert.Equal(t, "1-0", w.position(0))
				assert.Equal(t, restatestart.StateStopped, w.partition(0).State)
				assert.Contains(t, w.partition(0).Error, "boom")
				assert.Equal(t, restatestart.StateRunning, w.consumer.Status().State)
				require.NoError(t, w.stop())
			})
		})
		t.Run(name+" fails the run", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, _ := run(t, restatestart.ErrorFail)
				err := <-w.result
				require.ErrorIs(t, err, errBoom)
				require.ErrorContains(t, err, "consumer payout of topic claims")
				assert.Equal(t, "1-0", w.position(0))
				assert.Contains(t, w.consumer.Status().Error, "boom")
				w.cancel()
			})
		})
	}
}

// Cancellation that is not the loop's own is an error like any other: nothing may pass for a shutdown.
func TestC4ACancellationOfTheHandlersOwnIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.publish(0, "a")
		handler := &recorder{fail: func([]restatestart.Message[claim]) error { return context.Canceled }}
		w.run(handler)
		pass(2 * time.Second)
		assert.Len(t, handler.handed(), 2)
		assert.Equal(t, "0-0", w.position(0))
		require.NoError(t, w.stop())
	})
}

func TestC5AMalformedEntryNeverTakesItsNeighboursAlong(t *testing.T) {
	t.Parallel()
	publish := func(w *world) {
		w.publish(0, "a")
		w.source.Add(0, "{bad")
		w.source.AddMalformed(0)
		w.publish(0, "b")
	}
	t.Run("hold", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			publish(w)
			handler := &recorder{}
			w.run(handler)
			pass(time.Minute)
			assert.Equal(t, []string{"a b"}, handler.handed(), "the neighbours are handed over, once")
			assert.Equal(t, "0-0", w.position(0))
			blocked := w.partition(0).Blocked
			assert.Equal(t, "malformed", blocked.Cause)
			assert.Equal(t, []string{"2-0", "3-0"}, blocked.Malformed)
			assert.Contains(t, blocked.Error, "2 malformed entries; 2-0: malformed entry: invalid character")
			assert.NotContains(t, blocked.Error, "bad", "the body is not in the error")
			require.NoError(t, w.stop())
		})
	})
	t.Run("skip", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.options.OnMalformed = restatestart.MalformedSkip
			publish(w)
			w.source.AddMalformed(0)
			handler := &recorder{}
			w.run(handler)
			pass(5 * time.Second)
			assert.Equal(t, []string{"a b"}, handler.handed())
			assert.Equal(t, "5-0", w.position(0))
			assert.Equal(t, int64(3), w.partition(0).Skipped)
			assert.Equal(t, 3, w.logged("malformed entry skipped"))
			assert.Equal(t, 1, w.logged("entry=2-0"))
			require.NoError(t, w.stop())
		})
	})
	t.Run("beside failed starts only those come again", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			publish(w)
			rounds := 0
			handler := &recorder{fail: func([]restatestart.Message[claim]) error {
				if rounds++; rounds < 3 {
					return &restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "4-0"}}}
				}
				return nil
			}}
			w.run(handler)
			pass(time.Minute)
			assert.Equal(t, []string{"a b", "b", "b"}, handler.handed())
			assert.Equal(t, []string{"2-0", "3-0"}, w.partition(0).Blocked.Malformed)
			assert.Equal(t, "0-0", w.position(0))
			require.NoError(t, w.stop())
		})
	})
	t.Run("a batch that is skipped cannot leave a malformed entry behind", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.options.OnError = restatestart.ErrorSkip
			publish(w)
			handler := &recorder{fail: func([]restatestart.Message[claim]) error { return errBoom }}
			w.run(handler)
			pass(2 * time.Second)
			assert.Equal(t, []string{"a b", "a b"}, handler.handed())
			assert.Equal(t, "0-0", w.position(0))
			require.NoError(t, w.stop())
		})
	})
}
