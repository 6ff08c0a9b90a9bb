package redisstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/restatetest"
)

func TestC4AnErrorOfTheHandlerFollowsThePolicy(t *testing.T) {
	t.Parallel()
	panicBad := func(batch []claimMessage) error {
		if failBad(batch) != nil {
			panic(testkit.ErrBoom)
		}
		return nil
	}
	for kind, fail := range map[string]func([]claimMessage) error{"an error": failBad, "a panic": panicBad} {
		for name, row := range map[string]struct {
			policy    redisstream.ErrorPolicy
			delivered []string
			position  string
			check     func(t *testing.T, e *env)
		}{
			"holds": {redisstream.ErrorHold, []string{"a", "bad", "bad", "bad", "bad"}, "1-0", func(t *testing.T, e *env) {
				assert.Equal(t, "handler", e.partition(0).Blocked.Cause)
				assert.Contains(t, e.partition(0).Blocked.Error, "boom")
			}},
			"is skipped": {redisstream.ErrorSkip, []string{"a", "bad", "b"}, "3-0", func(t *testing.T, e *env) {
				assert.Equal(t, int64(1), e.partition(0).Skipped)
				assert.Equal(t, 1, e.log.Count("batch skipped"))
			}},
			"stops the partition": {redisstream.ErrorStop, []string{"a", "bad"}, "1-0", func(t *testing.T, e *env) {
				assert.Equal(t, redisstream.StateStopped, e.partition(0).State)
				assert.Contains(t, e.partition(0).Error, "boom")
				assert.Equal(t, redisstream.StateRunning, e.consumer.Status().State)
			}},
			"fails the run": {redisstream.ErrorFail, []string{"a", "bad"}, "1-0", func(t *testing.T, e *env) {
				err := e.ended()
				require.ErrorIs(t, err, testkit.ErrBoom)
				require.ErrorContains(t, err, "consumer payout of topic claims")
				assert.Contains(t, e.consumer.Status().Error, "boom")
			}},
		} {
			t.Run(kind+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					e, handler := newEnv(t, 1), &recorder{fail: fail}
					e.options.BatchSize, e.options.OnError = 1, row.policy
					e.publish(0, "a", "bad", "b")
					e.run(handler)
					testkit.Pass(8 * time.Second)
					assert.Equal(t, row.delivered, handler.delivered())
					assert.Equal(t, row.position, e.position(0))
					row.check(t, e)
				})
			})
		}
	}
}

// Only the loop's own cancellation is a shutdown.
func TestC4ACancellationByTheHandlerIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		e.publish(0, "a")
		handler := &recorder{fail: func([]claimMessage) error { return context.Canceled }}
		e.run(handler)
		testkit.Pass(2 * time.Second)
		assert.Len(t, handler.delivered(), 2)
		assert.Equal(t, "0-0", e.position(0))
	})
}

func TestAResetRestartsAStoppedPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 1)
		e.options.OnError, e.options.BatchSize = redisstream.ErrorStop, 1
		e.publish(0, "a", "bad", "b")
		handler := &recorder{fail: failBad}
		e.run(handler)
		testkit.Pass(time.Minute)
		require.Equal(t, redisstream.StateStopped, e.partition(0).State)
		e.positions.RequestReset(0, "2-0")
		testkit.Pass(5 * time.Second)
		assert.Equal(t, []string{"a", "bad", "b"}, handler.delivered())
		assert.Equal(t, "3-0", e.position(0))
		assert.Equal(t, redisstream.StateIdle, e.partition(0).State)
		assert.Empty(t, e.partition(0).Error)
	})
}

