package restatestart_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

const (
	svc0    = "1b3a45ca-59c5-d080-8e1c-02429c2efc50"
	written = "2026-09-06T11:22:33.4440000+00:00"
)

// positionsOn is a Positions of consumer payout on topic claims, on a Redis double. What needs the real thing, what
// was trimmed for one, is tested end to end.
func positionsOn(t *testing.T) (*miniredis.Miniredis, *redis.Client, *restatestart.Positions) {
	t.Helper()
	server, client := redisWorld(t, &redis.Options{MaxRetries: -1})
	positions, err := restatestart.NewPositions(client, "claims", restatestart.PositionsOptions{Consumer: "payout"})
	require.NoError(t, err)
	return server, client, positions
}

// addEntries adds entries <from>-0 to <to>-0 to a partition.
func addEntries(t *testing.T, server *miniredis.Miniredis, partition, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		_, err := server.XAdd(fmt.Sprintf("s:{claims}:%d", partition), fmt.Sprintf("%d-0", n), []string{"b", "{}"})
		require.NoError(t, err)
	}
}

func TestNewPositionsNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	_, client := redisWorld(t, &redis.Options{})
	for text, row := range map[string]struct {
		client  redis.UniversalClient
		topic   string
		options restatestart.PositionsOptions
	}{
		"the Redis client is nil":               {(*redis.Client)(nil), "claims", restatestart.PositionsOptions{Consumer: "payout"}},
		"the topic is empty":                    {client, "", restatestart.PositionsOptions{Consumer: "payout"}},
		`the topic "{claims}" holds braces`:     {client, "{claims}", restatestart.PositionsOptions{Consumer: "payout"}},
		"PositionsOptions.Consumer: a name":     {client, "claims", restatestart.PositionsOptions{}},
		`PositionsOptions.Consumer: "x:meta"`:   {client, "claims", restatestart.PositionsOptions{Consumer: "x:meta"}},
		"PositionsOptions.Partitions: -1 is ne": {client, "claims", restatestart.PositionsOptions{Consumer: "payout", Partitions: -1}},
	} {
		_, err := restatestart.NewPositions(row.client, row.topic, row.options)
		require.ErrorContains(t, err, "restatestart: "+text)
	}
}

func TestPositionsAreListedPartitionByPartition(t *testing.T) {
	t.Parallel()
	server, _, positions := positionsOn(t)
	server.HSet("m:{claims}", "partitions", "4", "v", "1")
	addEntries(t, server, 0, 1, 9)
	addEntries(t, server, 1, 5, 6)
	addEntries(t, server, 2, 1, 3)
	server.HSet("p:{claims}:payout", "0", "4-0|"+svc0, "1", "6-0|junk", "2", "no position", "7", "1-1|"+restatestart.PositionsAdmin,
		"__reset:1", "5-0|"+written, "__reset:2", "no reset", "x", "1-1|"+svc0, "03", "1-1|"+svc0, "-1", "1-1")
	server.HSet("p:{claims}:payout:meta", "0:updatedUtc", written, "0:instanceId", svc0, "1:updatedUtc", "yesterday")

	list, err := positions.List(t.Context())
	require.NoError(t, err)
	at := time.Date(2026, 9, 6, 11, 22, 33, 444_000_000, time.UTC)
	lag := func(n int64) *int64 { return &n }
	assert.Equal(t, []restatestart.PartitionPosition{
		{Partition: 0, Stream: "s:{claims}:0", Position: "4-0", Writer: svc0, WrittenAt: at, Length: 9, First: "1-0", Last: "9-0", Lag: lag(5)},
		{
			Partition: 1, Stream: "s:{claims}:1", Position: "6-0", Length: 2, First: "5-0", Last: "6-0", Lag: lag(0),
			Pending: &restatestart.PendingReset{To: "5-0", Issued: at},
		},
		{Partition: 2, Stream: "s:{claims}:2", Unreadable: "no position", Length: 3, First: "1-0", Last: "3-0"},
		{Partition: 3, Stream: "s:{claims}:3", Missing: true},
		{Partition: 7, Stream: "s:{claims}:7", Missing: true, Position: "1-1", Writer: restatestart.PositionsAdmin, Lag: lag(0)},
	}, list)
	encoded, err := json.Marshal(list[1:4:4][2])
	require.NoError(t, err)
	assert.JSONEq(t, `{"partition": 3, "stream": "s:{claims}:3", "missing": true, "length": 0}`, string(encoded))
}

