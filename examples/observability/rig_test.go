package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/restatetest"
)

// rig is the service with a Redis and an ingress. It runs in this process, so that the race detector sees it; its wiring is
// main's run and nothing is set up for the test but the environment.
type rig struct {
	ingress *restatetest.Server
	url     string // of the service
}

// newRig starts the service on a topic of two partitions. The first gets ten messages a second, the second none, ever.
func newRig(t *testing.T) *rig {
	t.Helper()
	server, err := servers.LaunchRedis(t.Context(), servers.RedisOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, server.Close()) })
	ingress, err := restatetest.Listen("127.0.0.1:0", restatetest.WithWorkflow(workflow))
	require.NoError(t, err)
	t.Cleanup(ingress.Close)
	require.NoError(t, server.Client().HSet(t.Context(), "m:{"+topic+"}", "v", 1, "partitions", 2).Err())

	require.NoError(t, fill(t.Context(), server.Client()))

	ctx, cancel := context.WithCancel(context.Background())
	addr, ended := make(addrLog, 1), make(chan error, 1)
	go func() {
		// Holds of at most a second: an outage takes minutes of rule time, not of the test's.
		ended <- run(ctx, config{redisAddr: server.Addr(), ingress: ingress.URL(), httpAddr: "127.0.0.1:0", holdMax: time.Second},
			slog.New(slog.NewJSONHandler(addr, nil)))
	}()
	published := make(chan error, 1)
	go func() { published <- publish(ctx, server.Client()) }()
	t.Cleanup(func() {
		cancel()
		assert.NoError(t, <-ended)
		assert.NoError(t, <-published)
	})
	select {
	case at := <-addr:
		return &rig{ingress: ingress, url: "http://" + at}
	case err := <-ended:
		ended <- err
		require.NoError(t, err)
		return nil
	}
}

// addrLog is a log that passes on the address that the service listens on.
type addrLog chan string

func (a addrLog) Write(line []byte) (int, error) {
	var record struct{ Msg, Addr string }
	if err := json.Unmarshal(line, &record); err != nil {
		return 0, err
	}
	if record.Msg == "metrics and health" {
		a <- record.Addr
	}
	return len(line), nil
}

// maxLen is what the first partition's stream is trimmed to: enough that nothing vanishes unread in a minute, and small
// enough that somebody has to say when it would.
const maxLen = 600

// fill makes the stream as long as it may be, with messages that have no claim.
func fill(ctx context.Context, client *redis.Client) error {
	_, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for range maxLen {
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: "s:{" + topic + "}:0", Values: []string{"b", "{}", "t", "BetSettled", "k", ""}})
		}
		return nil
	})
	return err
}

// publish adds a message every 100 ms of real time, because rates are what is measured. Every tenth has no claim, every
// seventh one that was there before.
func publish(ctx context.Context, client *redis.Client) error {
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
		err := client.XAdd(ctx, &redis.XAddArgs{Stream: "s:{" + topic + "}:0", MaxLen: maxLen, Values: []string{
			"b", fmt.Sprintf(`{"betId":"b-%d","claimId":%q,"amountCents":5}`, n, claim), "t", "BetSettled", "k", "",
		}}).Err()
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// get asks the service.
func (r *rig) get(t *testing.T, path string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+path, nil)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}