func TestC5AMalformedEntryDoesNotAffectItsNeighbours(t *testing.T) {
	t.Parallel()
	twice := func() func([]claimMessage) error {
		calls := 0
		return func([]claimMessage) error {
			if calls++; calls < 3 {
				return &restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "4-0"}}}
			}
			return nil
		}
	}
	for name, row := range map[string]struct {
		options   redisstream.Options
		fail      func([]claimMessage) error
		delivered []string
		position  string
		check     func(t *testing.T, e *env)
	}{
		"held": {redisstream.Options{}, nil, []string{"a b"}, "0-0", func(t *testing.T, e *env) {
			blocked := e.partition(0).Blocked
			assert.Equal(t, "malformed", blocked.Cause)
			assert.Equal(t, []string{"2-0", "3-0"}, blocked.Malformed)
			assert.Contains(t, blocked.Error, "2 malformed entries; 2-0: malformed entry: invalid character")
			assert.NotContains(t, blocked.Error, "bad", "the body is not in the error")
		}},
		"skipped": {redisstream.Options{OnMalformed: redisstream.MalformedSkip}, nil, []string{"a b"}, "4-0", func(t *testing.T, e *env) {
			assert.Equal(t, int64(2), e.partition(0).Skipped)
			assert.Equal(t, 2, e.log.Count("malformed entry skipped"))
			assert.Equal(t, 1, e.log.Count("entry=2-0"))
		}},
		"held beside failed starts, which alone are redelivered": {redisstream.Options{}, twice(), []string{"a b", "b", "b"}, "0-0", func(t *testing.T, e *env) {
			assert.Equal(t, []string{"2-0", "3-0"}, e.partition(0).Blocked.Malformed)
		}},
		"held although its batch would be skipped": {redisstream.Options{OnError: redisstream.ErrorSkip, HoldMin: 30 * time.Second}, boom, []string{"a b", "a b"}, "0-0", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, handler := newEnv(t, 1), &recorder{fail: row.fail}
				e.options.OnError, e.options.OnMalformed, e.options.HoldMin = row.options.OnError, row.options.OnMalformed, row.options.HoldMin
				e.publish(0, "a")
				e.source.Add(0, "{bad")
				e.source.AddMalformed(0)
				e.publish(0, "b")
				e.run(handler)
				testkit.Pass(59 * time.Second)
				assert.Equal(t, row.delivered, handler.delivered())
				assert.Equal(t, row.position, e.position(0))
				if row.check != nil {
					row.check(t, e)
				}
			})
		})
	}
}

// A redelivered message is decoded again from what the producer wrote.
func TestADecoderMayChangeTheBodyInPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, tries := newEnv(t, 1), 0
		e.decode = func(body []byte) (testkit.Claim, error) {
			value, err := decodeClaim(body)
			clear(body)
			return value, err
		}
		handler := &recorder{fail: func([]claimMessage) error {
			if tries++; tries < 3 {
				return &restatestart.BlockedError{}
			}
			return nil
		}}
		e.publish(0, "a")
		e.run(handler)
		testkit.Pass(10 * time.Second)
		assert.Equal(t, []string{"a", "a", "a"}, handler.delivered())
		assert.Equal(t, "1-0", e.position(0))
	})
}

// Alerts are about this number, so a redelivery must not add to it.
func TestASkippedEntryIsCountedOnce(t *testing.T) {
	t.Parallel()
	for policy, skipped := range map[redisstream.ErrorPolicy]int64{redisstream.ErrorHold: 1, redisstream.ErrorSkip: 2} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t, 1)
			e.options.OnMalformed, e.options.OnError = redisstream.MalformedSkip, policy
			e.source.AddMalformed(0)
			e.publish(0, "a")
			e.run(&recorder{fail: boom})
			testkit.Pass(time.Minute)
			assert.Equal(t, skipped, e.partition(0).Skipped)
			assert.Equal(t, 1, e.log.Count("malformed entry skipped"))
		})
	}
}

func TestC2OnlyAReliableBlockedErrorNamesWhatIsRedelivered(t *testing.T) {
	t.Parallel()
	failed := func(ids ...string) *restatestart.BlockedError {
		blocked := &restatestart.BlockedError{}
		for _, id := range ids {
			blocked.Failed = append(blocked.Failed, restatestart.FailedStart{EntryID: id})
		}
		return blocked
	}
	for name, row := range map[string]struct {
		err         error
		redelivered string
	}{
		"alone":                               {failed("2-0"), "b"},
		"wrapped":                             {fmt.Errorf("wrapped: %w", failed("2-0")), "b"},
		"joined with another error":           {errors.Join(failed("2-0"), testkit.ErrBoom), "a b c"},
		"naming nothing":                      {failed(), "a b c"},
		"naming an entry of no batch":         {failed("9-9"), "a b c"},
		"naming an entry of no batch as well": {failed("2-0", "9-9"), "a b c"},
		"nil":                                 {(*restatestart.BlockedError)(nil), "a b c"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, 1)
				e.options.OnError = redisstream.ErrorSkip // which a BlockedError does not follow
				e.publish(0, "a", "b", "c")
				calls := 0
				handler := &recorder{fail: func([]claimMessage) error {
					if calls++; calls == 1 {
						return row.err
					}
					return nil
				}}
				e.run(handler)
				require.NotNil(t, e.partition(0).Blocked)
				if name == "nil" {
					assert.Contains(t, e.partition(0).Blocked.Error, "nil *BlockedError")
				}
				testkit.Pass(10 * time.Second)
				assert.Equal(t, []string{"a b c", row.redelivered}, handler.delivered())
				assert.Zero(t, e.partition(0).Skipped)
			})
		})
	}
}

