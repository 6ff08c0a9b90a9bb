// Package testkit is the kit that the tests of all packages share: messages and a Starter on a fake Restate (claims.go),
// recorded telemetry (telemetry.go), a captured log (log.go), waiting (time.go) and an HTTP transport made of a function
// (transport.go). It imports no Redis client and nothing of the loop.
package testkit

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

// Claim is the message body of the tests. KeepKeyed keeps one that has a key.
type Claim struct {
	Key string `json:"key"`
}

// Batch is a batch with one message for each key, all of partition 0, with the ids 1-0, 2-0 and so on.
func Batch(keys ...string) []restatestart.Message[Claim] {
	batch := make([]restatestart.Message[Claim], len(keys))
	for i, key := range keys {
		batch[i] = restatestart.Message[Claim]{ID: fmt.Sprintf("%d-0", i+1), Stream: "s:{claims}:0", Value: Claim{Key: key}}
	}
	return batch
}

// Keys are k1 to kn.
func Keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i+1)
	}
	return keys
}

// KeepKeyed is a Keep that drops a claim without a key.
func KeepKeyed(message *restatestart.Message[Claim]) bool { return message.Value.Key != "" }

// Payout is a Map that starts the workflow Payout under the claim's key, with the claim as its input.
func Payout(message *restatestart.Message[Claim]) (restatestart.Start, error) {
	return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: message.Value}, nil
}

// NewStarter makes a Starter that posts to the fake and keeps keyed claims. A nil mapStart is Payout. The options' Ingress is
// the fake's, their HTTPClient defaults to the fake's, and there is no jitter unless they set it.
func NewStarter(t *testing.T, fake *restatetest.Server, mapStart func(*restatestart.Message[Claim]) (restatestart.Start, error), options restatestart.Options) *restatestart.Starter[Claim] {
	t.Helper()
	if mapStart == nil {
		mapStart = Payout
	}
	options.Ingress = fake.URL()
	if options.HTTPClient == nil {
		options.HTTPClient = fake.Client()
	}
	options.NoJitter = options.Jitter == 0
	starter, err := restatestart.New(KeepKeyed, mapStart, options)
	require.NoError(t, err)
	return starter
}

// Blocked requires an error of Handle to be a BlockedError with nothing around it.
func Blocked(t *testing.T, err error) *restatestart.BlockedError {
	t.Helper()
	require.Error(t, err)
	var blocked *restatestart.BlockedError
	require.ErrorAs(t, err, &blocked)
	require.Same(t, blocked, err, "a BlockedError is the only error of Handle")
	return blocked
}

// OnlyFailure requires an error of Handle to be a BlockedError with one failed start, and returns that.
func OnlyFailure(t *testing.T, err error) restatestart.FailedStart {
	t.Helper()
	blocked := Blocked(t, err)
	require.Len(t, blocked.Failed, 1)
	return blocked.Failed[0]
}

// Waits are the times between the fake's requests, in order; for tests that post one key only.
func Waits(fake *restatetest.Server) []time.Duration {
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

// ErrBoom is an error for code that has to fail.
var ErrBoom = errors.New("boom")
