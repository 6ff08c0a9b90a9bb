package restatetest_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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

func postHTTP2(t *testing.T, server *restatetest.Server, key string) (status int, body string, err error) {
	t.Helper()
	return do(t, server.ClientHTTP2(), http.MethodPost, server.URL()+"/BonusPayout/"+key+"/run/send", `{"n":1}`)
}

func TestBothVersionsOfHTTPAreSpokenOnOneAddress(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]func(t *testing.T) *restatetest.Server{"memory": inMemory, "tcp": onTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := listen(t)
			for i := range 3 {
				status, _, err := postHTTP2(t, server, fmt.Sprintf("a%%2F%d", i))
				require.NoError(t, err)
				assert.Equal(t, 202, status)
			}
			_, body, err := post(t, server, "a%2F1")
			require.NoError(t, err)
			assert.Contains(t, body, "PreviouslyAccepted")

			server.ExpectOrder(t, "BonusPayout", "a/0", "a/1", "a/2")
			requests := server.Requests()
			require.Len(t, requests, 4)
			assert.Equal(t, "HTTP/2.0 /BonusPayout/a%2F2/run/send", requests[2].Proto+" "+requests[2].RequestURI)
			assert.Equal(t, "HTTP/1.1", requests[3].Proto)
			assert.Equal(t, 2, server.Connections())
		})
	}
}

func TestRequestsAtOnceShareAConnectionOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.ScriptAll(restatetest.Delay(time.Hour))
		_, _, err := postHTTP2(t, server, "first")
		require.NoError(t, err)
		began := time.Now()
		var clients sync.WaitGroup
		for i := range 150 {
			clients.Go(func() {
				status, _, err := postHTTP2(t, server, fmt.Sprint("c-", i))
				if assert.NoError(t, err) {
					assert.Equal(t, 202, status)
				}
			})
		}
		clients.Wait()
		assert.Equal(t, time.Hour, time.Since(began))
		assert.Equal(t, 1, server.Connections())
		assert.Equal(t, 150, server.MaxConcurrent())
	})
}

// The settings are read off the wire: net/http's client does not show them.
func TestSettingsAreThoseOfTheRealServer(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	conn, err := server.Dial(t.Context(), "tcp", "")
	require.NoError(t, err)
	defer conn.Close()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	}()
	var head [9]byte
	read := bufio.NewReader(conn)
	_, err = io.ReadFull(read, head[:])
	require.NoError(t, err)
	require.Equal(t, byte(4), head[3], "SETTINGS")
	payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(read, payload)
	require.NoError(t, err)
	settings := map[uint16]uint32{}
	for ; len(payload) > 0; payload = payload[6:] {
		settings[binary.BigEndian.Uint16(payload)] = binary.BigEndian.Uint32(payload[2:])
	}
	assert.Equal(t, uint32(200), settings[3], "MAX_CONCURRENT_STREAMS")
	assert.Equal(t, uint32(65535), settings[4], "INITIAL_WINDOW_SIZE")
	assert.Equal(t, uint32(16384), settings[5], "MAX_FRAME_SIZE")
	<-written
}

func TestADropIsAStreamResetOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.Script("slow", restatetest.Delay(time.Minute))
		server.Script("c-1", restatetest.Drop(), restatetest.DropAfterAccept(), restatetest.DropAfterStatus())
		_, _, err := postHTTP2(t, server, "warm")
		require.NoError(t, err)
		var neighbour sync.WaitGroup
		neighbour.Go(func() {
			status, _, err := postHTTP2(t, server, "slow")
			if assert.NoError(t, err) {
				assert.Equal(t, 202, status, "a reset concerns its stream alone")
			}
		})
		synctest.Wait()
		for range 2 {
			_, _, err = postHTTP2(t, server, "c-1")
			require.ErrorContains(t, err, "INTERNAL_ERROR")
		}
		status, _, err := postHTTP2(t, server, "c-1")
		require.ErrorContains(t, err, "INTERNAL_ERROR")
		assert.Equal(t, 202, status)
		_, body, err := postHTTP2(t, server, "c-1")
		require.NoError(t, err)
		assert.Contains(t, body, "PreviouslyAccepted")
		neighbour.Wait()
		assert.Equal(t, []int{202, 202, 0, 0, 202, 202}, statuses(server))
		assert.Equal(t, 1, server.Connections())
	})
}

func TestAHangEndsWithTheClientsTimeoutOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.Script("c-1", restatetest.Hang(), restatetest.HangAfterAccept())
		client := server.ClientHTTP2()
		client.Timeout = 10 * time.Second
		for range 2 {
			began := time.Now()
			_, _, err := do(t, client, http.MethodPost, server.URL()+"/BonusPayout/c-1/run/send", `{"n":1}`)
			var timeout interface{ Timeout() bool }
			require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
			assert.Equal(t, 10*time.Second, time.Since(began))
			synctest.Wait() // for the server to notice
		}
		_, body, err := postHTTP2(t, server, "c-1")
		require.NoError(t, err)
		assert.Contains(t, body, "PreviouslyAccepted")
		assert.Equal(t, 1, server.MaxConcurrent())
	})
}

func TestAnOutageConcernsHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.Script("slow", restatetest.Delay(time.Minute))
		_, _, err := postHTTP2(t, server, "before")
		require.NoError(t, err)
		time.AfterFunc(30*time.Second, server.Down)
		began := time.Now()
		_, _, err = postHTTP2(t, server, "slow")
		require.Error(t, err)
		assert.Equal(t, 30*time.Second, time.Since(began))
		_, _, err = postHTTP2(t, server, "before")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		server.Up()
		_, body, err := postHTTP2(t, server, "before")
		require.NoError(t, err)
		assert.Contains(t, body, "PreviouslyAccepted")
		assert.Equal(t, 2, server.Connections())
	})
}

func TestCloseLetsGoOfEverythingOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which fails if a goroutine outlives it
		server := restatetest.Start()
		server.ScriptAll(restatetest.Hang().Always())
		var clients sync.WaitGroup
		for range 5 {
			clients.Go(func() {
				_, _, err := postHTTP2(t, server, "c-1")
				assert.Error(t, err)
			})
		}
		synctest.Wait()
		assert.Equal(t, 5, server.MaxConcurrent())
		server.Close()
		clients.Wait()
		_, _, err := postHTTP2(t, server, "c-1")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	})
}

func TestLimitsOverHTTP2(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t, restatetest.WithBodyLimit(100_000))
	url := server.URL() + "/BonusPayout/"
	status, _, err := do(t, server.ClientHTTP2(), http.MethodPost, url+strings.Repeat("k", 16_000)+"/run/send", `{}`)
	require.NoError(t, err)
	assert.Equal(t, 202, status)
	status, body, err := do(t, server.ClientHTTP2(), http.MethodPost, url+strings.Repeat("k", 16_400)+"/run/send", `{}`)
	require.NoError(t, err)
	assert.Equal(t, 431, status)
	assert.Empty(t, body)
	status, _, err = do(t, server.ClientHTTP2(), http.MethodPost, url+"large/run/send", strings.Repeat("1", 100_000))
	require.NoError(t, err)
	assert.Equal(t, 202, status, "larger than a stream's window")
	status, body, err = do(t, server.ClientHTTP2(), http.MethodPost, url+"larger/run/send", strings.Repeat("1", 100_001))
	require.NoError(t, err)
	assert.Equal(t, 413, status)
	assert.Equal(t, "length limit exceeded", body)
	assert.Equal(t, 1, server.Connections())
}
