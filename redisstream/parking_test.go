package redisstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/redisstream/admin"
	"github.com/redisevents/restatestart/restatetest"
)

// parking is an env of one partition that parks whatever can be parked, and a fake ingress.
func parking(t *testing.T, keys ...string) (*env, *restatetest.Server) {
	t.Helper()
	e := newEnv(t, 1)
	e.options.OnRejected, e.options.OnMalformed = redisstream.RejectedPark, redisstream.MalformedPark
	e.publish(0, keys...)
	return e, restatetest.New(t)
}

func TestC5AMalformedEntryIsParkedAndItsNeighboursAreDelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := parking(t, "a")
		e.source.Add(0, `{"secret`)
		e.source.AddMalformed(0)
		e.publish(0, "b")
		handler := &recorder{}
		e.run(handler)
		testkit.Pass(2 * time.Second)
		assert.Equal(t, []string{"a b"}, handler.delivered())
		assert.Equal(t, "4-0", e.position(0))
		assert.Equal(t, []string{"2-0 malformed", "3-0 malformed"}, e.parkedIDs())
		entries := e.parkedEntries()
		assert.Equal(t, `{"secret`, entries[0].Original().Body)
		assert.False(t, entries[1].Original().HasBody)
		assert.Equal(t, `malformed entry: there is no field "b"`, entries[1].Failure.Text)
		status := e.partition(0)
		assert.Equal(t, []int64{4, 4, 0, 2}, []int64{status.Processed, status.Delivered, status.Skipped, status.Parked})
		assert.Equal(t, 2, e.log.Count(`level=ERROR msg="entry parked"`))
		assert.Equal(t, 1, e.log.Count("partition=0 entry=2-0 parked="+entries[0].ID.String()+" reason=malformed"))
		assert.Zero(t, e.log.Count("secret"), "the body is in no log")
	})
}

func TestC5OnlyStatusesThatArePermanentAreParked(t *testing.T) {
	t.Parallel()
	parks := map[int]bool{400: true, 405: true, 413: true, 414: true, 422: true, 431: true}
	for _, status := range []int{302, 307, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 413, 414, 415, 422, 425, 429, 431, 451, 500, 501, 502, 503, 504} {
		synctest.Test(t, func(t *testing.T) {
			e, fake := parking(t, "good1", "bad", "good2")
			fake.Script("bad", restatetest.Status(status, "no").Always())
			e.run(once(t, fake))
			testkit.Pass(900 * time.Millisecond)
			assert.Empty(t, e.parkedIDs(), "%d, delivered once", status)
			assert.Equal(t, redisstream.StateBlocked, e.partition(0).State)
			testkit.Pass(time.Hour)
			assert.Equal(t, 1, fake.Attempts("good1"))
			assert.Equal(t, 1, fake.Attempts("good2"))
			if !parks[status] {
				assert.Empty(t, e.parkedIDs(), status)
				assert.Equal(t, "0-0", e.position(0))
				assert.Greater(t, fake.Attempts("bad"), 100)
				return
			}
			assert.Equal(t, 2, fake.Attempts("bad"), status)
			assert.Equal(t, "3-0", e.position(0), status)
			entries := e.parkedEntries()
			require.Len(t, entries, 1, status)
			assert.Equal(t, "2-0", entries[0].EntryID.String())
			assert.Equal(t, parked.Failure{
				Reason: "rejected", Status: status, Text: fmt.Sprintf("%d: no", status), Workflow: "Payout", Key: "bad", At: entries[0].Failure.At,
			}, entries[0].Failure)
			assert.Equal(t, int64(1), e.partition(0).Parked)
			assert.Equal(t, 1, e.log.Count(fmt.Sprintf("reason=rejected status=%d workflow=Payout key=bad", status)))
		})
	}
}

