package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/restatetest"
)

// harness is the service, in this process and wired by run, with a real Redis and a fake ingress.
type harness struct {
	ingress *restatetest.Server
	url     string // of the service
}

// newHarness starts the service on a topic of two partitions. The first gets ten messages a second, the second stays empty.
func newHarness(t *testing.T) *harness {
	t.Helper()
	server, err := servers.LaunchRedis(t.Context(), servers.RedisOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	ingress, err := restatetest.Listen("127.0.0.1:0", restatetest.WithWorkflow(workflow))
	require.NoError(t, err)
	t.Cleanup(ingress.Close)
	rdb := server.Client()
	require.NoError(t, rdb.HSet(t.Context(), "m:{"+topic+"}", "v", 1, "partitions", 2).Err())
	for range maxLen { // only a stream at its MAXLEN can be trimmed, and so report when
		require.NoError(t, rdb.XAdd(t.Context(), entry("{}")).Err())
	}

	listener := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	stopped, published := make(chan error, 1), make(chan error, 1)
	go func() {
		// Holds of at most a second: the test lasts seconds, during which the rules see minutes.
		stopped <- run(ctx, config{redisAddr: server.Addr(), ingress: ingress.URL(), holdMax: time.Second}, listener, slog.New(slog.DiscardHandler))
	}()
	go func() { published <- publish(ctx, rdb) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-stopped)
		assert.NoError(t, <-published)
	})
	return &harness{ingress: ingress, url: "http://" + listener.Addr().String()}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return listener
}

// maxLen keeps unread entries for a minute of real time, longer than the outage, and is short enough for trimming to be near.
const maxLen = 600

func entry(body string) *redis.XAddArgs {
	return &redis.XAddArgs{Stream: "s:{" + topic + "}:0", MaxLen: maxLen, Values: []string{"b", body, "t", "BetSettled", "k", ""}}
}

// publish adds a message every 100 ms of real time, because rates are measured. Every tenth has no claim, every seventh
// repeats the first claim.
func publish(ctx context.Context, rdb *redis.Client) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		claim := fmt.Sprintf("c-%d", n)
		switch {
		case n%10 == 0:
			claim = ""
		case n%7 == 0:
			claim = "c-1"
		}
		err := rdb.XAdd(ctx, entry(fmt.Sprintf(`{"betId":"b-%d","claimId":%q,"amountCents":5}`, n, claim))).Err()
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

func (h *harness) get(t *testing.T, path string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+path, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}