func TestTheLagIsExactWhereverThePositionIs(t *testing.T) {
	t.Parallel()
	for position, want := range map[string]int64{
		"0-0": 10, "10-5": 10, "11-0": 9, "15-3": 5, "19-0": 1, "20-0": 0, "99-0": 0,
	} {
		server, _, positions := positionsOn(t)
		addEntries(t, server, 0, 11, 20)
		server.HSet("p:{claims}:payout", "0", position+"|"+svc0)
		list, err := positions.List(t.Context())
		require.NoError(t, err)
		require.Len(t, list, 1, "without a meta hash there is one partition")
		require.NotNil(t, list[0].Lag, position)
		assert.Equal(t, want, *list[0].Lag, position)
	}
}

func TestPartitionsOfATopicWithoutAMetaHashAreOptions(t *testing.T) {
	t.Parallel()
	server, client, _ := positionsOn(t)
	options := restatestart.PositionsOptions{Consumer: "payout", Partitions: 3, KeyPrefix: "dev:re:"}
	positions, err := restatestart.NewPositions(client, "claims", options)
	require.NoError(t, err)
	list, err := positions.List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 3)
	assert.Equal(t, "dev:re:s:{claims}:2", list[2].Stream)

	server.HSet("dev:re:m:{claims}", "partitions", "4")
	_, err = positions.List(t.Context())
	require.EqualError(t, err, "restatestart: list positions of consumer payout on topic claims: PositionsOptions.Partitions is 3, the topic has 4")
	server.HSet("dev:re:m:{claims}", "v", "2")
	_, err = positions.List(t.Context())
	require.ErrorContains(t, err, "unknown wire version 2, this package reads 1")
	_, err = positions.Reset(t.Context(), 0, restatestart.ToBeginning())
	require.ErrorContains(t, err, "unknown wire version 2")
}

func TestErrorsOfRedisAreWrappedWithWhatWasBeingDone(t *testing.T) {
	t.Parallel()
	server, _, positions := positionsOn(t)
	require.NoError(t, server.Set("s:{claims}:0", "a string"))
	_, err := positions.List(t.Context())
	require.ErrorContains(t, err, "restatestart: list positions of consumer payout on topic claims: look at partition 0: ")
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NoError(t, server.Set("p:{claims}:payout", "a string"))
	_, err = positions.List(t.Context())
	require.ErrorContains(t, err, "read positions from p:{claims}:payout: ")
	_, err = positions.Reset(t.Context(), 0, restatestart.ToEnd())
	require.ErrorContains(t, err, "restatestart: reset partition 0 of consumer payout on topic claims: look at partition 0: ")
	_, err = positions.Withdraw(t.Context(), 0)
	require.ErrorContains(t, err, "withdraw the reset of partition 0 of consumer payout on topic claims: ")
	server.Close()
	_, err = positions.Preview(t.Context(), 0, restatestart.ToEnd())
	require.ErrorContains(t, err, "preview a reset of partition 0 of consumer payout on topic claims: read topic meta m:{claims}: ")
}

// Each call counts as much as the server does in a short time, so that it serves others in between, and the context is
// looked at between them. With entries as large as these that is thirty.
func TestCountingGoesInStepsAndEndsWithTheContext(t *testing.T) {
	t.Parallel()
	server, client, positions := positionsOn(t)
	body := strings.Repeat("x", 50_000)
	for n := 1; n <= 260; n++ {
		_, err := server.XAdd("s:{claims}:0", fmt.Sprintf("%d-0", n), []string{"b", body})
		require.NoError(t, err)
	}
	server.HSet("p:{claims}:payout", "0", "250-0|"+svc0)
	scripts := &scriptCounter{}
	client.AddHook(scripts)
	preview, err := positions.Preview(t.Context(), 0, restatestart.ToID("7-0"))
	require.NoError(t, err)
	assert.EqualValues(t, 243, preview.Again)
	assert.Equal(t, 1+9, scripts.ran, "one look and nine steps")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	scripts.ran, scripts.after = 0, func() {
		if scripts.ran == 2 {
			cancel()
		}
	}
	_, err = positions.Reset(ctx, 0, restatestart.ToID("7-0"))
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, "250-0|"+svc0, server.HGet("p:{claims}:payout", "0"), "nothing was written")
	assert.LessOrEqual(t, scripts.ran, 3)
}

// scriptCounter counts the scripts that were run.
type scriptCounter struct {
	redis.Hook

	ran   int
	after func()
}

func (c *scriptCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *scriptCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *scriptCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		if (command.Name() == "evalsha" || command.Name() == "eval") && err == nil {
			c.ran++
			if c.after != nil {
				c.after()
			}
		}
		return err
	}
}
