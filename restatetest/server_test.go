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

func inMemory(t *testing.T) *restatetest.Server { return restatetest.New(t) }

func onTCP(t *testing.T) *restatetest.Server {
	t.Helper()
	server, err := restatetest.Listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return server
}

func TestAnOutageRefusesConnectionsUntilItIsOver(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]func(t *testing.T) *restatetest.Server{"memory": inMemory, "tcp": onTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := listen(t)
			_, _, err := post(t, server, "before")
			require.NoError(t, err)

			server.Down()
			server.Down()
			for range 2 {
				_, _, err = post(t, server, "during")
				require.ErrorIs(t, err, syscall.ECONNREFUSED)
			}
			assert.Zero(t, server.Attempts("during"), "nothing arrives at a server that is down")

			server.Up()
			server.Up()
			status, body, err := post(t, server, "before")
			require.NoError(t, err)
			assert.Equal(t, 202, status)
			assert.Contains(t, body, "PreviouslyAccepted", "an outage forgets nothing")
			assert.Equal(t, 2, server.Connections())
		})
	}
}

func TestAnOutageBreaksRequestsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.ScriptAll(restatetest.Delay(time.Minute))
		go func() {
			time.Sleep(30 * time.Second)
			server.Down()
			time.Sleep(30 * time.Second)
			server.Up()
		}()
		began := time.Now()
		_, _, err := post(t, server, "c-1")
		require.Error(t, err)
		assert.Equal(t, 30*time.Second, time.Since(began))
		_, _, err = post(t, server, "c-1")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		time.Sleep(time.Minute)
		status, _, err := post(t, server, "c-1")
		require.NoError(t, err)
		assert.Equal(t, 202, status)
		assert.Equal(t, []int{0, 202}, statuses(server))
		server.ExpectStarted(t, "BonusPayout", "c-1")
	})
}

func TestCloseLetsGoOfEverything(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine outlives it
		server := restatetest.Start()
		server.ScriptAll(restatetest.Hang().Always())
		var clients sync.WaitGroup
		for range 5 {
			clients.Go(func() {
				_, _, err := post(t, server, "c-1")
				assert.Error(t, err)
			})
		}
		synctest.Wait()
		assert.Equal(t, 5, server.MaxConcurrent())
		server.Close()
		server.Close()
		clients.Wait()

		server.Up()
		_, _, err := post(t, server, "c-1")
		require.ErrorIs(t, err, syscall.ECONNREFUSED, "closed is closed")
		assert.Equal(t, 5, server.Attempts("c-1"), "the records outlive it")
	})
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

func TestListenNamesAnAddressItCannotHave(t *testing.T) {
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
		_, _, err := post(t, server, "c-1")
		require.NoError(t, err)
	}
	assert.Equal(t, 1, server.Connections())
}

func TestTooManyRequestsAtOnceAre429(t *testing.T) {
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
		status, body, err := do(t, server.Client(), http.MethodGet, server.URL()+"/restate/health", "")
		require.NoError(t, err)
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