// A Starter's error is about the messages that the Starter was given, and what else a handler does concerns the whole batch.
func TestC2AHandlerThatCallsStartersIsRedeliveredTheWholeBatch(t *testing.T) {
	t.Parallel()
	type starter = *restatestart.Starter[testkit.Claim]
	for name, handle := range map[string]func(ctx context.Context, payouts, notices starter, batch []claimMessage) error{
		"a message at a time": func(ctx context.Context, payouts, notices starter, batch []claimMessage) error {
			for i := range batch {
				if err := payouts.Handle(ctx, batch[i:i+1]); err != nil {
					return err
				}
			}
			return notices.Handle(ctx, batch)
		},
		"one after the other": func(ctx context.Context, payouts, notices starter, batch []claimMessage) error {
			if err := payouts.Handle(ctx, batch); err != nil {
				return err
			}
			return notices.Handle(ctx, batch)
		},
		"with their errors joined": func(ctx context.Context, payouts, notices starter, batch []claimMessage) error {
			return errors.Join(payouts.Handle(ctx, batch), notices.Handle(ctx, batch))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, fake := newEnv(t, 1), restatetest.New(t)
				fake.Script("b", restatetest.Status(503).Times(7))
				fake.Script("n-a", restatetest.Status(503).Times(6))
				payouts := testkit.NewStarter(t, fake, nil, restatestart.Options{})
				notices := testkit.NewStarter(t, fake, func(m *claimMessage) (restatestart.Start, error) {
					return restatestart.Start{Workflow: "Notify", Key: "n-" + m.Value.Key, Input: m.Value}, nil
				}, restatestart.Options{})
				e.publish(0, "a", "b", "c")
				e.run(claimHandler(func(ctx context.Context, batch []claimMessage) error { return handle(ctx, payouts, notices, batch) }))
				testkit.Pass(2 * time.Minute)
				fake.ExpectStarted(t, "Payout", "a", "b", "c")
				fake.ExpectStarted(t, "Notify", "n-a", "n-b", "n-c")
				assert.Equal(t, "3-0", e.position(0))
			})
		})
	}
}

// nilError is an error whose method panics on a nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestC2ACauseWhoseTextPanicsHoldsTheBatch(t *testing.T) {
	t.Parallel()
	for name, starter := range map[string]func(*restatetest.Server) *restatestart.Starter[testkit.Claim]{
		"of Map": func(fake *restatetest.Server) *restatestart.Starter[testkit.Claim] {
			return testkit.NewStarter(t, fake, func(*claimMessage) (restatestart.Start, error) {
				return restatestart.Start{}, (*nilError)(nil)
			}, restatestart.Options{})
		},
		"of the HTTP client": func(fake *restatetest.Server) *restatestart.Starter[testkit.Claim] {
			return testkit.NewStarter(t, fake, nil, restatestart.Options{MaxAttempts: 1, HTTPClient: &http.Client{
				Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, (*nilError)(nil) }),
			}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t, 1)
				e.options.OnError = redisstream.ErrorSkip
				e.publish(0, "a")
				e.run(starter(restatetest.New(t)))
				testkit.Pass(10 * time.Second)
				assert.Equal(t, "0-0", e.position(0))
				assert.Zero(t, e.partition(0).Skipped)
				assert.Contains(t, e.partition(0).Blocked.Error, "*redisstream_test.nilError")
				_, err := json.Marshal(e.consumer.Status())
				require.NoError(t, err)
			})
		})
	}
}

// An entry that can be decoded again keeps its place before a failed start of the same key.
func TestS11WhatIsDeliveredAgainStaysInStreamOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, fake := newEnv(t, 1), restatetest.New(t)
		fake.Script("k", restatetest.Status(http.StatusBadRequest).Times(1))
		e.source.Add(0, `{"key":"k","n":1}`)
		e.source.Add(0, `{"key":"k","n":2}`)
		refused := false
		e.decode = func(body []byte) (testkit.Claim, error) {
			if !refused && string(body) == `{"key":"k","n":1}` {
				refused = true
				return testkit.Claim{}, testkit.ErrBoom
			}
			return redisstream.JSON[testkit.Claim](body)
		}
		e.run(testkit.NewStarter(t, fake, func(m *claimMessage) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "Payout", Key: m.Value.Key, Input: json.RawMessage(m.Body)}, nil
		}, restatestart.Options{}))
		testkit.Pass(5 * time.Second)
		assert.Equal(t, "2-0", e.position(0))
		require.Len(t, fake.Starts(), 1)
		assert.JSONEq(t, `{"key":"k","n":1}`, string(fake.Starts()[0].Body))
		require.NoError(t, e.stop())
	})
}