func TestC5AFailureBeforeThePostIsParkedOnceItRepeats(t *testing.T) {
	t.Parallel()
	payout := restatestart.Start{Workflow: "Payout", Key: "k", Input: testkit.Claim{Key: "k"}}
	for name, row := range map[string]struct {
		mapBad   func(call int) (restatestart.Start, error) // of the message bad
		parked   []string
		position string
	}{
		"an error of Map":         {func(int) (restatestart.Start, error) { return restatestart.Start{}, testkit.ErrBoom }, []string{"1-0 map"}, "2-0"},
		"an empty key":            {func(int) (restatestart.Start, error) { return restatestart.Start{Workflow: "Payout"}, nil }, []string{"1-0 invalid"}, "2-0"},
		"a key that is not UTF-8": {func(int) (restatestart.Start, error) { return restatestart.Start{Workflow: "Payout", Key: "\xff"}, nil }, []string{"1-0 invalid"}, "2-0"},
		"an input that cannot be encoded": {func(int) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "Payout", Key: "k", Input: func() {}}, nil
		}, []string{"1-0 encode"}, "2-0"},
		"a panic of Map": {func(int) (restatestart.Start, error) { panic("Map") }, []string{}, "0-0"},
		"an error of Map, once": {func(call int) (restatestart.Start, error) {
			if call == 1 {
				return restatestart.Start{}, testkit.ErrBoom
			}
			return payout, nil
		}, []string{}, "2-0"},
		"two errors in turn": {func(call int) (restatestart.Start, error) {
			if call%2 == 0 {
				return restatestart.Start{}, testkit.ErrBoom
			}
			return restatestart.Start{Workflow: "Payout"}, nil
		}, []string{}, "0-0"},
	} {
		synctest.Test(t, func(t *testing.T) {
			e, fake := parking(t, "bad", "good")
			calls := 0
			e.run(testkit.NewStarter(t, fake, func(message *claimMessage) (restatestart.Start, error) {
				if message.Value.Key == "good" {
					return testkit.Payout(message)
				}
				calls++
				return row.mapBad(calls)
			}, restatestart.Options{}))
			testkit.Pass(500 * time.Millisecond)
			assert.Empty(t, e.parkedIDs(), name)
			testkit.Pass(10 * time.Minute)
			assert.Equal(t, row.parked, e.parkedIDs(), name)
			assert.Equal(t, row.position, e.position(0), name)
			assert.Equal(t, 1, fake.Attempts("good"), name)
		})
	}
}

func TestC5AStartIsParkedOnlyAfterTwoEqualRejectionsInARow(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		steps    []restatetest.Step
		attempts int
		parked   int
	}{
		"one rejection": {[]restatetest.Step{restatetest.Status(400)}, 2, 0},
		"an outage before two rejections": {[]restatetest.Step{
			restatetest.Status(503), restatetest.Status(400), restatetest.Status(400).Always(),
		}, 3, 1},
		"an outage between rejections": {[]restatetest.Step{
			restatetest.Status(400), restatetest.Status(503), restatetest.Status(400), restatetest.Status(422), restatetest.Status(422).Always(),
		}, 5, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			e, fake := parking(t, "a")
			fake.Script("a", row.steps...)
			e.run(once(t, fake))
			testkit.Pass(5 * time.Minute)
			assert.Equal(t, row.attempts, fake.Attempts("a"), name)
			assert.Len(t, e.parkedIDs(), row.parked, name)
			assert.Equal(t, "1-0", e.position(0), name)
		})
	}
}

func TestC5TheSuccessorsOfAParkedStartArePosted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := parking(t, "k", "k", "k")
		fake.Script("k", restatetest.Status(400).Times(4))
		e.run(once(t, fake))
		testkit.Pass(900 * time.Millisecond)
		assert.Equal(t, []restatestart.Reason{restatestart.ReasonRejected, restatestart.ReasonPredecessor, restatestart.ReasonPredecessor},
			reasons(e.partition(0).Blocked.Failed))
		testkit.Pass(time.Second)
		assert.Equal(t, []string{"1-0 rejected"}, e.parkedIDs())
		assert.Len(t, e.partition(0).Blocked.Failed, 2, "a parked entry no longer holds")
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"1-0 rejected", "2-0 rejected"}, e.parkedIDs())
		assert.Equal(t, "3-0", e.position(0))
		assert.Len(t, fake.Starts(), 1)
		// The first at 0 s and 1 s, the second at 2 s and 4 s, since the backoff begins again, and the third at 5 s.
		assert.Equal(t, []time.Duration{time.Second, time.Second, 2 * time.Second, time.Second}, testkit.Waits(fake))
	})
}

func reasons(failed []restatestart.FailedStart) []restatestart.Reason {
	reasons := make([]restatestart.Reason, len(failed))
	for i, start := range failed {
		reasons[i] = start.Reason
	}
	return reasons
}

