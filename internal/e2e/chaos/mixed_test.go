package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/chaos/leg"
	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// newMixed starts a world around one Redis that consumers reach by a network of their own.
func newMixed(t *testing.T, seed uint64, broken breakage) *world {
	t.Helper()
	server := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--user", user, "on", ">" + password, "~*", "+@all"}})
	network, err := leg.New(server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, network.Close()) })
	w := newWorld(t, seed, setting{
		name: "mixed", admin: server.Client(), partitions: 3, growth: 5, instances: 2, publishers: 2, pause: 40 * time.Millisecond, broken: broken,
		redis: redisConfig{Addresses: []string{network.Addr()}, Username: user, Password: password},
	})
	w.redisActions(server)
	w.legActions("network", network)
	return w
}

// mixed is everything that goes wrong there.
func mixed() []schedule.Domain {
	return []schedule.Domain{consumers, operators, redises, restates, network("network"), network("ingress")}
}

func TestNoFaultLosesAStart(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	seed, duration := seed(), *durationFlag
	faults := schedule.Deal(seed, duration, mixed()...)
	t.Logf("go test ./chaos -run '^%s$' -chaos.seed %d -chaos.duration %s\n%s", t.Name(), seed, duration, faults)
	w := newMixed(t, seed, "")
	w.judge(w.run(faults, duration))

	ended, _, _ := w.fleet.told()
	signalled := -ended[finished]
	for _, n := range ended {
		signalled += n
	}
	assert.GreaterOrEqual(t, signalled, int(100*duration/(2*time.Minute)), "%v", ended)
	assert.Positive(t, w.record.Numbers().Repeats)
}
