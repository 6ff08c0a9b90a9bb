// Package kit is what the tests on real servers share: a topic and its publisher, a proxy in front of Restate's ingress that
// counts and holds starts, and services in processes of their own.
package kit

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

const (
	// Patience is how long a test waits for what must happen.
	Patience = 15 * time.Second
	// Interval is the time between two checks whether it has happened.
	Interval = 20 * time.Millisecond

	// ConsumerName is the name of every consumer in the tests.
	ConsumerName = "payout"
)

// Bet is what the tests publish: a settled bet, worth a payout when it carries a claim.
type Bet struct {
	ID       string  `json:"betId"`
	Amount   float64 `json:"amount,omitempty"`
	Claim    string  `json:"claimId,omitempty"`
	Workflow string  `json:"workflow,omitempty"` // of its payout, when it is not payout.Workflow
}

// HasClaim keeps the bets that are worth a payout.
func HasClaim(m *restatestart.Message[Bet]) bool { return m.Value.Claim != "" }

// Sleep waits in real time: what these tests wait for happens in other processes.
func Sleep(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// Await waits until the condition holds, and fails the test when that takes longer than Patience.
func Await(t *testing.T, condition func() bool, message ...any) {
	t.Helper()
	require.Eventually(t, condition, Patience, Interval, message...)
}

// ClientOptions are those of a service's Redis client.
func ClientOptions(addresses ...string) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: addresses,
		// Redis before 8 answers these with an error on every connection.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Connect makes a client that is closed with the test.
func Connect(t *testing.T, options *redis.UniversalOptions) redis.UniversalClient {
	t.Helper()
	client := redis.NewUniversalClient(options)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}