func TestC5NothingIsParkedByDefault(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEnv(t, 1), restatetest.New(t)
		e.publish(0, "bad")
		e.source.AddMalformed(0)
		fake.Script("bad", restatetest.Status(http.StatusBadRequest).Always())
		e.run(once(t, fake))
		testkit.Pass(time.Hour)
		assert.Empty(t, e.parkedIDs())
		assert.Equal(t, "0-0", e.position(0))
	})
}

// The handler may have more to do than its starts, so the Starter's error is not about the whole batch.
func TestC5AHandlerThatCallsAStarterParksNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := parking(t, "bad")
		fake.Script("bad", restatetest.Status(400).Always())
		e.run(claimHandler(once(t, fake).Handle))
		testkit.Pass(time.Minute)
		assert.Empty(t, e.parkedIDs())
		assert.Equal(t, "0-0", e.position(0))
	})
}

func TestC5OnlyAReliableBlockedErrorParks(t *testing.T) {
	t.Parallel()
	rejected := func(ids ...string) *restatestart.BlockedError {
		blocked := &restatestart.BlockedError{}
		for _, id := range ids {
			blocked.Failed = append(blocked.Failed, restatestart.FailedStart{EntryID: id, Reason: restatestart.ReasonRejected, Status: 400})
		}
		return blocked
	}
	twice := rejected("2-0")
	twice.Failed = append(twice.Failed, restatestart.FailedStart{EntryID: "2-0", Reason: restatestart.ReasonServer, Status: 503})
	reversed := &restatestart.BlockedError{Failed: []restatestart.FailedStart{twice.Failed[1], twice.Failed[0]}}
	for name, row := range map[string]struct {
		err    error
		parked []string
	}{
		"by the handler":                            {rejected("2-0"), []string{"2-0 rejected"}},
		"by the handler, wrapped":                   {fmt.Errorf("wrapped: %w", rejected("2-0")), []string{"2-0 rejected"}},
		"several entries":                           {rejected("1-0", "3-0"), []string{"1-0 rejected", "3-0 rejected"}},
		"joined with another error":                 {errors.Join(rejected("2-0"), testkit.ErrBoom), []string{}},
		"with an entry that was not delivered":      {rejected("2-0", "9-9"), []string{}},
		"two starts of an entry":                    {rejected("2-0", "2-0"), []string{"2-0 rejected"}},
		"two starts, one of which is not permanent": {twice, []string{}},
		"two starts, in the other order":            {reversed, []string{}},
		"without a reason":                          {&restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "2-0"}}}, []string{}},
		"without entries":                           {&restatestart.BlockedError{}, []string{}},
	} {
		synctest.Test(t, func(t *testing.T) {
			e, _ := parking(t, "a", "b", "c")
			e.run(&recorder{fail: func([]claimMessage) error { return row.err }})
			testkit.Pass(time.Minute)
			assert.Equal(t, row.parked, e.parkedIDs(), name)
			assert.Equal(t, map[bool]string{true: "0-0", false: "3-0"}[len(row.parked) == 0], e.position(0), name)
		})
	}
}

func TestC5TheOtherFailuresOfABatchStillHoldIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := parking(t, "bad", "down", "good")
		fake.Script("bad", restatetest.Status(400).Always())
		fake.Script("down", restatetest.Status(503).For(time.Minute))
		e.run(once(t, fake))
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"1-0 rejected"}, e.parkedIDs())
		assert.Equal(t, "0-0", e.position(0))
		blocked := e.partition(0).Blocked
		assert.Equal(t, []restatestart.Reason{restatestart.ReasonServer}, reasons(blocked.Failed))
		assert.NotContains(t, blocked.Error, "bad", "a parked entry is no longer in the error")
		assert.Equal(t, 2, fake.Attempts("bad"))
		testkit.Pass(2 * time.Minute)
		assert.Equal(t, "3-0", e.position(0))
		assert.Equal(t, 2, fake.Attempts("bad"))
		assert.Equal(t, 1, fake.Attempts("good"))
		assert.Equal(t, int64(1), e.partition(0).Parked)
	})
}

func TestC5WhileParkingFailsThePositionIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := parking(t, "bad", "good")
		e.source.Add(0, `{"secret`)
		fake.Script("bad", restatetest.Status(400).Always())
		e.parked.fail(testkit.ErrBoom)
		e.run(once(t, fake))
		testkit.Pass(time.Minute)
		assert.Equal(t, "0-0", e.position(0))
		blocked := e.partition(0).Blocked
		assert.Equal(t, "starts", blocked.Cause)
		assert.Contains(t, blocked.Error, "rejected")
		assert.Contains(t, blocked.Error, "boom", "why nothing was parked")
		assert.Equal(t, []string{"3-0"}, blocked.Malformed)
		assert.Len(t, blocked.Failed, 1)
		assert.Zero(t, e.partition(0).Parked)
		assert.Equal(t, 1, fake.Attempts("good"))
		assert.LessOrEqual(t, e.log.Count("parking failed, position held"), 3, "once per 30 s")
		assert.Positive(t, e.log.Count("parking failed, position held"))
		assert.Zero(t, e.log.Count("secret"))

		e.parked.fail(nil)
		testkit.Pass(time.Minute)
		assert.Equal(t, "3-0", e.position(0))
		assert.ElementsMatch(t, []string{"1-0 rejected", "3-0 malformed"}, e.parkedIDs())
		assert.Equal(t, int64(2), e.partition(0).Parked)
	})
}

func TestC5AParkingWhoseAnswerWasLostIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, telemetry := recordedEnv(t, 1)
		e.options.OnMalformed = redisstream.MalformedPark
		e.source.AddMalformed(0)
		e.parked.loseAnswers = true
		e.run(&recorder{})
		testkit.Pass(time.Minute)
		assert.Equal(t, []string{"1-0 malformed"}, e.parkedIDs())
		assert.Contains(t, telemetry.Metrics(t), "streams.parked{consumer=payout,event=parked,partition=0,topic=claims} total 1")
		assert.Equal(t, 1, e.log.Count(`level=ERROR msg="entry parked"`))
	})
}

func TestC5NothingIsParkedWhileRunIsStopping(t *testing.T) {
	t.Parallel()
	rejected := func(shuttingDown bool) *restatestart.BlockedError {
		return &restatestart.BlockedError{
			ShuttingDown: shuttingDown, Failed: []restatestart.FailedStart{{EntryID: "1-0", Reason: restatestart.ReasonMap}},
		}
	}
	for name, prepare := range map[string]func(e *env) redisstream.Handler[testkit.Claim]{
		"a rejected start": func(e *env) redisstream.Handler[testkit.Claim] {
			calls := 0
			return &recorder{fail: func([]claimMessage) error {
				if calls++; calls == 2 {
					e.cancel() // what Map needs may be closed by the same signal
				}
				return rejected(false)
			}}
		},
		"a malformed entry": func(e *env) redisstream.Handler[testkit.Claim] {
			e.decode = func([]byte) (testkit.Claim, error) {
				e.cancel()
				return testkit.Claim{}, testkit.ErrBoom
			}
			return &recorder{}
		},
		"a BlockedError that says so": func(*env) redisstream.Handler[testkit.Claim] {
			return &recorder{fail: func([]claimMessage) error { return rejected(true) }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, _ := parking(t, "a", "b")
				e.run(prepare(e))
				testkit.Pass(time.Minute)
				require.NoError(t, e.stop())
				assert.Zero(t, e.parked.called())
				assert.Equal(t, "0-0", e.position(0))
			})
		})
	}
}

func TestC5AnEntryParkedBeforeACrashIsNotParkedAgain(t *testing.T) {
	t.Parallel()
	for name, discarded := range map[string]bool{"still parked": false, "discarded meanwhile": true} {
		synctest.Test(t, func(t *testing.T) {
			e, fake := parking(t, "bad")
			e.source.AddMalformed(0)
			fake.Script("bad", restatetest.Status(400).Always())
			e.options.PersistInterval = time.Hour // so that the position is lost
			e.run(once(t, fake))
			testkit.Pass(5 * time.Second)
			require.Equal(t, []string{"2-0 malformed", "1-0 rejected"}, e.parkedIDs())
			require.Equal(t, "0-0", e.position(0))
			if discarded {
				e.discardAll()
			}
			left := e.parkedIDs()

			next := newEnv(t, 1) // another process, as after a kill of the first
			next.options, next.backend, next.parked = e.options, e.backend, e.parked
			next.backend.Store, next.options.Logger = next.positions, next.log.Logger()
			next.run(once(t, fake))
			testkit.Pass(5 * time.Second)
			assert.Equal(t, left, next.parkedIDs(), name)
			assert.Equal(t, 2, next.log.Count(`level=INFO msg="entry already parked"`), name)
			assert.Equal(t, int64(2), next.partition(0).Parked, name)
			require.NoError(t, next.stop())
			assert.Equal(t, "2-0", next.position(0), name)
		})
	}
}

