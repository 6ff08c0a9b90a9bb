package restatetest_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/restatetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post starts BonusPayout and returns the status and body of the answer, or the client's error.
func post(t *testing.T, server *restatetest.Server, key string) (status int, body string, err error) {
	t.Helper()
	return postWith(t, server, server.Client(), key)
}

func postWith(t *testing.T, server *restatetest.Server, client *http.Client, key string) (status int, body string, err error) {
	t.Helper()
	return do(t, client, http.MethodPost, server.URL()+"/BonusPayout/"+key+"/run/send", `{"n":1}`)
}

func do(t *testing.T, client *http.Client, method, url, content string, header ...string) (status int, body string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(content))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// mustPost, mustPostWith and mustDo fail the test for an error of the client.
func mustPost(t *testing.T, server *restatetest.Server, key string) (status int, body string) {
	t.Helper()
	status, body, err := post(t, server, key)
	require.NoError(t, err)
	return status, body
}

func mustPostWith(t *testing.T, server *restatetest.Server, client *http.Client, key string) (status int, body string) {
	t.Helper()
	status, body, err := postWith(t, server, client, key)
	require.NoError(t, err)
	return status, body
}

func mustDo(t *testing.T, client *http.Client, method, url, content string, header ...string) (status int, body string) {
	t.Helper()
	status, body, err := do(t, client, method, url, content, header...)
	require.NoError(t, err)
	return status, body
}

// overBoth runs a test in a bubble, once with a client of each HTTP version.
func overBoth(t *testing.T, test func(t *testing.T, server *restatetest.Server, client *http.Client)) {
	t.Helper()
	for name, client := range map[string]func(*restatetest.Server) *http.Client{
		"HTTP/1.1": (*restatetest.Server).Client, "HTTP/2": (*restatetest.Server).ClientHTTP2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := restatetest.New(t)
				test(t, server, client(server))
			})
		})
	}
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

func statuses(server *restatetest.Server) []int {
	var all []int
	for _, request := range server.Requests() {
		all = append(all, request.Status)
	}
	return all
}

func inMemory(t *testing.T) *restatetest.Server { return restatetest.New(t) }

func onTCP(t *testing.T) *restatetest.Server {
	t.Helper()
	server, err := restatetest.Listen("127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return server
}
