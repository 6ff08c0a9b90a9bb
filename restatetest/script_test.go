package restatetest_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

func TestAScriptIsTakenOneStepPerAttempt(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.Script("c-1",
		restatetest.Status(503).Times(2), restatetest.Step{}, restatetest.Status(500).Times(0),
		restatetest.Pass(), restatetest.Status(429))

	var statuses []int
	for range 6 {
		status, _, err := post(t, server, "c-1")
		require.NoError(t, err)
		statuses = append(statuses, status)
	}
	assert.Equal(t, []int{503, 503, 202, 429, 202, 202}, statuses)
	assert.Equal(t, 6, server.Attempts("c-1"))
	assert.Equal(t, 2, server.Duplicates())
	assert.Len(t, server.Starts(), 1)

	other, _, err := post(t, server, "c-2")
	require.NoError(t, err)
	assert.Equal(t, 202, other, "a script concerns its key alone")
}

func TestScriptAllIsGoneThroughByEachKey(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.ScriptAll(restatetest.Status(503))
	server.Script("own", restatetest.Status(500))
	server.Script("spared")

	outcomes := map[string][]int{}
	for range 2 {
		for _, key := range []string{"a", "b", "own", "spared"} {
			status, _, err := post(t, server, key)
			require.NoError(t, err)
			outcomes[key] = append(outcomes[key], status)
		}
	}
	assert.Equal(t, map[string][]int{"a": {503, 202}, "b": {503, 202}, "own": {500, 202}, "spared": {202, 202}}, outcomes)

	server.ScriptAll(restatetest.Status(502).Always())
	for range 3 {
		status, _, err := post(t, server, "a")
		require.NoError(t, err)
		assert.Equal(t, 502, status)
	}
	server.ScriptAll()
	status, _, err := post(t, server, "a")
	require.NoError(t, err)
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
	status, _, err := post(t, server, "k")
	require.NoError(t, err)
	assert.Equal(t, 503, status)
	status, _, err = post(t, server, "k")
	require.NoError(t, err)
	assert.Equal(t, 202, status, "neither step lasts for ever")
}

func TestAnswerIsFreeForm(t *testing.T) {
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

	status, body, err := post(t, server, "k")
	require.NoError(t, err)
	assert.Equal(t, 202, status)
	assert.Equal(t, "not JSON", body)
	assert.Equal(t, `/BonusPayout/k/run/send {"n":1}`, <-seen)

	status, _, err = post(t, server, "k")
	require.NoError(t, err)
	assert.Equal(t, 200, status)

	_, body, err = post(t, server, "k")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, "cut ", body)
	assert.Empty(t, server.Starts())
	assert.Equal(t, []int{202, 200, 200}, statuses(server))
}

func TestALostAnswerIsOneStart(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]func(t *testing.T) *restatetest.Server{"memory": inMemory, "tcp": onTCP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := listen(t)
			server.Script("c-1", restatetest.Drop(), restatetest.DropAfterAccept())

			_, _, err := post(t, server, "c-1")
			require.ErrorIs(t, err, io.EOF)
			assert.Empty(t, server.Starts(), "dropped before it was started")

			_, _, err = post(t, server, "c-1")
			require.ErrorIs(t, err, io.EOF)
			assert.Equal(t, []string{"c-1"}, server.StartedKeys("BonusPayout"))

			status, body, err := post(t, server, "c-1")
			require.NoError(t, err)
			assert.Equal(t, 202, status)
			assert.Contains(t, body, `"status":"PreviouslyAccepted"`)
			assert.Equal(t, []int{0, 0, 202}, statuses(server))
			assert.Equal(t, 1, server.Duplicates())
			assert.Len(t, server.Starts(), 1)
		})
	}
}

func TestDropAfterAcceptStartsNothingThatWouldBeRefused(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t, restatetest.WithWorkflow("Other"))
	server.Script("c-1", restatetest.DropAfterAccept())
	_, _, err := post(t, server, "c-1")
	require.Error(t, err)
	assert.Empty(t, server.Starts())
}

func TestAHangEndsWithTheClientsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.Script("before", restatetest.Hang())
		server.Script("after", restatetest.HangAfterAccept())
		client := server.Client()
		client.Timeout = 10 * time.Second

		for _, key := range []string{"before", "after"} {
			began := time.Now()
			_, _, err := do(t, client, http.MethodPost, server.URL()+"/BonusPayout/"+key+"/run/send", `{"n":1}`)
			var timeout interface{ Timeout() bool }
			require.True(t, errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
			assert.Equal(t, 10*time.Second, time.Since(began))
			synctest.Wait() // for the server to notice
		}
		server.ExpectStarted(t, "BonusPayout", "after")
		assert.Equal(t, []int{0, 0}, statuses(server))

		status, body, err := post(t, server, "after")
		require.NoError(t, err)
		assert.Equal(t, 202, status)
		assert.Contains(t, body, "PreviouslyAccepted")
		assert.Equal(t, 1, server.MaxConcurrent(), "a request given up is over")
	})
}

func TestDelayIsVirtualTimeInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		server.ScriptAll(restatetest.Delay(time.Hour))
		began := time.Now()
		status, _, err := post(t, server, "patient")
		require.NoError(t, err)
		assert.Equal(t, 202, status)
		assert.Equal(t, time.Hour, time.Since(began))
		assert.Equal(t, began, server.Requests()[0].At)

		client := server.Client()
		client.Timeout = time.Minute
		_, _, err = do(t, client, http.MethodPost, server.URL()+"/BonusPayout/impatient/run/send", `{"n":1}`)
		require.Error(t, err)
		time.Sleep(2 * time.Hour)
		server.ExpectStarted(t, "BonusPayout", "patient")
	})
}

func statuses(server *restatetest.Server) []int {
	var all []int
	for _, request := range server.Requests() {
		all = append(all, request.Status)
	}
	return all
}