func TestC5ADiscardedEntryIsParkedAgainAfterAReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := parking(t, "bad", "held")
		fake.Script("bad", restatetest.Status(400, "no").Always())
		fake.Script("held", restatetest.Status(404, "no").Times(6))
		e.run(once(t, fake))
		testkit.Pass(2 * time.Second)
		require.Equal(t, []string{"1-0 rejected"}, e.parkedIDs())
		require.Equal(t, "0-0", e.position(0), "held by the other")
		e.discardAll()
		testkit.Pass(10 * time.Minute)
		require.Equal(t, "2-0", e.position(0), "passed")
		e.positions.RequestReset(0, "0-0|later")
		testkit.Pass(10 * time.Minute)
		assert.Equal(t, "2-0", e.position(0))
		assert.Equal(t, []string{"1-0 rejected"}, e.parkedIDs(), "neither accepted nor parked, and passed")
	})
}

func TestC5ErrorSkipDoesNotSkipParkedEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _ := parking(t, "a")
		e.options.OnError = redisstream.ErrorSkip
		e.source.AddMalformed(0)
		handler := &recorder{fail: boom}
		e.run(handler)
		testkit.Pass(5 * time.Second)
		assert.Equal(t, []string{"a"}, handler.delivered())
		assert.Equal(t, "2-0", e.position(0))
		status := e.partition(0)
		assert.Equal(t, []int64{1, 1}, []int64{status.Skipped, status.Parked})
	})
}

func TestC5AParkedEntryKeepsItsFieldsInOrder(t *testing.T) {
	t.Parallel()
	server, client := redisEnv(t, &redis.Options{})
	fields := []string{"x", "unknown", "b", "{}", "parked:reason", "a producer's own", "b", "{bad", "", "no name", "t", "A"}
	_, err := server.XAdd("dev:re:s:{claims}:0", "17-3", fields)
	require.NoError(t, err)
	consumer, err := redisstream.NewConsumer(client, redisstream.Topic("claims"), decodeClaim, claimHandler(accept), redisstream.Options{
		Consumer: "payout", KeyPrefix: "dev:re:", Block: 10 * time.Millisecond, OnMalformed: redisstream.MalformedPark,
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- consumer.Run(ctx) }()
	require.Eventually(t, func() bool {
		partitions := consumer.Status().Partitions
		return len(partitions) == 1 && partitions[0].Position == "17-3"
	}, 20*time.Second, time.Millisecond)
	cancel()
	require.NoError(t, <-result)

	operator, err := admin.New(client, "claims", admin.Options{Consumer: "payout", KeyPrefix: "dev:re:"})
	require.NoError(t, err)
	entries, err := operator.Parked(t.Context(), admin.ParkedPage{})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	var kept []string
	for _, field := range entries[0].Fields {
		kept = append(kept, field.Name, field.Value)
	}
	assert.Equal(t, fields, kept)
	assert.WithinDuration(t, time.Now(), entries[0].ParkedAt, time.Minute)
	assert.Equal(t, admin.ParkedEntry{
		ID: entries[0].ID, Stream: "dev:re:s:{claims}:0", EntryID: "17-3", Reason: restatestart.ReasonMalformed,
		Text: entries[0].Text, ParkedAt: entries[0].ParkedAt, Fields: entries[0].Fields,
	}, entries[0])
	assert.ElementsMatch(t, []string{
		"dev:re:s:{claims}:0", "dev:re:p:{claims}:payout", "dev:re:p:{claims}:payout:meta", "dev:re:parked:{claims}:payout",
		"dev:re:parked-index:{claims}:payout",
	}, server.Keys())

	foreign, err := server.XAdd("dev:re:parked:{claims}:payout", "*", []string{"b", "{}"})
	require.NoError(t, err)
	require.ErrorIs(t, consumer.Replay(t.Context(), foreign), admin.ErrForeign)
}
