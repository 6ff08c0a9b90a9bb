package chaos_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
)

func TestABrokenConsumerIsCaughtWithinAMinute(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	for broken, kind := range map[breakage]check.Kind{
		savesEarly: check.Passed,
		swallows:   check.Passed,
		reverses:   check.Disorder,
	} {
		t.Run(string(broken), func(t *testing.T) {
			seed, limit := seed(), time.Minute
			w := newMixed(t, seed, broken)
			found := w.run(schedule.Deal(seed, limit, consumers, restates), limit)
			took := time.Since(w.began)
			require.NotEmpty(t, found, "seed %d", seed)
			assert.Equal(t, kind, found[0].Kind, "%s", found[0])
			assert.NotEmpty(t, w.watch.found(), "seen while it ran")
			assert.Less(t, took, limit)
			t.Logf("seed %d, caught within %.1f s: %s", seed, took.Seconds(), found[0])
		})
	}
}
