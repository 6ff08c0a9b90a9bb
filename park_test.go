package restatestart_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

// parking is a world of one partition that parks whatever it may, and a fake ingress that says no for longer than tests last.
func parking(t *testing.T, keys ...string) (*world, *restatetest.Server) {
	t.Helper()
	w := newWorld(t, 1)
	w.options.OnRejected, w.options.OnMalformed = restatestart.RejectedPark, restatestart.MalformedPark
	w.publish(0, keys...)
	return w, restatetest.New(t)
}

// once is the Starter of a test in which a start has one attempt.
func once(t *testing.T, fake *restatetest.Server) *restatestart.Starter[claim] {
	t.Helper()
	return starterOn(t, fake, nil, restatestart.Options{MaxAttempts: 1})
}

func TestC5AMalformedEntryIsParkedAndItsNeighboursAreHandled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _ := parking(t, "a")
		w.source.Add(0, `{"secret`)
		w.source.AddMalformed(0)
		w.publish(0, "b")
		handler := &recorder{}
		w.run(handler)
		pass(2 * time.Second)
		assert.Equal(t, []string{"a b"}, handler.handed())
		assert.Equal(t, "4-0", w.position(0))
		assert.Equal(t, []string{"2-0 malformed", "3-0 malformed"}, w.parkedIDs())
		body, found := w.parkedEntries()[0].Body()
		assert.True(t, found)
		assert.Equal(t, `{"secret`, string(body))
		_, found = w.parkedEntries()[1].Body()
		assert.False(t, found)
		assert.Equal(t, `malformed entry: there is no field "b"`, w.parkedEntries()[1].Text)
		status := w.partition(0)
		assert.Equal(t, []int64{4, 4, 0, 2}, []int64{status.Passed, status.Handed, status.Skipped, status.Parked})
		assert.Equal(t, 2, w.logged(`level=ERROR msg="entry parked"`))
		assert.Equal(t, 1, w.logged("partition=0 entry=2-0 parked="+w.parkedEntries()[0].ID+" reason=malformed"))
		assert.Zero(t, w.logged("secret"), "the body is in no log")
		require.NoError(t, w.stop())
	})
}

func TestC5WhatTheIngressRefusesForGoodIsParkedAndNothingElse(t *testing.T) {
	t.Parallel()
	parks := map[int]bool{400: true, 405: true, 413: true, 414: true, 422: true, 431: true}
	for _, status := range []int{302, 307, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 413, 414, 415, 422, 425, 429, 431, 451, 500, 501, 502, 503, 504} {
		synctest.Test(t, func(t *testing.T) {
			w, fake := parking(t, "good1", "bad", "good2")
			fake.Script("bad", restatetest.Status(status, "no").Always())
			w.run(once(t, fake))
			pass(900 * time.Millisecond)
			assert.Empty(t, w.parkedIDs(), "%d, handed over once", status)
			assert.Equal(t, restatestart.StateBlocked, w.partition(0).State)
			pass(time.Hour)
			assert.Equal(t, 1, fake.Attempts("good1"))
			assert.Equal(t, 1, fake.Attempts("good2"))
			if !parks[status] {
				assert.Empty(t, w.parkedIDs(), status)
				assert.Equal(t, "0-0", w.position(0))
				assert.Greater(t, fake.Attempts("bad"), 100)
				require.NoError(t, w.stop())
				return
			}
			assert.Equal(t, 2, fake.Attempts("bad"), status)
			assert.Equal(t, "3-0", w.position(0), status)
			entries := w.parkedEntries()
			require.Len(t, entries, 1, status)
			assert.Equal(t, restatestart.ParkedEntry{
				ID: entries[0].ID, Stream: "s:{claims}:0", EntryID: "2-0", Reason: restatestart.ReasonRejected, Status: status,
				Text: fmt.Sprintf("%d: no", status), Workflow: "Payout", Key: "bad", ParkedAt: entries[0].ParkedAt, Trimmed: true,
				Fields: entries[0].Fields,
			}, entries[0])
			assert.Equal(t, int64(1), w.partition(0).Parked)
			assert.Equal(t, 1, w.logged(fmt.Sprintf("reason=rejected status=%d workflow=Payout key=bad", status)))
			require.NoError(t, w.stop())
		})
	}
}

func TestC5NothingIsParkedUnlessThePoliciesSaySo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, fake := parking(t, "bad")
		w.source.AddMalformed(0)
		w.options.OnRejected, w.options.OnMalformed = restatestart.RejectedHold, restatestart.MalformedHold
		fake.Script("bad", restatetest.Status(http.StatusBadRequest).Always())
		w.run(once(t, fake))
		pass(time.Hour)
		assert.Empty(t, w.parkedIDs())
		assert.Equal(t, "0-0", w.position(0))
		require.NoError(t, w.stop())
	})
}

