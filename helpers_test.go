package restatestart_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// claim is the message of these tests: one that names no key is not worth a start.
type claim struct {
	Key string `json:"key"`
}

// batchOf makes a batch of one message a key, with ids 1-0, 2-0 and so on.
func batchOf(keys ...string) []restatestart.Message[claim] {
	batch := make([]restatestart.Message[claim], len(keys))
	for i, key := range keys {
		batch[i] = restatestart.Message[claim]{ID: fmt.Sprintf("%d-0", i+1), Stream: "s:{claims}:0", Value: claim{Key: key}}
	}
	return batch
}

func keysOf(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i+1)
	}
	return keys
}

func keepKeyed(message *restatestart.Message[claim]) bool { return message.Value.Key != "" }

func payout(message *restatestart.Message[claim]) (restatestart.Start, error) {
	return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: message.Value}, nil
}

// starterOn makes a Starter that posts to the fake, without jitter unless the options ask for it.
func starterOn(t *testing.T, fake *restatetest.Server, mapStart func(*restatestart.Message[claim]) (restatestart.Start, error), options restatestart.Options) *restatestart.Starter[claim] {
	t.Helper()
	if mapStart == nil {
		mapStart = payout
	}
	options.Ingress = fake.URL()
	if options.HTTPClient == nil {
		options.HTTPClient = fake.Client()
	}
	options.NoJitter = options.Jitter == 0
	starter, err := restatestart.New(keepKeyed, mapStart, options)
	require.NoError(t, err)
	return starter
}

// blockedBy asserts that an error is a BlockedError, and nothing wrapped around one.
func blockedBy(t *testing.T, err error) *restatestart.BlockedError {
	t.Helper()
	require.Error(t, err)
	var blocked *restatestart.BlockedError
	require.ErrorAs(t, err, &blocked)
	require.Same(t, blocked, err, "a BlockedError is the only error of Handle")
	return blocked
}

// onlyFailure is the one start of a batch that failed.
func onlyFailure(t *testing.T, err error) restatestart.FailedStart {
	t.Helper()
	blocked := blockedBy(t, err)
	require.Len(t, blocked.Failed, 1)
	return blocked.Failed[0]
}

// gaps are the waits between the requests, all of one key.
func gaps(fake *restatetest.Server) []time.Duration {
	var waits []time.Duration
	var last time.Time
	for _, request := range fake.Requests() {
		if !last.IsZero() {
			waits = append(waits, request.At.Sub(last))
		}
		last = request.At
	}
	return waits
}

var errBoom = errors.New("boom")

func after(d time.Duration, cancel context.CancelFunc) { time.AfterFunc(d, cancel) }
