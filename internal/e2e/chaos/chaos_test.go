package chaos_test

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/e2e/chaos/proxy"
	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// The flags that repeat a run, or make it longer.
var (
	seedFlag     = flag.Uint64("chaos.seed", 0, "seed of the faults; 0 chooses one")
	durationFlag = flag.Duration("chaos.duration", 2*time.Minute, "how long the mixed faults last; those of failovers and of slots last a quarter of it each")
)

func TestMain(m *testing.M) { kit.Main(m, runConsumer) }

func seed() uint64 {
	if *seedFlag != 0 {
		return *seedFlag
	}
	const few = 1_000_000 // digits to type again
	return 1 + rand.Uint64N(few)
}

// newSchedule makes the faults of a test and logs the command that repeats it.
func newSchedule(t *testing.T, seed uint64, duration time.Duration, domains ...schedule.Domain) schedule.Schedule {
	t.Helper()
	faults := schedule.New(seed, duration, domains...)
	t.Logf("go test ./chaos -run '^%s$' -chaos.seed %d -chaos.duration %s\n%s", t.Name(), seed, *durationFlag, faults)
	return faults
}

// newMixed starts an environment with one Redis, which consumers reach by a network of their own.
func newMixed(t *testing.T, seed uint64, defect defect) *env {
	t.Helper()
	server := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--user", user, "on", ">" + password, "~*", "+@all"}})
	network, err := proxy.New(server.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, network.Close()) })
	e := newEnv(t, seed, setting{
		name: "mixed", admin: server.Client(), partitions: 3, growth: 5, instances: 2, publishers: 2, pause: 40 * time.Millisecond, defect: defect,
		direct: redisConfig{Addresses: []string{server.Addr()}},
		redis:  redisConfig{Addresses: []string{network.Addr()}, Username: user, Password: password},
	})
	e.redisActions(server)
	e.networkActions("network", network)
	return e
}

// mixed is every fault of that environment.
func mixed() []schedule.Domain {
	return []schedule.Domain{consumers, operators, redises, restates, network("network"), network("ingress")}
}

func TestNoFaultLosesAStart(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	seed, duration := seed(), *durationFlag
	faults := newSchedule(t, seed, duration, mixed()...)
	e := newMixed(t, seed, "")
	e.assertNone(e.run(faults, duration))

	ended := -e.fleet.ended[finished]
	for _, n := range e.fleet.ended {
		ended += n
	}
	assert.GreaterOrEqual(t, ended, int(100*duration/(2*time.Minute)), "%v", e.fleet.ended)
	assert.Positive(t, e.record.Numbers().Repeats)
}

func TestTwoMinutesHaveEveryFaultAndAHundredEndsOfConsumers(t *testing.T) {
	t.Parallel()
	domains := mixed()
	for seed := range uint64(1_000) {
		counts := schedule.New(seed, 2*time.Minute, domains...).Count()
		for _, domain := range domains {
			for _, kind := range domain.Kinds {
				require.Positive(t, counts[domain.Name+" "+kind.Name], "seed %d: %s %s", seed, domain.Name, kind.Name)
			}
		}
		ends := 0
		for _, kind := range []string{"kill", "term", "roll", "zombie"} {
			ends += counts["consumer "+kind]
		}
		require.GreaterOrEqual(t, ends, 105, "seed %d", seed)
	}
}

func TestADefectiveConsumerIsCaught(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	for defect, kind := range map[defect]check.Kind{
		savesEarly: check.Passed,
		swallows:   check.Passed,
		reverses:   check.Disorder,
	} {
		t.Run(string(defect), func(t *testing.T) {
			const duration = 20 * time.Second // for at least one outage of Restate
			seed := seed()
			found := newMixed(t, seed, defect).run(schedule.New(seed, duration, consumers, restates), duration)
			require.NotEmpty(t, found, "seed %d", seed)
			assert.Equal(t, kind, found[0].Kind, "%s", found[0])
			t.Logf("seed %d, %d violations: %s", seed, len(found), found[0])
		})
	}
}
