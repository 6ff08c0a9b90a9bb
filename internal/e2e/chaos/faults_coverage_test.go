package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
)

func TestTwoMinutesHaveEveryFaultAndAHundredEndsOfConsumers(t *testing.T) {
	t.Parallel()
	domains := mixed()
	for seed := range uint64(1_000) {
		counts := schedule.Deal(seed, 2*time.Minute, domains...).Count()
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
