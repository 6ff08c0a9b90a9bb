package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

func get(ctx context.Context, url string) (code int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	body, err = io.ReadAll(response.Body)
	return response.StatusCode, body, errors.Join(err, response.Body.Close())
}

// The whole service, in real time because of its Redis: it is alive while it is blocked, and pays as soon as it can.
func TestTheServicePaysAfterItsWorkflowIsRegistered(t *testing.T) {
	t.Parallel()
	rdb := miniredis.RunT(t)
	ingress, err := restatetest.Listen("127.0.0.1:0", restatetest.WithWorkflow("SomethingElse"))
	require.NoError(t, err)
	defer ingress.Close()
	config := config{redisAddr: rdb.Addr(), ingress: ingress.URL(), keyPrefix: "test:"}
	_, err = rdb.XAdd("test:s:{bets_settled}:0", "*", []string{"b", `{"betId":"b-1","claimId":"c-1","amountCents":5}`, "t", "BetSettled", "k", ""})
	require.NoError(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	listener, stopped := listen(t), make(chan error, 1)
	go func() { stopped <- run(ctx, config, listener, slog.New(slog.DiscardHandler)) }()
	url := "http://" + listener.Addr().String()

	require.Eventually(t, func() bool {
		_, body, err := get(ctx, url+"/readyz")
		return err == nil && strings.Contains(string(body), `"reason": "not_found"`)
	}, 10*time.Second, 20*time.Millisecond)
	code, _, err := get(ctx, url+"/livez")
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, code, "blocked is not dead")
	assert.Empty(t, ingress.StartedKeys("BonusPayout"))

	ingress.Register("BonusPayout")
	require.Eventually(t, func() bool { return len(ingress.StartedKeys("BonusPayout")) == 1 }, 10*time.Second, 20*time.Millisecond)
	ingress.ExpectStarted(t, "BonusPayout", "c-1")

	cancel()
	require.NoError(t, <-stopped)
	assert.Contains(t, rdb.HGet("test:p:{bets_settled}:bonus-payout", "0"), "-", "the position was written")
}

func TestAnInvalidIngressStopsTheService(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), config{redisAddr: "127.0.0.1:1", ingress: "restate"}, listen(t), slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "Options.Ingress")
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return listener
}

func TestTheConfigIsReadFromTheEnvironment(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"REDIS_ADDR": "redis:6379", "KEY_PREFIX": "production:re:", "HTTP_ADDR": ""}
	assert.Equal(t,
		config{redisAddr: "redis:6379", ingress: "http://localhost:8080", httpAddr: ":8090", keyPrefix: "production:re:"},
		readConfig(func(name string) string { return environment[name] }))
}
