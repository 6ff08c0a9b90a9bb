package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/redisstream/admin"
)

func TestPositionsAreThoseOfTheTopicAndOfTheHash(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	e.server.HSet("m:{claims}", "partitions", "4", "v", "1")
	e.add(0, 1, 9)
	e.add(1, 5, 6)
	e.add(2, 1, 3)
	e.server.HSet(positions, "0", "4-0|"+svc0, "1", "6-0|junk", "2", "no position", "7", "1-1|"+admin.Writer,
		"__reset:1", "5-0|"+updatedAt, "__reset:2", "no reset", "x", "1-1|"+svc0, "03", "1-1|"+svc0, "-1", "1-1")
	e.server.HSet(metadata, "0:updatedUtc", updatedAt, "0:instanceId", svc0, "1:updatedUtc", "yesterday")

	list, err := e.client.Positions(t.Context())
	require.NoError(t, err)
	at := time.Date(2026, 9, 6, 11, 22, 33, 444_000_000, time.UTC)
	lag := func(n int64) *int64 { return &n }
	assert.Equal(t, []admin.Position{
		{Partition: 0, Stream: "s:{claims}:0", Position: "4-0", Writer: svc0, WrittenAt: at, Length: 9, First: "1-0", Last: "9-0", Lag: lag(5)},
		{
			Partition: 1, Stream: "s:{claims}:1", Position: "6-0", Length: 2, First: "5-0", Last: "6-0", Lag: lag(0),
			Pending: &admin.PendingReset{To: "5-0", Issued: at},
		},
		{Partition: 2, Stream: "s:{claims}:2", Unreadable: "no position", Length: 3, First: "1-0", Last: "3-0"},
		{Partition: 3, Stream: "s:{claims}:3", Missing: true},
		{Partition: 7, Stream: "s:{claims}:7", Missing: true, Position: "1-1", Writer: admin.Writer, Lag: lag(0)},
	}, list)
	encoded, err := json.Marshal(list[3])
	require.NoError(t, err)
	assert.JSONEq(t, `{"partition": 3, "stream": "s:{claims}:3", "missing": true, "length": 0}`, string(encoded))
}

func TestTheLagIsExactAtAnyPosition(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	e.add(0, 11, 20)
	for position, want := range map[string]int64{
		"0-0": 10, "10-5": 10, "11-0": 9, "15-3": 5, "19-0": 1, "20-0": 0, "99-0": 0,
	} {
		e.store(position + "|" + svc0)
		list, err := e.client.Positions(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1, "without a meta hash there is one partition")
		require.NotNil(t, list[0].Lag, position)
		assert.Equal(t, want, *list[0].Lag, position)
	}
}

func TestPartitionsWithoutAMetaHashAreThoseOfTheOptions(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{Partitions: 3, KeyPrefix: "dev:re:"})
	list, err := e.client.Positions(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 3)
	assert.Equal(t, "dev:re:s:{claims}:2", list[2].Stream)

	e.server.HSet("dev:re:m:{claims}", "partitions", "4")
	_, err = e.client.Positions(t.Context())
	require.EqualError(t, err, "admin: list positions of consumer payout on topic claims: Options.Partitions is 3, the topic has 4")
	e.server.HSet("dev:re:m:{claims}", "v", "2")
	_, err = e.client.Positions(t.Context())
	require.ErrorContains(t, err, "unknown wire version 2, this package reads 1")
	_, err = e.client.Reset(t.Context(), 0, admin.ToBeginning())
	require.ErrorContains(t, err, "unknown wire version 2")
}

// A step is as many entries as the server counts in a short time, thirty of this size, so that it serves others in between.
func TestEntriesAreCountedInStepsUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	body := strings.Repeat("x", 50_000)
	for n := 1; n <= 260; n++ {
		_, err := e.server.XAdd("s:{claims}:0", fmt.Sprintf("%d-0", n), []string{"b", body})
		require.NoError(t, err)
	}
	e.store("250-0|" + svc0)
	scripts := &scripts{}
	e.redis.AddHook(scripts)
	preview, err := e.client.PreviewReset(t.Context(), 0, admin.ToID("7-0"))
	require.NoError(t, err)
	assert.EqualValues(t, 243, preview.Redelivered)
	assert.Equal(t, 1+9, scripts.ran, "one snapshot and nine steps")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	scripts.ran, scripts.after = 0, func() {
		if scripts.ran == 2 {
			cancel()
		}
	}
	_, err = e.client.Reset(ctx, 0, admin.ToID("7-0"))
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, "250-0|"+svc0, e.stored(), "nothing was written")
	assert.LessOrEqual(t, scripts.ran, 3)
}

// scripts counts the scripts that were run.
type scripts struct {
	redis.Hook

	ran   int
	after func()
}

func (s *scripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *scripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *scripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		if (command.Name() == "evalsha" || command.Name() == "eval") && err == nil {
			s.ran++
			if s.after != nil {
				s.after()
			}
		}
		return err
	}
}
