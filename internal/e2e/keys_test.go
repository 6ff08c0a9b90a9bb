package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// oddKeys are what a path, a query, a proxy or a terminal could take for something else.
func oddKeys() []string {
	return []string{
		"a/b", "a b", "a+b", "100%", "%2F", "x?y", "x#y", "..", ".", "ü", "日本語", "🎲", "two\nlines", strings.Repeat("k", 512),
		`a"b\c`, "a|b^c`d", "a;b", "a:b@c", "/", "//", " ", "\t", "a&b=c", "'", "<&>", "é", "e\u0301", "\x00", "restate", "send",
	}
}

func TestOddKeysArriveAsGivenByEitherPath(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	const sendFirst, sendSecond = "SendFirst", "SendSecond"
	service := payout.StartService(t, sendFirst, sendSecond)
	register(t, restate, service)
	keys := oddKeys()
	began := time.Now()
	total := counts{}
	for workflow, order := range map[string][]restatestart.PathStyle{
		sendFirst:  {restatestart.PathSend, restatestart.PathRestateSend},
		sendSecond: {restatestart.PathRestateSend, restatestart.PathSend},
	} {
		for i, style := range order {
			got := startKeys(t, restate, workflow, keys, restatestart.Options{PathStyle: style}, 0)
			if i == 0 {
				assert.Equal(t, counts{Accepted: len(keys)}, got, "%s by path style %d", workflow, style)
			} else {
				assert.Equal(t, counts{Repeated: len(keys)}, got, "%s by path style %d, the same starts", workflow, style)
			}
			total.Accepted += got.Accepted
			total.Repeated += got.Repeated
		}
		awaitCompleted(t, restate, workflow, len(keys))
		started, err := restate.StartedKeys(t.Context(), workflow)
		require.NoError(t, err)
		slices.Sort(started)
		assert.Equal(t, slices.Sorted(slices.Values(keys)), started)
		record := service.Of(workflow)
		for _, key := range keys {
			assert.Equal(t, 1, record.Executions()[key], "runs of %q", key)
			assert.Equal(t, payout.Input{BetID: key, Amount: 1}, record.Inputs()[key])
		}
		assert.Len(t, record.Executions(), len(keys))
	}
	t.Logf("%d keys by two paths each way in %.1f s: %s", len(keys), time.Since(began).Seconds(), total)
}

func TestADelayedStartIsScheduled(t *testing.T) {
	t.Parallel()
	restate, service := startPayouts(t)
	for _, style := range []restatestart.PathStyle{restatestart.PathSend, restatestart.PathRestateSend} {
		key := fmt.Sprintf("style-%d", style)
		before := time.Now().Truncate(time.Millisecond)
		got := startKeys(t, restate, payout.Workflow, []string{key}, restatestart.Options{PathStyle: style}, time.Hour)
		after := time.Now()
		assert.Equal(t, counts{Accepted: 1}, got)
		// All columns: the server leaves the time out when it is asked for by name.
		rows, err := restate.Query(t.Context(), "SELECT * FROM sys_invocation WHERE target_service_key = '"+key+"'")
		require.NoError(t, err)
		require.Len(t, rows, 1)
		assert.Equal(t, "scheduled", rows[0]["status"])
		text, _ := rows[0]["scheduled_start_at"].(string)
		due, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(t, err)
		assert.WithinRange(t, due, before.Add(time.Hour), after.Add(time.Hour))
		t.Logf("1 start, due in %.3f s", due.Sub(before).Seconds())
	}
	status, err := restate.CountByStatus(t.Context(), payout.Workflow)
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"scheduled": 2}, status)
	assert.Empty(t, service.Attempts())
}

// startKeys starts the workflow for each key in one batch and returns what it was answered.
func startKeys(
	t *testing.T, restate *servers.Restate, workflow string, keys []string, options restatestart.Options, delay time.Duration,
) counts {
	t.Helper()
	answers := newTally()
	options.Ingress, options.HTTPClient = restate.Ingress(), answers.client()
	starter, err := restatestart.New(nil, func(m *restatestart.Message[string]) (restatestart.Start, error) {
		return restatestart.Start{
			Workflow: workflow, Key: m.Value, Delay: delay, Input: payout.Input{BetID: m.Value, Amount: 1},
		}, nil
	}, options)
	require.NoError(t, err)
	defer starter.CloseIdleConnections()
	batch := make([]restatestart.Message[string], len(keys))
	for i, key := range keys {
		batch[i] = restatestart.Message[string]{Value: key, ID: fmt.Sprintf("1-%d", i+1), Stream: "s:{keys}:0"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, starter.Handle(ctx, batch))
	return answers.now()
}
