package redisstream_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/redisstream/admin"
)

func TestPartitionsAreSplitWithoutGapOrOverlap(t *testing.T) {
	t.Parallel()
	for partitions := range 20 {
		for count := 1; count <= 8; count++ {
			var all []int
			for index := range count {
				owned := redisstream.Options{Consumer: "c", InstanceCount: count, InstanceIndex: &index}.Owned(partitions)
				assert.LessOrEqual(t, len(owned), partitions/count+1)
				all = append(all, owned...)
			}
			require.Len(t, all, partitions)
			require.True(t, slices.IsSorted(all))
			require.Len(t, slices.Compact(all), partitions)
		}
	}
	owned := func(index, count, partitions int) []int {
		return redisstream.Options{Consumer: "c", InstanceCount: count, InstanceIndex: &index}.Owned(partitions)
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
		options redisstream.Options
		env     map[string]string
		want    []int
	}{
		"nothing set":                  {want: []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"count and index":              {env: map[string]string{"STREAMS_INSTANCE_COUNT": "4", "STREAMS_INSTANCE_INDEX": "3"}, want: []int{6, 7}},
		"the pod's ordinal":            {env: map[string]string{"STREAMS_INSTANCE_COUNT": "4", "POD_NAME": "svc-2"}, want: []int{4, 5}},
		"the index before the pod":     {env: map[string]string{"STREAMS_INSTANCE_COUNT": "4", "STREAMS_INSTANCE_INDEX": "1", "POD_NAME": "svc-2"}, want: []int{2, 3}},
		"a pod without ordinal":        {env: map[string]string{"STREAMS_INSTANCE_COUNT": "4", "POD_NAME": "svc-7d4f8b-x2k9p"}, want: []int{0, 1}},
		"options before all":           {options: redisstream.Options{InstanceCount: 4, InstanceIndex: &three}, env: map[string]string{"STREAMS_INSTANCE_COUNT": "8", "STREAMS_INSTANCE_INDEX": "1"}, want: []int{6, 7}},
		"count given, index by pod":    {options: redisstream.Options{InstanceCount: 4}, env: map[string]string{"POD_NAME": "svc-3"}, want: []int{6, 7}},
		"an index beyond the count":    {env: map[string]string{"STREAMS_INSTANCE_COUNT": "2", "STREAMS_INSTANCE_INDEX": "2"}, want: nil},
		"a count that is not a number": {env: map[string]string{"STREAMS_INSTANCE_COUNT": "two"}, want: []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"a count of zero":              {env: map[string]string{"STREAMS_INSTANCE_COUNT": "0"}, want: []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"a negative index":             {env: map[string]string{"STREAMS_INSTANCE_COUNT": "4", "STREAMS_INSTANCE_INDEX": "-1", "POD_NAME": "svc-1"}, want: []int{2, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			setInstance(t, row.env)
			row.options.Consumer = "c"
			row.options.Logger = slog.New(slog.DiscardHandler)
			assert.Equal(t, row.want, row.options.Owned(8))
		})
	}
}

func TestThePodOrdinalIsTheNumberAfterTheLastDash(t *testing.T) {
	t.Parallel()
	for pod, want := range map[string]int{"svc-3": 3, "svc--3": 3, "svc-0": 0, "a-b-17": 17} {
		ordinal, found := redisstream.PodOrdinal(pod)
		assert.True(t, found, pod)
		assert.Equal(t, want, ordinal, pod)
	}
	for _, pod := range []string{"svc-7d4f8b-x2k9p", "-3", "svc-", "svc", "", "svc-99999999999", "svc-+3"} {
		_, found := redisstream.PodOrdinal(pod)
		assert.False(t, found, pod)
	}
}

func TestAnInstanceWithoutPartitionsReportsIt(t *testing.T) {
	setInstance(t, map[string]string{"POD_NAME": "svc-3"})
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 2)
		e.run(&recorder{})
		testkit.Pass(time.Second)
		assert.Contains(t, e.consumer.Status().Error, "instance 3 of 1 owns none of the topic's 2 partitions")
		assert.Equal(t, 1, e.log.Count("no partition owned"))
	})
}

func TestTheInstanceIDIsDerivedFromThePod(t *testing.T) {
	setInstance(t, map[string]string{"POD_NAME": "svc-0"})
	assert.Equal(t, "1b3a45ca-59c5-d080-8e1c-02429c2efc50", redisstream.InstanceID())
	setInstance(t, map[string]string{"STREAMS_INSTANCE_INDEX": "0"})
	indexed := redisstream.InstanceID()
	assert.Equal(t, indexed, redisstream.InstanceID())
	setInstance(t, nil)
	random := redisstream.InstanceID()
	assert.NotEqual(t, random, redisstream.InstanceID())
}

// During a rolling deploy two processes may have the same instance id. What the old one, which is idle, writes again must not
// undo the reset that the new one has taken.
func TestAResetSurvivesAnotherProcessWithTheSameInstanceID(t *testing.T) {
	setInstance(t, map[string]string{"STREAMS_INSTANCE_INDEX": "0"})
	server, client := redisEnv(t, &redis.Options{PoolSize: 20})
	operator, err := admin.New(client, "claims", admin.Options{Consumer: "payout"})
	require.NoError(t, err)
	for n := 1; n <= 500; n++ {
		add(t, server, fmt.Sprintf("%d-0", n), "b", "{}")
	}
	var down atomic.Bool
	handler := claimHandler(func(context.Context, []claimMessage) error {
		if down.Load() {
			return testkit.ErrBoom
		}
		return nil
	})
	var processes sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for _, interval := range []time.Duration{time.Second, 20 * time.Millisecond} {
		consumer, err := redisstream.NewConsumer(client, redisstream.Topic("claims"), decodeClaim, handler,
			redisstream.Options{Consumer: "payout", Block: 10 * time.Millisecond, PersistInterval: interval})
		require.NoError(t, err)
		processes.Go(func() { assert.NoError(t, consumer.Run(ctx)) })
	}
	stored := func() string { return server.HGet("p:{claims}:payout", "0") }
	require.Eventually(t, func() bool { return strings.HasPrefix(stored(), "500-0|") }, 5*time.Second, 10*time.Millisecond)
	time.Sleep(1500 * time.Millisecond) // real time: the old process has written as well
	down.Store(true)
	_, err = operator.Reset(t.Context(), 0, admin.ToID("100-0"))
	require.NoError(t, err)
	time.Sleep(2500 * time.Millisecond) // real time: two intervals of the old process
	assert.Regexp(t, `^100-0\|`, stored(), "nothing after 100-0 was accepted since the reset")
	stop()
	processes.Wait()
}

// setInstance sets these variables of the instance, and empties the others.
func setInstance(t *testing.T, env map[string]string) {
	t.Helper()
	for _, name := range []string{"STREAMS_INSTANCE_COUNT", "STREAMS_INSTANCE_INDEX", "POD_NAME"} {
		t.Setenv(name, env[name])
	}
}
