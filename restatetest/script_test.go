package restatetest_test

import (
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

func TestAScriptTakesOneStepPerAttempt(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.Script("c-1",
		restatetest.Status(503).Times(2), restatetest.Step{}, restatetest.Step{}.Always(), restatetest.Step{}.For(time.Hour), restatetest.Status(500).Times(0),
		restatetest.Pass(), restatetest.Status(429))

	var statuses []int
	for range 6 {
		status, _ := mustPost(t, server, "c-1")
		statuses = append(statuses, status)
	}
	assert.Equal(t, []int{503, 503, 202, 429, 202, 202}, statuses)
	assert.Equal(t, 6, server.Attempts("c-1"))
	assert.Equal(t, 2, server.Duplicates())
	assert.Len(t, server.Starts(), 1)

	other, _ := mustPost(t, server, "c-2")
	assert.Equal(t, 202, other, "a script applies to its key only")
}

func TestScriptAllAppliesToEachKeyByItself(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.ScriptAll(restatetest.Status(503))
	server.Script("own", restatetest.Status(500))
	server.Script("spared")

	outcomes := map[string][]int{}
	for range 2 {
		for _, key := range []string{"a", "b", "own", "spared"} {
			status, _ := mustPost(t, server, key)
			outcomes[key] = append(outcomes[key], status)
		}
	}
	assert.Equal(t, map[string][]int{"a": {503, 202}, "b": {503, 202}, "own": {500, 202}, "spared": {202, 202}}, outcomes)

	server.ScriptAll(restatetest.Status(502).Always())
	for range 3 {
		status, _ := mustPost(t, server, "a")
		assert.Equal(t, 502, status)
	}
	server.ScriptAll()
	status, _ := mustPost(t, server, "a")
	assert.Equal(t, 202, status)
}

func TestStatusAnswersAsTheIngressOrAsAProxy(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.Script("k",
		restatetest.Status(503).WithHeader("Retry-After", "2"),
		restatetest.Status(429),
		restatetest.Status(502, "<h1>Bad ", "Gateway</h1>").WithHeader("Content-Type", "text/html"),
		restatetest.Status(307).WithHeader("Location", "http://elsewhere.test/"),
		restatetest.Status(204))
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

	type got struct {
		status                               int
		body, contentType, source, retry, to string
	}
	var answers []got
	for range 5 {
		response, err := client.Post(server.URL()+"/Wf/k/run/send", "application/json", nil)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		h := response.Header
		answers = append(answers, got{
			response.StatusCode, string(body), h.Get("Content-Type"),
			h.Get("X-Restate-Error-Source"), h.Get("Retry-After"), h.Get("Location"),
		})
	}
	assert.Equal(t, []got{
		{503, `{"code":503,"message":"Service Unavailable","source":"ingress"}`, "application/json", "ingress", "2", ""},
		{
			429, `{"code":429,"message":"too many requests, the ingress is overloaded. Retry later.","source":"ingress"}`,
			"application/json", "ingress", "", "",
		},
		{502, "<h1>Bad Gateway</h1>", "text/html", "", "", ""},
		{307, "", "", "", "", "http://elsewhere.test/"},
		{204, "", "", "", "", ""},
	}, answers)
	assert.Empty(t, server.Starts())
	assert.Panics(t, func() { restatetest.Status(103) })
}

func TestStepsAreValues(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	plain := restatetest.Status(503)
	marked := plain.WithHeader("X-A", "1")
	_ = marked.WithHeader("X-A", "2")
	_ = plain.Always()
	server.Script("k", marked, plain)

	response, err := server.Client().Post(server.URL()+"/Wf/k/run/send", "application/json", nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, []string{"1"}, response.Header["X-A"])
	status, _ := mustPost(t, server, "k")
	assert.Equal(t, 503, status)
	status, _ = mustPost(t, server, "k")
	assert.Equal(t, 202, status, "neither step repeats")
}

func TestAnswerLetsAFunctionAnswer(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	seen := make(chan string, 1)
	server.Script("k",
		restatetest.Answer(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			seen <- r.URL.Path + " " + string(body)
			w.WriteHeader(http.StatusAccepted)
			_, _ = io.WriteString(w, "not JSON")
		}),
		restatetest.Answer(func(http.ResponseWriter, *http.Request) {}),
		restatetest.Answer(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "cut ")
			w.(http.Flusher).Flush()
			panic("in the middle of an answer")
		}))

	status, body := mustPost(t, server, "k")
	assert.Equal(t, 202, status)
	assert.Equal(t, "not JSON", body)
	assert.Equal(t, `/BonusPayout/k/run/send {"n":1}`, <-seen)

	status, _ = mustPost(t, server, "k")
	assert.Equal(t, 200, status)

	_, body, err := post(t, server, "k")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, "cut ", body)
	assert.Empty(t, server.Starts())
	assert.Equal(t, []int{202, 200, 200}, statuses(server))
}

func TestDropAfterAcceptStartsNothingThatWouldBeRefused(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t, restatetest.WithWorkflow("Other"))
	server.Script("c-1", restatetest.DropAfterAccept())
	_, _, err := post(t, server, "c-1")
	require.Error(t, err)
	assert.Empty(t, server.Starts())
}

func TestDelaysTakeVirtualTimeInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.ScriptAll(restatetest.Delay(time.Hour))
		began := time.Now()
		status, _ := mustPost(t, server, "patient")
		assert.Equal(t, 202, status)
		assert.Equal(t, time.Hour, time.Since(began))
		assert.Equal(t, began, server.Requests()[0].At)

		client := server.Client()
		client.Timeout = time.Minute
		_, _, err := postWith(t, server, client, "impatient")
		require.Error(t, err)
		time.Sleep(2 * time.Hour)
		server.ExpectStarted(t, "BonusPayout", "patient")
	})
}

