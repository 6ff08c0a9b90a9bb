package restatetest_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

func TestAnOutageRefusesConnectionsUntilItEnds(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]func(t *testing.T) *restatetest.Server{"memory": inMemory, "tcp": onTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := listen(t)
			mustPost(t, server, "before")

			server.Down()
			server.Down()
			for range 2 {
				_, _, err := post(t, server, "during")
				require.ErrorIs(t, err, syscall.ECONNREFUSED)
			}
			assert.Zero(t, server.Attempts("during"), "nothing arrives at a server that is down")

			server.Up()
			server.Up()
			status, body := mustPost(t, server, "before")
			assert.Equal(t, 202, status)
			assert.Contains(t, body, "PreviouslyAccepted", "an outage forgets nothing")
			assert.Equal(t, 2, server.Connections())
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.Down()
	_, err := server.Dial(t.Context(), "tcp", "anything:1")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.EqualError(t, err, "dial tcp restate.test:80: connect: connection refused")

	server.Up()
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := server.Dial(ctx, "tcp", "anything:1")
	require.NoError(t, err)
	cancel()
	require.NoError(t, conn.Close())
}

func TestListenReportsAnAddressInUse(t *testing.T) {
	t.Parallel()
	server := onTCP(t)
	_, err := restatetest.Listen(strings.TrimPrefix(server.URL(), "http://"))
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}

func TestClientsShareConnectionsAndAreIndependent(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.Client().Timeout = time.Nanosecond
	for range 3 {
		mustPost(t, server, "c-1")
	}
	assert.Equal(t, 1, server.Connections())
}

func TestRequestsOverTheConcurrencyLimitAreAnswered429(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t, restatetest.WithConcurrencyLimit(2))
		server.ScriptAll(restatetest.Delay(time.Second))
		answers := make(chan int, 5)
		for _, key := range []string{"a", "b", "c", "d"} {
			go func() {
				status, _, _ := post(t, server, key)
				answers <- status
			}()
		}
		synctest.Wait()
		assert.Equal(t, []int{429, 429}, []int{<-answers, <-answers})
		status, body := mustDo(t, server.Client(), http.MethodGet, server.URL()+"/restate/health", "")
		assert.Equal(t, 429, status)
		assert.JSONEq(t,
			`{"code":429,"message":"too many requests, the ingress is overloaded. Retry later.","source":"ingress"}`, body)

		assert.Equal(t, []int{202, 202}, []int{<-answers, <-answers})
		assert.Equal(t, 2, server.MaxConcurrent())
		assert.Len(t, server.StartedKeys("BonusPayout"), 2)
	})
}

func TestConcurrentRepeatsAreOneStart(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	var clients sync.WaitGroup
	for range 12 {
		clients.Go(func() {
			status, _, err := post(t, server, "same")
			if assert.NoError(t, err) {
				assert.Equal(t, 202, status)
			}
			_ = server.Requests()
		})
	}
	clients.Wait()
	assert.Len(t, server.Starts(), 1)
	assert.Equal(t, 11, server.Duplicates())
	assert.Equal(t, 12, server.Attempts("same"))
	assert.LessOrEqual(t, server.MaxConcurrent(), 12)
}

func TestAnOutageBreaksRequestsInFlight(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, server *restatetest.Server, client *http.Client) {
		server.Script("slow", restatetest.Delay(time.Minute))
		mustPostWith(t, server, client, "before")
		time.AfterFunc(30*time.Second, server.Down)
		began := time.Now()
		_, _, err := postWith(t, server, client, "slow")
		require.Error(t, err)
		assert.Equal(t, 30*time.Second, time.Since(began))
		_, _, err = postWith(t, server, client, "slow")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)

		server.Up()
		_, body := mustPostWith(t, server, client, "before")
		assert.Contains(t, body, "PreviouslyAccepted")
		mustPostWith(t, server, client, "slow")
		assert.Equal(t, []int{202, 0, 202, 202}, statuses(server))
		server.ExpectStarted(t, "BonusPayout", "before", "slow")
		assert.Equal(t, 2, server.Connections())
	})
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, server *restatetest.Server, client *http.Client) { // a goroutine that survives fails the bubble
		server.ScriptAll(restatetest.Hang().Always())
		var clients sync.WaitGroup
		for range 5 {
			clients.Go(func() {
				_, _, err := postWith(t, server, client, "c-1")
				assert.Error(t, err)
			})
		}
		synctest.Wait()
		assert.Equal(t, 5, server.MaxConcurrent())
		server.Close()
		server.Close()
		clients.Wait()

		server.Up()
		_, _, err := postWith(t, server, client, "c-1")
		require.ErrorIs(t, err, syscall.ECONNREFUSED, "closed is closed")
		assert.Equal(t, 5, server.Attempts("c-1"), "the records remain")
	})
}