func TestC5AFailureOfMapKeyOrEncodingIsParkedOnceItRepeats(t *testing.T) {
	t.Parallel()
	type mapping = func(*restatestart.Message[claim]) (restatestart.Start, error)
	always := func(start restatestart.Start, err error) mapping {
		return func(message *restatestart.Message[claim]) (restatestart.Start, error) {
			if message.Value.Key == "good" {
				return payout(message)
			}
			return start, err
		}
	}
	times := func(n int, failing mapping) mapping {
		return func(message *restatestart.Message[claim]) (restatestart.Start, error) {
			if message.Value.Key == "good" {
				return payout(message)
			}
			if n--; n >= 0 {
				return failing(message)
			}
			return payout(message)
		}
	}
	panics := func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		if message.Value.Key == "good" {
			return payout(message)
		}
		panic("Map")
	}
	var turn int
	for name, test := range map[string]struct {
		mapStart mapping
		parked   []string
		position string
	}{
		"an error of Map":         {always(restatestart.Start{}, errBoom), []string{"1-0 map"}, "2-0"},
		"an empty key":            {always(restatestart.Start{Workflow: "Payout"}, nil), []string{"1-0 invalid"}, "2-0"},
		"a key that is not UTF-8": {always(restatestart.Start{Workflow: "Payout", Key: "\xff"}, nil), []string{"1-0 invalid"}, "2-0"},
		"an input not encodable":  {always(restatestart.Start{Workflow: "Payout", Key: "k", Input: func() {}}, nil), []string{"1-0 encode"}, "2-0"},
		"a panic of Map":          {panics, []string{}, "0-0"},
		"an error of Map, once":   {times(1, always(restatestart.Start{}, errBoom)), []string{}, "2-0"},
		"first this, then that": {func(message *restatestart.Message[claim]) (restatestart.Start, error) {
			if message.Value.Key == "good" {
				return payout(message)
			}
			if turn++; turn%2 == 0 {
				return restatestart.Start{}, errBoom
			}
			return restatestart.Start{Workflow: "Payout"}, nil
		}, []string{}, "0-0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, fake := parking(t, "bad", "good")
			w.run(starterOn(t, fake, test.mapStart, restatestart.Options{}))
			pass(500 * time.Millisecond)
			assert.Empty(t, w.parkedIDs(), name)
			pass(10 * time.Minute)
			assert.Equal(t, test.parked, w.parkedIDs(), name)
			assert.Equal(t, test.position, w.position(0), name)
			assert.Equal(t, 1, fake.Attempts("good"), name)
			require.NoError(t, w.stop())
		})
	}
}

func TestC5TheSameRefusalMustComeTwiceInARow(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps    []restatetest.Step
		attempts int
		parked   int
	}{
		"a moment of refusal": {[]restatetest.Step{restatetest.Status(400)}, 2, 0},
		"an outage before": {[]restatetest.Step{
			restatetest.Status(503), restatetest.Status(400), restatetest.Status(400).Always(),
		}, 3, 1},
		"an outage in between": {[]restatetest.Step{
			restatetest.Status(400), restatetest.Status(503), restatetest.Status(400), restatetest.Status(422), restatetest.Status(422).Always(),
		}, 5, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, fake := parking(t, "a")
			fake.Script("a", test.steps...)
			w.run(once(t, fake))
			pass(5 * time.Minute)
			assert.Equal(t, test.attempts, fake.Attempts("a"), name)
			assert.Len(t, w.parkedIDs(), test.parked, name)
			assert.Equal(t, "1-0", w.position(0), name)
			require.NoError(t, w.stop())
		})
	}
}

func TestC5WhatStandsBehindAParkedStartIsPostedNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, fake := parking(t, "k", "k", "k", "other")
		fake.Script("k", restatetest.Status(400).Times(4))
		w.run(once(t, fake))
		pass(900 * time.Millisecond)
		assert.Equal(t, []restatestart.Reason{restatestart.ReasonRejected, restatestart.ReasonPredecessor, restatestart.ReasonPredecessor},
			reasons(w.partition(0).Blocked.Failed))
		pass(time.Second)
		assert.Equal(t, []string{"1-0 rejected"}, w.parkedIDs())
		assert.Len(t, w.partition(0).Blocked.Failed, 2, "what is parked holds nothing any more")
		pass(10 * time.Second)
		assert.Equal(t, []string{"1-0 rejected", "2-0 rejected"}, w.parkedIDs())
		assert.Equal(t, "4-0", w.position(0))
		starts := fake.Starts()
		require.Len(t, starts, 2, "the third one of the key, and the other")
		// 0 s and 1 s: the first. 2 s and then 4 s: the second, since the ladder began again. 5 s: the third.
		assert.Equal(t, []time.Duration{0, time.Second, time.Second, 2 * time.Second, time.Second}, gapsOf(fake, "k"))
		require.NoError(t, w.stop())
	})
}

// reasons are those of failed starts, in order.
func reasons(failed []restatestart.FailedStart) []restatestart.Reason {
	reasons := make([]restatestart.Reason, len(failed))
	for i, start := range failed {
		reasons[i] = start.Reason
	}
	return reasons
}

// gapsOf are the waits before the requests of a key.
func gapsOf(fake *restatetest.Server, key string) []time.Duration {
	var waits []time.Duration
	var last time.Time
	for _, request := range fake.Requests() {
		if request.Key != key {
			continue
		}
		if last.IsZero() {
			last = request.At
		}
		waits = append(waits, request.At.Sub(last))
		last = request.At
	}
	return waits
}
