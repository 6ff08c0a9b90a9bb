package restatetest_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

// overBoth runs a test in a bubble with a client for each version of HTTP.
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

func startC1(t *testing.T, server *restatetest.Server, client *http.Client) (status int, body string, err error) {
	t.Helper()
	return do(t, client, http.MethodPost, server.URL()+"/BonusPayout/c-1/run/send", `{"n":1}`)
}

func TestASlowBodyComesByteByByte(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, server *restatetest.Server, client *http.Client) {
		server.Script("c-1", restatetest.SlowBody(time.Second), restatetest.SlowBody(time.Second), restatetest.SlowBody(0))
		began := time.Now()
		status, body, err := startC1(t, server, client)
		require.NoError(t, err)
		assert.Equal(t, 202, status)
		assert.Contains(t, body, `"Accepted"`)
		assert.Equal(t, time.Duration(len(body))*time.Second, time.Since(began))

		client.Timeout = 10 * time.Second
		began = time.Now()
		status, body, err = startC1(t, server, client)
		var timeout interface{ Timeout() bool }
		require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
		assert.Equal(t, 202, status, "it was there at once")
		assert.InDelta(t, 9.5, len(body), 0.5, "a byte a second: %q", body)
		assert.Equal(t, 10*time.Second, time.Since(began))

		status, body, err = startC1(t, server, client)
		require.NoError(t, err)
		assert.Equal(t, 202, status)
		assert.Contains(t, body, `"PreviouslyAccepted"`)
		assert.Len(t, server.Starts(), 1)
	})
}

func TestATruncatedBodyIsCutInTheMiddle(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, server *restatetest.Server, client *http.Client) {
		server.Script("c-1", restatetest.TruncatedBody())
		status, body, err := startC1(t, server, client)
		if client.Transport == server.Client().Transport {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		} else {
			require.ErrorContains(t, err, "INTERNAL_ERROR")
		}
		assert.Equal(t, 202, status)
		assert.Regexp(t, `^{"invocationId":"inv_1\w+$`, body)
		server.ExpectStarted(t, "BonusPayout", "c-1")

		_, body, err = startC1(t, server, client)
		require.NoError(t, err)
		assert.Contains(t, body, "PreviouslyAccepted")
		assert.Equal(t, []int{202, 202}, statuses(server))
	})
}

func TestAnEndlessBodyEndsWithTheReader(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, server *restatetest.Server, client *http.Client) {
		server.Script("c-1", restatetest.EndlessBody())
		response, err := client.Post(server.URL()+"/BonusPayout/c-1/run/send", "application/json", strings.NewReader(`{}`))
		require.NoError(t, err)
		assert.Equal(t, 202, response.StatusCode)
		assert.Equal(t, "application/json", response.Header.Get("Content-Type"))
		assert.NotEmpty(t, response.Header.Get("X-Restate-Id"))
		read, err := io.CopyN(io.Discard, response.Body, 1<<20)
		require.NoError(t, err)
		assert.Equal(t, int64(1<<20), read)
		require.NoError(t, response.Body.Close())
		server.ExpectStarted(t, "BonusPayout", "c-1")
	})
}

func TestAnAnswerIsLostAfterItsStatus(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]func(t *testing.T) *restatetest.Server{"memory": inMemory, "tcp": onTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := listen(t)
			server.Script("c-1", restatetest.DropAfterStatus())
			_, _, err := startC1(t, server, server.Client())
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "no response, unlike over HTTP/2")
			server.ExpectStarted(t, "BonusPayout", "c-1")
			_, body, err := startC1(t, server, server.Client())
			require.NoError(t, err)
			assert.Contains(t, body, "PreviouslyAccepted")
			assert.Equal(t, []int{202, 202}, statuses(server))
		})
	}
}

func TestBrokenAnswersOfARefusalAreOfTheRefusal(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t, restatetest.WithWorkflow("Other"))
	server.Script("c-1", restatetest.SlowBody(0), restatetest.TruncatedBody().WithHeader("X-A", "1"))
	status, body, err := startC1(t, server, server.Client())
	require.NoError(t, err)
	assert.Equal(t, 404, status)
	assert.Contains(t, body, "service 'BonusPayout' not found")
	status, _, err = startC1(t, server, server.Client())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, 404, status)
	assert.Empty(t, server.Starts())
}

func TestAStepHoldsForATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.ScriptAll(restatetest.Status(503).For(time.Minute), restatetest.Status(500).For(0), restatetest.Status(429))
		time.Sleep(time.Hour) // it begins with the first attempt
		outcomes := map[string][]int{}
		attempt := func(key string) {
			status, _, err := post(t, server, key)
			require.NoError(t, err)
			outcomes[key] = append(outcomes[key], status)
		}
		attempt("a")
		time.Sleep(30 * time.Second)
		attempt("b")
		time.Sleep(30*time.Second - 1)
		attempt("a")
		time.Sleep(time.Nanosecond)
		for range 2 {
			attempt("a")
		}
		time.Sleep(30*time.Second - 1)
		attempt("b")
		assert.Equal(t, map[string][]int{"a": {503, 503, 429, 202}, "b": {503, 503}}, outcomes)

		server.Script("a", restatetest.Status(502).For(time.Minute).Times(1), restatetest.Status(504).Times(9).For(time.Second))
		for range 2 {
			attempt("a")
			time.Sleep(time.Second)
		}
		attempt("a")
		assert.Equal(t, []int{502, 504, 202}, outcomes["a"][4:], "the last one said counts")
	})
}

func TestAnyStepMayComeAfterTheStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.Script("gateway", restatetest.ProxyError(504).AfterAccept())
		server.Script("pass", restatetest.Pass().AfterAccept())
		server.Script("late", restatetest.Delay(time.Minute).AfterAccept())
		server.Script("never", restatetest.Status(503))

		status, _, err := post(t, server, "gateway")
		require.NoError(t, err)
		assert.Equal(t, 504, status)
		_, body, err := post(t, server, "gateway")
		require.NoError(t, err)
		assert.Contains(t, body, "PreviouslyAccepted")
		_, body, err = post(t, server, "pass")
		require.NoError(t, err)
		assert.Contains(t, body, `"Accepted"`, "a request is no repeat of itself")

		client := server.Client()
		client.Timeout = time.Second
		_, _, err = do(t, client, http.MethodPost, server.URL()+"/BonusPayout/late/run/send", `{"n":1}`)
		require.Error(t, err)
		_, _, err = post(t, server, "never")
		require.NoError(t, err)
		server.ExpectOrder(t, "BonusPayout", "gateway", "pass", "late")
	})
}

func TestAProxyAnswersWithItsPage(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.Script("k", restatetest.ProxyError(502), restatetest.ProxyError(503).WithHeader("Retry-After", "1"), restatetest.ProxyError(504))
	for _, title := range []string{"502 Bad Gateway", "503 Service Temporarily Unavailable", "504 Gateway Time-out"} {
		response, err := server.Client().Post(server.URL()+"/Wf/k/run/send", "application/json", strings.NewReader(`{}`))
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, title[:3], response.Status[:3])
		assert.Equal(t, "<html>\r\n<head><title>"+title+"</title></head>\r\n<body>\r\n<center><h1>"+title+
			"</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n", string(body))
		assert.Equal(t, "text/html", response.Header.Get("Content-Type"))
		assert.Equal(t, "nginx", response.Header.Get("Server"))
		assert.Empty(t, response.Header.Get("X-Restate-Error-Source"))
	}
	assert.Empty(t, server.Starts())
	assert.Panics(t, func() { restatetest.ProxyError(302) })
}

func TestARedirectIsFollowedWithOrWithoutTheBody(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.Script("moved",
		restatetest.Redirect(307, "/BonusPayout/target/run/send"),
		restatetest.Redirect(302, "http://elsewhere.test/BonusPayout/other/run/send"))
	status, _, err := post(t, server, "moved")
	require.NoError(t, err)
	assert.Equal(t, 202, status)
	server.ExpectBody(t, "BonusPayout", "target", `{"n":1}`)

	status, body, err := post(t, server, "moved")
	require.NoError(t, err)
	assert.Equal(t, 400, status)
	assert.Contains(t, body, "Empty content-type", "Go's client drops it with the body")
	assert.Equal(t, []int{307, 202, 302, 400}, statuses(server))
	assert.Equal(t, http.MethodGet, server.Requests()[3].Method)
	server.ExpectStarted(t, "BonusPayout", "target")
	assert.Panics(t, func() { restatetest.Redirect(200, "/") })
}

func TestAStepMadeOfNothingIsSkippedForEver(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.Script("c-1", restatetest.Step{}.Always(), restatetest.Step{}.For(time.Hour), restatetest.Status(503))
	status, _, err := post(t, server, "c-1")
	require.NoError(t, err)
	assert.Equal(t, 503, status)
}
