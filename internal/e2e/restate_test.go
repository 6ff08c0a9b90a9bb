package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

const (
	patience = 15 * time.Second
	interval = 20 * time.Millisecond
)

func TestOneStartRunsOnceOverRepeatsAndAKill(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	t.Log("restate-server", restate.Version())
	service := payout.StartService(t)
	_, err := restate.Register(t.Context(), service.URL())
	require.NoError(t, err)

	accepted := send(t, restate, payout.Workflow, "k-1", `{"betId":"b-1","amount":12.5}`)
	assert.Equal(t, "Accepted", accepted.Status)
	repeated := send(t, restate, payout.Workflow, "k-1", `{"betId":"b-1","amount":99}`)
	assert.Equal(t, answer{Code: http.StatusAccepted, InvocationID: accepted.InvocationID, Status: "PreviouslyAccepted"}, repeated)
	awaitCompleted(t, restate, payout.Workflow, 1)

	require.NoError(t, restate.Kill())
	require.NoError(t, restate.Restart(t.Context()))

	assert.Equal(t, "PreviouslyAccepted", send(t, restate, payout.Workflow, "k-1", `{"betId":"b-1","amount":99}`).Status)
	assert.Equal(t, "Accepted", send(t, restate, payout.Workflow, "it's k-2", `{"betId":"b-2","amount":1}`).Status)
	awaitCompleted(t, restate, payout.Workflow, 2)

	keys, err := restate.StartedKeys(t.Context(), payout.Workflow)
	require.NoError(t, err)
	assert.Equal(t, []string{"it's k-2", "k-1"}, keys)
	assert.Equal(t, map[string]int{"k-1": 1, "it's k-2": 1}, service.Executions())
	assert.Equal(t, map[string]payout.Input{
		"k-1":      {BetID: "b-1", Amount: 12.5},
		"it's k-2": {BetID: "b-2", Amount: 1},
	}, service.Inputs())
	attempt := service.Attempts()["k-1"][0]
	assert.Equal(t, accepted.InvocationID, attempt.InvocationID)
	assert.JSONEq(t, `{"betId":"b-1","amount":12.5}`, string(attempt.Body))
	assert.Equal(t, "application/json", attempt.Header["content-type"])
}

func TestStartsInFlightDuringAKillCompleteOnce(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	service := payout.StartService(t)
	_, err := restate.Register(t.Context(), service.URL())
	require.NoError(t, err)

	const starts = 20
	once := make(map[string]int)
	for n := range starts {
		key := fmt.Sprintf("k-%02d", n)
		require.Equal(t, http.StatusAccepted, send(t, restate, payout.Workflow, key, `{"betId":"b","amount":1}`).Code)
		once[key] = 1
	}
	require.NoError(t, restate.Kill())
	require.NoError(t, restate.Restart(t.Context()))

	awaitCompleted(t, restate, payout.Workflow, starts)
	assert.Equal(t, once, service.Executions())
	keys, err := restate.StartedKeys(t.Context(), payout.Workflow)
	require.NoError(t, err)
	assert.Len(t, keys, starts)
	for key, payments := range service.Payments() {
		assert.LessOrEqual(t, payments, len(service.Attempts()[key]), "no attempt pays twice: %s", key)
	}
}

func TestAPurgedKeyThatRunsAgainCountsTwice(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{CleanupInterval: 5 * time.Second})
	service := payout.StartService(t)
	_, err := restate.Register(t.Context(), service.URL())
	require.NoError(t, err)

	first := send(t, restate, payout.Workflow, "k-1", `{"betId":"b","amount":1}`)
	awaitCompleted(t, restate, payout.Workflow, 1)
	request(t, http.MethodPatch, restate.Admin()+"/invocations/"+first.InvocationID+"/purge", "")
	require.Eventually(t, func() bool {
		counts, err := restate.CountByStatus(t.Context(), payout.Workflow)
		return err == nil && len(counts) == 0
	}, patience, interval)

	second := send(t, restate, payout.Workflow, "k-1", `{"betId":"b","amount":1}`)
	assert.Equal(t, first, second, "the same id is accepted as if it were new")
	awaitCompleted(t, restate, payout.Workflow, 1)
	assert.Equal(t, map[string]int{"k-1": 2}, service.Executions())
	assert.Equal(t, map[string]int{"k-1": 2}, service.Payments())
}

