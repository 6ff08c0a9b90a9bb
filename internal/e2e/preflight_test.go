package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// strictRun is a Run whose preflight is strict, which is expected to fail at it.
func strictRun(t *testing.T, bets *topic, restate *servers.Restate, window time.Duration, workflows ...restatestart.PreflightWorkflow) error {
	t.Helper()
	consumer, err := restatestart.NewConsumer(bets.client, bets.Topic, restatestart.JSON[bet], &handled{}, restatestart.ConsumerOptions{
		Consumer: consumerName, Logger: logTo(t),
		Preflight: &restatestart.Preflight{AdminURL: restate.Admin(), Workflows: workflows, RedeliveryWindow: window, Strict: true},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-time.After(interval):
			if consumer.Status().State == restatestart.StateRunning {
				cancel() // it passed
			}
		}
	}
}

func TestAStrictPreflightOnARealServer(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	_, err := restate.Register(t.Context(), serveKinds(t))
	require.NoError(t, err)
	redis := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	bets := newTopic(t, connect(t, redis.Addr()), "bets_settled", 1)
	const day = 24 * time.Hour
	type workflow = restatestart.PreflightWorkflow
	bonus := workflow{Name: payout.Workflow}

	for name, row := range map[string]struct {
		ask    workflow
		window time.Duration
		want   restatestart.PreflightCode // of the one finding; empty: none
	}{
		"all is well":          {bonus, day, ""},
		"no input":             {workflow{Name: "NonePayout", Input: restatestart.InputNone}, 0, ""},
		"bytes may be none":    {workflow{Name: "BytesPayout", Input: restatestart.InputNone}, 0, ""},
		"any JSON":             {workflow{Name: "AnyPayout"}, 0, ""},
		"not registered":       {workflow{Name: "Nope"}, 0, restatestart.PreflightUnknownWorkflow},
		"another handler name": {workflow{Name: payout.Workflow, Handler: "Run"}, 0, restatestart.PreflightUnknownHandler},
		"a shared handler":     {workflow{Name: payout.Workflow, Handler: "status"}, 0, restatestart.PreflightSharedHandler},
		"a service":            {workflow{Name: "PlainPayout"}, 0, restatestart.PreflightNotWorkflow},
		"an object":            {workflow{Name: "ObjectPayout"}, 0, restatestart.PreflightNotWorkflow},
		"a private workflow":   {workflow{Name: "PrivatePayout"}, 0, restatestart.PreflightPrivate},
		"a private handler":    {workflow{Name: "PrivateHandlerPayout"}, 0, restatestart.PreflightPrivate},
		"JSON for none":        {workflow{Name: "NonePayout"}, 0, restatestart.PreflightInput},
		"none for JSON":        {workflow{Name: payout.Workflow, Input: restatestart.InputNone}, 0, restatestart.PreflightInput},
		"forgotten too soon":   {bonus, day + time.Second, restatestart.PreflightRetention},
		"forgotten by its SDK": {workflow{Name: "ShortPayout"}, 2 * time.Hour, restatestart.PreflightRetention},
		"forgotten at once":    {workflow{Name: "ZeroPayout"}, time.Second, restatestart.PreflightRetention},
	} {
		err := strictRun(t, bets, restate, row.window, row.ask)
		if row.want == "" {
			require.NoError(t, err, name)
			continue
		}
		failed, is := errors.AsType[*restatestart.PreflightError](err)
		require.True(t, is, name)
		require.Len(t, failed.Findings, 1, name)
		assert.Equal(t, row.want, failed.Findings[0].Code, name)
	}

	// The same once more after it was mended, and unmended.
	patch := func(body string) {
		t.Helper()
		require.Equal(t, http.StatusOK, request(t, http.MethodPatch, restate.Admin()+"/services/"+payout.Workflow, body).Code)
	}
	patch(`{"workflow_completion_retention":"7d"}`)
	require.NoError(t, strictRun(t, bets, restate, 7*day, bonus))
	require.ErrorContains(t, strictRun(t, bets, restate, 8*day, bonus), "BonusPayout: it is forgotten 7d after its completion")
	patch(`{"public":false}`)
	err = strictRun(t, bets, restate, 0, bonus)
	failed, is := errors.AsType[*restatestart.PreflightError](err)
	require.True(t, is)
	require.Len(t, failed.Findings, 1, "%s", err)
	assert.Equal(t, restatestart.PreflightPrivate, failed.Findings[0].Code)

	// The ingress is not the admin API.
	consumer, err := restatestart.NewConsumer(bets.client, bets.Topic, restatestart.JSON[bet], &handled{}, restatestart.ConsumerOptions{
		Consumer:  consumerName,
		Preflight: &restatestart.Preflight{AdminURL: restate.Ingress(), Workflows: []workflow{bonus}, Strict: true},
	})
	require.NoError(t, err)
	require.ErrorContains(t, consumer.Run(t.Context()), "BonusPayout: the admin API was not of help: answer 404")
}