func TestALostAnswerIsOneStart(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]func(t *testing.T) *restatetest.Server{"memory": inMemory, "tcp": onTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := listen(t)
			server.Script("c-1", restatetest.Drop(), restatetest.DropAfterAccept())
			server.Script("c-2", restatetest.DropAfterStatus())

			_, _, err := post(t, server, "c-1")
			require.ErrorIs(t, err, io.EOF)
			assert.Empty(t, server.Starts(), "dropped before it was started")
			_, _, err = post(t, server, "c-1")
			require.ErrorIs(t, err, io.EOF)
			server.ExpectStarted(t, "BonusPayout", "c-1")
			_, _, err = post(t, server, "c-2")
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, "no response, unlike over HTTP/2")
			server.ExpectStarted(t, "BonusPayout", "c-1", "c-2")

			for _, key := range []string{"c-1", "c-2"} {
				status, body := mustPost(t, server, key)
				assert.Equal(t, 202, status)
				assert.Contains(t, body, `"status":"PreviouslyAccepted"`)
			}
			assert.Equal(t, []int{0, 0, 202, 202, 202}, statuses(server))
			assert.Equal(t, 2, server.Duplicates())
			assert.Len(t, server.Starts(), 2)
		})
	}
}

func TestAHangEndsAtTheClientsTimeout(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, server *restatetest.Server, client *http.Client) {
		server.Script("before", restatetest.Hang())
		server.Script("after", restatetest.HangAfterAccept())
		client.Timeout = 10 * time.Second
		for _, key := range []string{"before", "after"} {
			began := time.Now()
			_, _, err := postWith(t, server, client, key)
			require.True(t, isTimeout(err), "%v", err)
			assert.Equal(t, 10*time.Second, time.Since(began))
			synctest.Wait() // for the server to notice
		}
		server.ExpectStarted(t, "BonusPayout", "after")
		assert.Equal(t, []int{0, 0}, statuses(server))

		status, body := mustPostWith(t, server, client, "after")
		assert.Equal(t, 202, status)
		assert.Contains(t, body, "PreviouslyAccepted")
		assert.Equal(t, 1, server.MaxConcurrent(), "a request that timed out has ended")
	})
}

func TestForAppliesAStepForADuration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.ScriptAll(restatetest.Status(503).For(time.Minute), restatetest.Status(500).For(0), restatetest.Status(429))
		time.Sleep(time.Hour) // the minute begins with the first attempt
		outcomes := map[string][]int{}
		attempt := func(key string) {
			status, _ := mustPost(t, server, key)
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
		assert.Equal(t, []int{502, 504, 202}, outcomes["a"][4:], "the last of them counts")
	})
}

func TestAfterAcceptStartsBeforeAnyStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.Script("gateway", restatetest.ProxyError(504).AfterAccept())
		server.Script("pass", restatetest.Pass().AfterAccept())
		server.Script("late", restatetest.Delay(time.Minute).AfterAccept())
		server.Script("never", restatetest.Status(503))

		status, _ := mustPost(t, server, "gateway")
		assert.Equal(t, 504, status)
		_, body := mustPost(t, server, "gateway")
		assert.Contains(t, body, "PreviouslyAccepted")
		_, body = mustPost(t, server, "pass")
		assert.Contains(t, body, `"Accepted"`, "a request is not a repeat of itself")

		client := server.Client()
		client.Timeout = time.Second
		_, _, err := postWith(t, server, client, "late")
		require.Error(t, err)
		mustPost(t, server, "never")
		server.ExpectOrder(t, "BonusPayout", "gateway", "pass", "late")
	})
}

func TestProxyErrorAnswersWithThePageOfNginx(t *testing.T) {
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

func TestRedirectsAreFollowedWithAndWithoutTheBody(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.Script("moved",
		restatetest.Redirect(307, "/BonusPayout/target/run/send"),
		restatetest.Redirect(302, "http://elsewhere.test/BonusPayout/other/run/send"))
	status, _ := mustPost(t, server, "moved")
	assert.Equal(t, 202, status)
	server.ExpectBody(t, "BonusPayout", "target", `{"n":1}`)

	status, body := mustPost(t, server, "moved")
	assert.Equal(t, 400, status)
	assert.Contains(t, body, "Empty content-type", "Go's client drops it with the body")
	assert.Equal(t, []int{307, 202, 302, 400}, statuses(server))
	assert.Equal(t, http.MethodGet, server.Requests()[3].Method)
	server.ExpectStarted(t, "BonusPayout", "target")
	assert.Panics(t, func() { restatetest.Redirect(200, "/") })
}

func TestARefusedRequestTakesNoStep(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t, restatetest.WithBodyLimit(10))
	server.Script("c-1", restatetest.Status(503))
	url := server.URL() + "/BonusPayout/c-1/run/send"
	var statuses []int
	for _, body := range []string{`{"much":"too long"}`, `{}`, `{}`} {
		status, _ := mustDo(t, server.Client(), http.MethodPost, url, body)
		statuses = append(statuses, status)
	}
	assert.Equal(t, []int{413, 503, 202}, statuses)
	assert.Equal(t, 3, server.Attempts("c-1"))
	assert.Nil(t, server.Requests()[0].Body)
}
