package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// The other tests rely on this: a key runs once over repeats and kills, and its service would count a second run.
func TestRestateRunsAKeyOnceUntilItIsPurged(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{Env: []string{"RESTATE_WORKER__CLEANUP_INTERVAL=5s"}})
	service := payout.StartService(t, "")
	register(t, restate, service)
	type answer struct{ InvocationID, Status string }
	send := func(input string) (sent answer) {
		t.Helper()
		code, text := request(t, http.MethodPost, restate.Ingress()+"/"+payout.Workflow+"/it's%20k-1/"+payout.Handler+"/send", input)
		require.Equal(t, http.StatusAccepted, code)
		require.NoError(t, json.Unmarshal(text, &sent))
		return sent
	}
	first := send(`{"betId":"b-1","amount":12.5}`)
	assert.Equal(t, "Accepted", first.Status)
	require.NoError(t, restate.Kill())
	require.NoError(t, restate.Restart(t.Context()))
	assert.Equal(t, answer{first.InvocationID, "PreviouslyAccepted"}, send(`{"betId":"b-1","amount":99}`))
	awaitCompleted(t, restate, payout.Workflow, 1)
	keys, err := restate.StartedKeys(t.Context(), payout.Workflow)
	require.NoError(t, err)
	assert.Equal(t, []string{"it's k-1"}, keys)
	assert.Equal(t, map[string]int{"it's k-1": 1}, service.Executions())

	code, _ := request(t, http.MethodPatch, restate.Admin()+"/invocations/"+first.InvocationID+"/purge", "")
	require.Equal(t, 2, code/100)
	kit.Await(t, func() bool {
		counts, err := restate.CountByStatus(t.Context(), payout.Workflow)
		return err == nil && len(counts) == 0
	})
	assert.Equal(t, first, send(`{"betId":"b-1","amount":12.5}`), "the same id is accepted as if it were new")
	awaitCompleted(t, restate, payout.Workflow, 1)
	assert.Equal(t, map[string]int{"it's k-1": 2}, service.Executions())
}

// oddKeys are what a path, a query, a proxy or a terminal could misread.
func oddKeys() []string {
	return []string{
		"a/b", "a b", "a+b", "100%", "%2F", "x?y", "x#y", "..", ".", "ü", "日本語", "🎲", "two\nlines", strings.Repeat("k", 512),
		`a"b\c`, "a|b^c`d", "a;b", "a:b@c", "/", "//", " ", "\t", "a&b=c", "'", "<&>", "é", "e\u0301", "\x00", "restate", "send",
	}
}

// The second path style starts nothing anew: it names the same keys.
func TestOddKeysArriveAsGivenByEitherPath(t *testing.T) {
	t.Parallel()
	restate, service, _ := startPayouts(t)
	keys := oddKeys()
	for _, style := range []restatestart.PathStyle{restatestart.PathSend, restatestart.PathRestateSend} {
		startKeys(t, restate, keys, restatestart.Options{PathStyle: style}, 0)
		awaitCompleted(t, restate, payout.Workflow, len(keys))
		started, err := restate.StartedKeys(t.Context(), payout.Workflow)
		require.NoError(t, err)
		slices.Sort(started)
		assert.Equal(t, slices.Sorted(slices.Values(keys)), started)
		assert.Len(t, service.Executions(), len(keys))
		for _, key := range keys {
			assert.Equal(t, 1, service.Executions()[key], "runs of %q", key)
			assert.Equal(t, payout.Input{BetID: key, Amount: 1}, service.Inputs()[key])
		}
	}
}

func TestADelayedStartIsScheduled(t *testing.T) {
	t.Parallel()
	restate, service, _ := startPayouts(t)
	for _, style := range []restatestart.PathStyle{restatestart.PathSend, restatestart.PathRestateSend} {
		key := fmt.Sprintf("style-%d", style)
		before := time.Now().Truncate(time.Millisecond)
		startKeys(t, restate, []string{key}, restatestart.Options{PathStyle: style}, time.Hour)
		after := time.Now()
		// All columns: the server omits the time when it is selected by name.
		rows, err := restate.Query(t.Context(), "SELECT * FROM sys_invocation WHERE target_service_key = '"+key+"'")
		require.NoError(t, err)
		require.Len(t, rows, 1)
		assert.Equal(t, "scheduled", rows[0]["status"])
		text, _ := rows[0]["scheduled_start_at"].(string)
		due, err := time.Parse(time.RFC3339Nano, text)
		require.NoError(t, err)
		assert.WithinRange(t, due, before.Add(time.Hour), after.Add(time.Hour))
	}
	assert.Empty(t, service.Inputs())
}

// startKeys starts the workflow for each key in one batch.
func startKeys(t *testing.T, restate *servers.Restate, keys []string, options restatestart.Options, delay time.Duration) {
	t.Helper()
	options.Ingress = restate.Ingress()
	starter, err := restatestart.New(nil, func(m *restatestart.Message[string]) (restatestart.Start, error) {
		return restatestart.Start{
			Workflow: payout.Workflow, Key: m.Value, Delay: delay, Input: payout.Input{BetID: m.Value, Amount: 1},
		}, nil
	}, options)
	require.NoError(t, err)
	defer starter.CloseIdleConnections()
	batch := make([]restatestart.Message[string], len(keys))
	for i, key := range keys {
		batch[i] = restatestart.Message[string]{Value: key, ID: fmt.Sprintf("1-%d", i+1), Stream: "s:{keys}:0"}
	}
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	require.NoError(t, starter.Handle(ctx, batch))
}

// request makes one request and returns the answer's status and body.
func request(t *testing.T, method, target, body string) (code int, text []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Close = true // no idle connection is left for the leak check to find
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err = io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, text
}
