package sink_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/bench/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T) *sink.Server {
	t.Helper()
	server, err := sink.Listen()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return server
}

func request(key, body string) string {
	return fmt.Sprintf("POST /Bench/%s/run/send HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\nX: y\r\n\r\n%s", key, len(body), body)
}

func TestEveryStartIsAnsweredHoweverItIsCut(t *testing.T) {
	t.Parallel()
	server := listen(t)
	server.Expect("r-", 5)
	all := request("r-000", "{}") + request("r-1", "") + request("r-2", strings.Repeat("x", 2000)) + request("r-4", "POST /Bench/r-3/run/send")
	for _, step := range []int{len(all), 1, 7, 500} {
		server.Expect("r-", 5)
		connection, err := net.Dial("tcp", strings.TrimPrefix(server.URL(), "http://"))
		require.NoError(t, err)
		go func() {
			for rest := all; rest != ""; {
				n, err := connection.Write([]byte(rest[:min(step, len(rest))]))
				if err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		answers := bufio.NewReader(connection)
		for range 4 {
			response, err := http.ReadResponse(answers, nil)
			require.NoError(t, err)
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			assert.Equal(t, http.StatusAccepted, response.StatusCode)
			assert.JSONEq(t, `{"invocationId":"inv_16XXZZesSodW3oxGkV5Usr1kzxtNLm78YS","status":"Accepted"}`, string(text))
		}
		require.NoError(t, connection.Close())
		assert.Equal(t, sink.Counts{Distinct: 4}, server.Counts(), step)
	}
}

func TestDuplicatesAndStraysAreTold(t *testing.T) {
	t.Parallel()
	server := listen(t)
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	post := func(path string) int {
		response, err := client.Post(server.URL()+path, "application/json", strings.NewReader("{}"))
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, response.Body)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	assert.Equal(t, sink.Counts{}, server.Counts())
	assert.Equal(t, 202, post("/Bench/before-0/run/send"))
	server.Expect("r-", 70)
	for _, key := range []string{"r-0", "r-69", "r-0", "r-070", "r-70", "r--1", "r-", "s-1", "r-x"} {
		assert.Equal(t, 202, post("/Bench/"+key+"/run/send"), key)
	}
	assert.Equal(t, sink.Counts{Distinct: 2, Duplicates: 1, Strays: 6}, server.Counts())
	assert.Equal(t, 400, post("/Bench"))
	assert.Equal(t, sink.Counts{Distinct: 2, Duplicates: 1, Strays: 7}, server.Counts())
	server.Expect("r-", 1)
	assert.Equal(t, sink.Counts{}, server.Counts())
}

func TestWhatIsNoStartIsRefused(t *testing.T) {
	t.Parallel()
	server := listen(t)
	server.Expect("r-", 1)
	for _, text := range []string{
		"GET /Bench/r-0/run/send HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
		"POST /Bench/r-0/run/send HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST /Bench/r-0/run/send HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
		"POST /Bench/r-0 HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
	} {
		connection, err := net.Dial("tcp", strings.TrimPrefix(server.URL(), "http://"))
		require.NoError(t, err)
		_, err = io.WriteString(connection, text)
		require.NoError(t, err)
		answer, err := io.ReadAll(connection)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(string(answer), "HTTP/1.1 400 "), text)
		require.NoError(t, connection.Close())
	}
	assert.Equal(t, sink.Counts{Strays: 4}, server.Counts())
}