func TestAStrictPreflightWaitsForTheServers(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	service := payout.StartService(t)
	_, err := restate.Register(t.Context(), service.URL())
	require.NoError(t, err)
	redis := servers.StartRedis(t, servers.RedisOptions{})
	client := connect(t, redis.Addr())
	bets := newTopic(t, client, "bets_settled", 1)
	bets.addTo(t, 0, bet{ID: "b-1", Amount: 1, Claim: "c-1"})
	require.NoError(t, restate.Kill())
	require.NoError(t, redis.Kill())

	starter, _ := newStarter(t, restate, restatestart.Options{})
	consumer := run(t, client, bets, starter, restatestart.ConsumerOptions{HoldMin: 50 * time.Millisecond, HoldMax: 200 * time.Millisecond, Preflight: &restatestart.Preflight{
		AdminURL: restate.Admin(), Workflows: []restatestart.PreflightWorkflow{{Name: payout.Workflow}}, RedeliveryWindow: time.Hour, Strict: true,
	}})
	require.Eventually(t, func() bool { return consumer.Status().Preflight.Error != "" }, patience, interval)
	assert.Equal(t, restatestart.StateStarting, consumer.Status().State)
	require.NoError(t, restate.Restart(t.Context()))
	require.Eventually(t, func() bool { return consumer.Status().Preflight.State == restatestart.PreflightPassed }, patience, interval)
	assert.Equal(t, restatestart.StateStarting, consumer.Status().State)
	require.True(t, consumer.alive())
	require.NoError(t, redis.Restart(t.Context()))
	awaitCompleted(t, restate, payout.Workflow, 1)
	consumer.stop(t)
	assert.Equal(t, map[string]int{"c-1": 1}, service.Executions())
}

// A workflow that is registered late is found then, and what waited for it is started.
func TestAPreflightThatIsNotStrictEndsWhenTheWorkflowIsRegistered(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	redis := servers.StartRedis(t, servers.RedisOptions{})
	client := connect(t, redis.Addr())
	bets := newTopic(t, client, "bets_settled", 1)
	bets.addTo(t, 0, bet{ID: "b-1", Amount: 1, Claim: "c-1"})
	starter, _ := newStarter(t, restate, restatestart.Options{})
	consumer := run(t, client, bets, starter, restatestart.ConsumerOptions{HoldMin: 50 * time.Millisecond, HoldMax: 200 * time.Millisecond, Preflight: &restatestart.Preflight{
		AdminURL: restate.Admin(), Workflows: []restatestart.PreflightWorkflow{{Name: payout.Workflow}},
	}})
	require.Eventually(t, func() bool {
		status := consumer.Status()
		return status.Preflight.State == restatestart.PreflightTrouble && len(status.Partitions) == 1 && status.Partitions[0].Blocked != nil
	}, patience, interval)
	assert.Equal(t, restatestart.PreflightUnknownWorkflow, consumer.Status().Preflight.Findings[0].Code)
	assert.Equal(t, restatestart.ReasonNotFound, consumer.blocked(0).Failed[0].Reason)

	service := payout.StartService(t)
	_, err := restate.Register(t.Context(), service.URL())
	require.NoError(t, err)
	awaitCompleted(t, restate, payout.Workflow, 1)
	require.Eventually(t, func() bool { return consumer.Status().Preflight.State == restatestart.PreflightPassed }, patience, interval)
	consumer.stop(t)
}
