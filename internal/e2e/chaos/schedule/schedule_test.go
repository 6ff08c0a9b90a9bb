package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
)

func TestASeedRepeatsFaultsThatDoNotOverlapWithinADomain(t *testing.T) {
	t.Parallel()
	domains := []schedule.Domain{
		{Name: "one", Kinds: []schedule.Kind{{Name: "short"}, {Name: "long", Min: time.Second, Max: 3 * time.Second}}, QuietMin: time.Second, QuietMax: 2 * time.Second},
		{Name: "other", Kinds: []schedule.Kind{{Name: "short"}}, QuietMin: time.Second, QuietMax: time.Second},
	}
	for seed := range uint64(100) {
		faults := schedule.New(seed, time.Minute, domains...)
		assert.Equal(t, faults, schedule.New(seed, time.Minute, domains...))
		assert.Equal(t, faults["one"], schedule.New(seed, time.Minute, domains[0])["one"], "other domains change nothing")
		assert.NotEqual(t, faults, schedule.New(seed+1, time.Minute, domains...))
		require.NotEmpty(t, faults["one"])
		free := time.Duration(0)
		for i, fault := range faults["one"] {
			assert.GreaterOrEqual(t, fault.At, free+time.Second)
			assert.LessOrEqual(t, fault.At, free+2*time.Second)
			free = fault.At + fault.For
			assert.LessOrEqual(t, free, time.Minute)
			if i%2 == 1 {
				assert.NotEqual(t, faults["one"][i-1].Kind, fault.Kind, "each occurs before one occurs again")
			}
			if fault.Kind == "long" {
				assert.GreaterOrEqual(t, fault.For, time.Second)
				assert.LessOrEqual(t, fault.For, 3*time.Second)
			}
		}
	}
	faults := schedule.New(1, 3*time.Second, domains[1])
	assert.Equal(t, "other: 1.0s short 0.0s, 2.0s short 0.0s, 3.0s short 0.0s\n", faults.String())
	assert.Equal(t, map[string]int{"other short": 3}, faults.Count())
}
