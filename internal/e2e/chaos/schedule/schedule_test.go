package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
)

func domains() []schedule.Domain {
	return []schedule.Domain{
		{Name: "one", Kinds: []schedule.Kind{{Name: "short"}, {Name: "long", Min: time.Second, Max: 3 * time.Second}}, QuietMin: time.Second, QuietMax: 2 * time.Second},
		{Name: "other", Kinds: []schedule.Kind{{Name: "short"}}, QuietMin: time.Second, QuietMax: time.Second},
	}
}

func TestASeedDealsTheSameFaultsAgain(t *testing.T) {
	t.Parallel()
	first := schedule.Deal(17, time.Minute, domains()...)
	assert.Equal(t, first, schedule.Deal(17, time.Minute, domains()...))
	assert.Equal(t, first["other"], schedule.Deal(17, time.Minute, domains()[1])["other"], "whatever else is dealt")
	assert.NotEqual(t, first, schedule.Deal(18, time.Minute, domains()...))
}

func TestFaultsOfADomainDoNotMeet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		free := time.Duration(0)
		faults := schedule.Deal(seed, time.Minute, domains()...)["one"]
		require.NotEmpty(t, faults)
		for i, fault := range faults {
			assert.GreaterOrEqual(t, fault.At, free+time.Second)
			assert.LessOrEqual(t, fault.At, free+2*time.Second)
			free = fault.At + fault.For
			assert.LessOrEqual(t, free, time.Minute)
			assert.GreaterOrEqual(t, fault.Choice, 0)
			if i%2 == 1 {
				assert.NotEqual(t, faults[i-1].Kind, fault.Kind, "each is dealt before one comes again")
			}
			if fault.Kind == "long" {
				assert.GreaterOrEqual(t, fault.For, time.Second)
				assert.LessOrEqual(t, fault.For, 3*time.Second)
			}
		}
	}
}

func TestAScheduleCanBeRead(t *testing.T) {
	t.Parallel()
	faults := schedule.Deal(1, 3*time.Second, domains()[1])
	assert.Equal(t, "other: 1.0s short 0.0s, 2.0s short 0.0s, 3.0s short 0.0s\n", faults.String())
	assert.Equal(t, map[string]int{"other short": 3}, faults.Count())
	assert.Empty(t, schedule.Deal(1, 0, domains()...)["one"])
}