func TestWorkflowsAreUnknownUntilTheyAreRegistered(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	early := payout.StartService(t, "BonusPayout", "Refund")
	late := payout.StartService(t, "LatePayout")
	deployment, err := restate.Register(t.Context(), early.URL())
	require.NoError(t, err)
	again, err := restate.Register(t.Context(), early.URL())
	require.NoError(t, err)
	assert.Equal(t, deployment, again)

	assert.Equal(t, http.StatusNotFound, send(t, restate, "LatePayout", "k-1", `{}`).Code)
	_, err = restate.Register(t.Context(), late.URL())
	require.NoError(t, err)
	for _, workflow := range []string{"BonusPayout", "Refund", "LatePayout"} {
		assert.Equal(t, "Accepted", send(t, restate, workflow, "k-1", `{}`).Status, workflow)
		awaitCompleted(t, restate, workflow, 1)
	}
	once := map[string]int{"k-1": 1}
	assert.Equal(t, once, early.Executions())
	assert.Equal(t, once, early.Of("Refund").Executions())
	assert.Equal(t, once, late.Executions())
	assert.Nil(t, late.Of("BonusPayout"))

	require.NoError(t, restate.Unregister(t.Context(), deployment))
	assert.Equal(t, http.StatusNotFound, send(t, restate, "Refund", "k-1", `{}`).Code)
	_, err = restate.Register(t.Context(), early.URL())
	require.NoError(t, err)
	assert.Equal(t, "PreviouslyAccepted", send(t, restate, "Refund", "k-1", `{}`).Status)
}

func TestRestateSaysWhatItRefuses(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{Env: []string{"RESTATE_INGRESS__REQUEST_SIZE_LIMIT=1 KiB"}})

	keys, err := restate.StartedKeys(t.Context(), "Nobody")
	require.NoError(t, err)
	assert.Empty(t, keys)

	for statement, status := range map[string]int{
		"SELEC":                              http.StatusBadRequest,
		"SELECT id FROM nowhere":             http.StatusInternalServerError,
		"SELECT nothing FROM sys_invocation": http.StatusInternalServerError,
		"SELECT id FROM sys_invocation WHERE id = 'none'": http.StatusInternalServerError,
	} {
		asked := time.Now()
		_, err := restate.Query(t.Context(), statement)
		var refusal *servers.AdminError
		require.ErrorAs(t, err, &refusal, statement)
		assert.Equal(t, status, refusal.Status, statement)
		assert.Less(t, time.Since(asked), patience, "no statement is tried again: %s", statement)
	}

	service := payout.StartService(t)
	require.NoError(t, service.Close())
	_, err = restate.Register(t.Context(), service.URL())
	var refusal *servers.AdminError
	require.ErrorAs(t, err, &refusal)
	assert.Equal(t, "META0003", refusal.Code)

	assert.Equal(t, http.StatusRequestEntityTooLarge, send(t, restate, "Any", "k-1", strings.Repeat(" ", 1<<11)).Code)

	require.NoError(t, restate.Terminate())
	_, err = http.Get(restate.Admin() + "/health")
	require.Error(t, err)
	require.NoError(t, restate.Restart(t.Context()))
	assert.Equal(t, http.StatusOK, request(t, http.MethodGet, restate.Admin()+"/health", "").Code)
}

// answer is what a send was answered with.
type answer struct {
	Code         int    `json:"-"`
	InvocationID string `json:"invocationId"`
	Status       string `json:"status"`
}

func send(t *testing.T, restate *servers.Restate, workflow, key, body string) answer {
	t.Helper()
	target := restate.Ingress() + "/" + workflow + "/" + strings.ReplaceAll(key, " ", "%20") + "/" + payout.Handler + "/send"
	return request(t, http.MethodPost, target, body)
}

func request(t *testing.T, method, target, body string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(body))
	require.NoError(t, err)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	// One connection for each request: nothing is left idle for the leak check to find.
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	got := answer{Code: response.StatusCode}
	if response.StatusCode == http.StatusAccepted && len(text) > 0 {
		require.NoError(t, json.Unmarshal(text, &got), "%s", text)
	}
	return got
}

// awaitCompleted waits until Restate holds n starts of workflow, all completed.
func awaitCompleted(t *testing.T, restate *servers.Restate, workflow string, n int) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		counts, err := restate.CountByStatus(t.Context(), workflow)
		assert.NoError(c, err)
		assert.Equal(c, map[string]int{"completed": n}, counts)
	}, patience, interval)
}
