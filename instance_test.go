package restatestart_test

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

func TestPartitionsAreSplitWithoutGapOrOverlap(t *testing.T) {
	for partitions := range 20 {
		for count := 1; count <= 8; count++ {
			var all []int
			for index := range count {
				owned := restatestart.ConsumerOptions{Consumer: "c", InstanceCount: count, InstanceIndex: &index}.Owned(partitions)
				assert.LessOrEqual(t, len(owned), partitions/count+1)
				all = append(all, owned...)
			}
			require.Len(t, all, partitions)
			require.True(t, slices.IsSorted(all))
			require.Len(t, slices.Compact(all), partitions)
		}
	}
	owned := func(index, count, partitions int) []int {
		return restatestart.ConsumerOptions{Consumer: "c", InstanceCount: count, InstanceIndex: &index}.Owned(partitions)
	}
	assert.Equal(t, []int{0, 1}, owned(0, 3, 4))
	assert.Equal(t, []int{2}, owned(1, 3, 4))
	assert.Equal(t, []int{6, 7, 8, 9, 10}, owned(1, 3, 16))
	assert.Equal(t, []int{8, 9}, owned(3, 4, 10))
	assert.Empty(t, owned(2, 5, 2))
}

func TestTheEnvironmentSaysWhichInstanceThisIs(t *testing.T) {
	three := 3
	for name, row := range map[string]struct {
		options restatestart.ConsumerOptions
		env     map[string]string
		want    []int
	}{
		"nothing set":                  {want: []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"count and index":              {env: map[string]string{"STREAMS_INSTANCE_COUNT": "4", "STREAMS_INSTANCE_INDEX": "3"}, want: []int{6, 7}},
		"the pod's ordinal":            {env: map[string]string{"STREAMS_INSTANCE_COUNT": "4", "POD_NAME": "svc-2"}, want: []int{4, 5}},
		"the index before the pod":     {env: map[string]string{"STREAMS_INSTANCE_COUNT": "4", "STREAMS_INSTANCE_INDEX": "1", "POD_NAME": "svc-2"}, want: []int{2, 3}},
		"a pod without ordinal":        {env: map[string]string{"STREAMS_INSTANCE_COUNT": "4", "POD_NAME": "svc-7d4f8b-x2k9p"}, want: []int{0, 1}},
		"options before all":           {options: restatestart.ConsumerOptions{InstanceCount: 4, InstanceIndex: &three}, env: map[string]string{"STREAMS_INSTANCE_COUNT": "8", "STREAMS_INSTANCE_INDEX": "1"}, want: []int{6, 7}},
		"count given, index by pod":    {options: restatestart.ConsumerOptions{InstanceCount: 4}, env: map[string]string{"POD_NAME": "svc-3"}, want: []int{6, 7}},
		"an index beyond the count":    {env: map[string]string{"STREAMS_INSTANCE_COUNT": "2", "STREAMS_INSTANCE_INDEX": "2"}, want: nil},
		"a count that is not a number": {env: map[string]string{"STREAMS_INSTANCE_COUNT": "two"}, want: []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"a count of zero":              {env: map[string]string{"STREAMS_INSTANCE_COUNT": "0"}, want: []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"an index that is not":         {env: map[string]string{"STREAMS_INSTANCE_COUNT": "4", "STREAMS_INSTANCE_INDEX": "-1", "POD_NAME": "svc-1"}, want: []int{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			setInstance(t, row.env)
			row.options.Consumer = "c"
			row.options.Logger = slog.New(slog.DiscardHandler)
			assert.Equal(t, row.want, row.options.Owned(8))
		})
	}
}

func TestPodOrdinals(t *testing.T) {
	for pod, want := range map[string]int{"svc-3": 3, "svc--3": 3, "svc-0": 0, "a-b-17": 17} {
		ordinal, found := restatestart.PodOrdinal(pod)
		assert.True(t, found, pod)
		assert.Equal(t, want, ordinal, pod)
	}
	for _, pod := range []string{"svc-7d4f8b-x2k9p", "-3", "svc-", "svc", "", "svc-99999999999", "svc-+3"} {
		_, found := restatestart.PodOrdinal(pod)
		assert.False(t, found, pod)
	}
}

func TestAWriterIsKnownByItsPod(t *testing.T) {
	setInstance(t, map[string]string{"POD_NAME": "svc-0"})
	assert.Equal(t, "1b3a45ca-59c5-d080-8e1c-02429c2efc50", restatestart.InstanceID())
	setInstance(t, map[string]string{"STREAMS_INSTANCE_INDEX": "0"})
	indexed := restatestart.InstanceID()
	assert.Equal(t, indexed, restatestart.InstanceID())
	setInstance(t, nil)
	random := restatestart.InstanceID()
	assert.NotEqual(t, random, restatestart.InstanceID())
}

// setInstance makes the environment hold just these of the variables that say which instance this is.
func setInstance(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range []string{"STREAMS_INSTANCE_COUNT", "STREAMS_INSTANCE_INDEX", "POD_NAME"} {
		t.Setenv(name, env[name]) // empty counts as not set
	}
}
