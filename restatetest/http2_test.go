package restatetest_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

func TestBothVersionsOfHTTPShareAnAddress(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]func(t *testing.T) *restatetest.Server{"memory": inMemory, "tcp": onTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := listen(t)
			for i := range 3 {
				status, _ := mustPostWith(t, server, server.ClientHTTP2(), fmt.Sprintf("a%%2F%d", i))
				assert.Equal(t, 202, status)
			}
			_, body := mustPost(t, server, "a%2F1")
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

func TestConcurrentRequestsShareAnHTTP2Connection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.ScriptAll(restatetest.Delay(time.Hour))
		mustPostWith(t, server, server.ClientHTTP2(), "first")
		began := time.Now()
		var clients sync.WaitGroup
		for i := range 150 {
			clients.Go(func() {
				status, _, err := postWith(t, server, server.ClientHTTP2(), fmt.Sprint("c-", i))
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
func TestHTTP2SettingsAreThoseOfTheRealServer(t *testing.T) {
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

func TestADropResetsTheStreamOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.Script("slow", restatetest.Delay(time.Minute))
		server.Script("c-1", restatetest.Drop(), restatetest.DropAfterAccept(), restatetest.DropAfterStatus())
		mustPostWith(t, server, server.ClientHTTP2(), "warm")
		var neighbour sync.WaitGroup
		neighbour.Go(func() {
			status, _, err := postWith(t, server, server.ClientHTTP2(), "slow")
			if assert.NoError(t, err) {
				assert.Equal(t, 202, status, "a reset concerns its stream only")
			}
		})
		synctest.Wait()
		for range 2 {
			_, _, err := postWith(t, server, server.ClientHTTP2(), "c-1")
			require.ErrorContains(t, err, "INTERNAL_ERROR")
		}
		status, _, err := postWith(t, server, server.ClientHTTP2(), "c-1")
		require.ErrorContains(t, err, "INTERNAL_ERROR")
		assert.Equal(t, 202, status)
		_, body := mustPostWith(t, server, server.ClientHTTP2(), "c-1")
		assert.Contains(t, body, "PreviouslyAccepted")
		neighbour.Wait()
		assert.Equal(t, []int{202, 202, 0, 0, 202, 202}, statuses(server))
		assert.Equal(t, 1, server.Connections())
	})
}

func TestLimitsApplyOverHTTP2(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t, restatetest.WithBodyLimit(100_000))
	url := server.URL() + "/BonusPayout/"
	status, _ := mustDo(t, server.ClientHTTP2(), http.MethodPost, url+strings.Repeat("k", 16_000)+"/run/send", `{}`)
	assert.Equal(t, 202, status)
	status, body := mustDo(t, server.ClientHTTP2(), http.MethodPost, url+strings.Repeat("k", 16_400)+"/run/send", `{}`)
	assert.Equal(t, 431, status)
	assert.Empty(t, body)
	status, _ = mustDo(t, server.ClientHTTP2(), http.MethodPost, url+"large/run/send", strings.Repeat("1", 100_000))
	assert.Equal(t, 202, status, "larger than a stream's window")
	status, body = mustDo(t, server.ClientHTTP2(), http.MethodPost, url+"larger/run/send", strings.Repeat("1", 100_001))
	assert.Equal(t, 413, status)
	assert.Equal(t, "length limit exceeded", body)
	assert.Equal(t, 1, server.Connections())
}
