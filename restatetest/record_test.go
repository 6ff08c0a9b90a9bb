package restatetest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

func TestTheFirstBodyWins(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	url := server.URL() + "/BonusPayout/c%2F1/run/send"
	_, _, err := do(t, server.Client(), http.MethodPost, url+"?delay=1500ms", `{"n":1}`, "X-Trace", "first")
	require.NoError(t, err)
	_, _, err = do(t, server.Client(), http.MethodPost, url, `{"n":2}`, "X-Trace", "second")
	require.NoError(t, err)
	_, _, err = do(t, server.Client(), http.MethodPost, server.URL()+"/restate/send/BonusPayout/c%2F1/run", `{"n":3}`)
	require.NoError(t, err)

	starts := server.Starts()
	require.Len(t, starts, 1)
	start := starts[0]
	assert.Equal(t, "BonusPayout c/1 run", start.Workflow+" "+start.Key+" "+start.Handler)
	assert.JSONEq(t, `{"n":1}`, string(start.Body))
	assert.Equal(t, "first", start.Header.Get("X-Trace"))
	assert.Equal(t, 1500*time.Millisecond, start.Delay)
	assert.Regexp(t, `^inv_1[0-9A-Za-z]{33}$`, start.InvocationID)

	requests := server.Requests()
	require.Len(t, requests, 3)
	assert.Equal(t, "/BonusPayout/c%2F1/run/send", requests[1].RequestURI)
	assert.Equal(t, "c/1", requests[2].Key)
	assert.JSONEq(t, `{"n":2}`, string(requests[1].Body))
	assert.Equal(t, []bool{false, true, true},
		[]bool{requests[0].Previously, requests[1].Previously, requests[2].Previously})
	assert.Equal(t, 2, server.Duplicates())
}

func TestRecordsAreCopies(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	_, _, err := post(t, server, "c-1")
	require.NoError(t, err)
	server.Starts()[0].Body[0] = 'x'
	server.Starts()[0].Header.Set("Content-Type", "changed")
	server.Requests()[0].Body[0] = 'x'
	server.Requests()[0].Header.Del("Content-Type")
	assert.JSONEq(t, `{"n":1}`, string(server.Starts()[0].Body))
	assert.Equal(t, "application/json", server.Requests()[0].Header.Get("Content-Type"))
}

func TestTheIDDependsOnWorkflowAndKeyAlone(t *testing.T) {
	t.Parallel()
	ids := map[string]string{}
	for range 2 {
		server := restatetest.New(t)
		for _, path := range []string{"A/1/run", "A/2/run", "B/1/run"} {
			_, _, err := do(t, server.Client(), http.MethodPost, server.URL()+"/"+path+"/send", `{}`)
			require.NoError(t, err)
		}
		for _, start := range server.Starts() {
			name := start.Workflow + start.Key
			if ids[name] != "" {
				assert.Equal(t, ids[name], start.InvocationID)
			}
			ids[name] = start.InvocationID
		}
	}
	assert.Len(t, ids, 3)
	assert.NotEqual(t, ids["A1"], ids["A2"])
	assert.Equal(t, ids["A1"][:16], ids["B1"][:16], "one key, one partition")
	assert.NotEqual(t, ids["A1"], ids["B1"])
}

func TestARepeatNamesTheExecutionTimeWhileItIsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		url := server.URL() + "/BonusPayout/c-1/run/send"
		due := time.Now().UTC().Add(90 * time.Minute).Format(time.RFC3339)

		_, first, err := do(t, server.Client(), http.MethodPost, url+"?delay=1h%2030m", `{}`)
		require.NoError(t, err)
		assert.Contains(t, first, `"executionTime":"`+due+`","status":"Accepted"`)
		time.Sleep(89 * time.Minute)
		_, repeat, err := do(t, server.Client(), http.MethodPost, url+"?delay=5s", `{}`)
		require.NoError(t, err)
		assert.Contains(t, repeat, `"executionTime":"`+due+`","status":"PreviouslyAccepted"`)
		time.Sleep(time.Minute)
		_, late, err := do(t, server.Client(), http.MethodPost, url, `{}`)
		require.NoError(t, err)
		assert.NotContains(t, late, "executionTime")
	})
}

func TestDeclaredWorkflowsComeAndGo(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.Unregister("BonusPayout") // and with it the readiness to accept any name
	status, body, err := post(t, server, "c-1")
	require.NoError(t, err)
	assert.Equal(t, 404, status)
	assert.Contains(t, body, "service 'BonusPayout' not found")

	server.Register("BonusPayout")
	status, _, err = post(t, server, "c-1")
	require.NoError(t, err)
	assert.Equal(t, 202, status)
	status, body, err = do(t, server.Client(), http.MethodGet, server.URL()+"/restate/health", "")
	require.NoError(t, err)
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"services":["BonusPayout"]}`, body)

	server.Unregister("BonusPayout")
	status, _, err = post(t, server, "c-1")
	require.NoError(t, err)
	assert.Equal(t, 404, status, "even for a key accepted before")
	server.Register("BonusPayout", "run")
	_, body, err = post(t, server, "c-1")
	require.NoError(t, err)
	assert.Contains(t, body, "PreviouslyAccepted")
}

func TestAnEmptyNameIsNotRegistered(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t, restatetest.WithWorkflow("Wf"))
	status, body, err := do(t, server.Client(), http.MethodPost, server.URL()+"/restate/send//k/run", `{}`)
	require.NoError(t, err)
	assert.Equal(t, 404, status)
	assert.Contains(t, body, "service '' not found")
	assert.Empty(t, server.Starts())
}

func TestWhatIsNotImitatedSaysSo(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	for _, path := range []string{"/Wf/k/run", "/restate/call/Wf/k/run", "/restate/output/inv_1", "/restate/lookup"} {
		status, body, err := do(t, server.Client(), http.MethodPost, server.URL()+path, `{}`)
		require.NoError(t, err)
		assert.Equal(t, 501, status, path)
		assert.Contains(t, body, "restatetest imitates only", path)
	}
	assert.Empty(t, server.Starts())
}

func TestOddRequests(t *testing.T) {
	t.Parallel()
	const head, tail = " HTTP/1.1\r\nHost: x\r\n", "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
	tests := map[string]struct {
		text   string
		status int
		key    string
	}{
		"raw byte that is no UTF-8":    {"POST /Wf/\xe9/run/send" + head + tail, 400, ""},
		"target too long":              {"POST /Wf/" + strings.Repeat("k", 65_530) + "/run/send" + head + tail, 414, ""},
		"long key":                     {"POST /Wf/" + strings.Repeat("k", 10_000) + "/run/send" + head + tail, 202, strings.Repeat("k", 10_000)},
		"too many headers":             {"POST /Wf/k/run/send" + head + strings.Repeat("X-H: 1\r\n", 100) + tail, 431, ""},
		"latin-1 header":               {"POST /Wf/k/run/send" + head + "X-Foo: caf\xe9\r\n" + tail, 400, ""},
		"broken escapes":               {"POST /Wf/100%/run/send" + head + tail, 202, "100%"},
		"broken and whole escapes":     {"POST /Wf/%2%41%%41%4/run/send" + head + tail, 202, "%2A%A%4"},
		"key cut inside a rune":        {"POST /Wf/ab%e2%82/run/send" + head + tail, 400, ""},
		"delay beyond every limit":     {"POST /Wf/k/run/send?delay=1000000%20years" + head + tail, 400, ""},
		"body cut off by broken chunk": {"POST /Wf/k/run/send" + head + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 500, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := restatetest.New(t)
			status, _, body := raw(t, server, http.MethodPost, test.text)
			assert.Equal(t, test.status, status, body)
			requests := server.Requests()
			require.Len(t, requests, 1)
			assert.Equal(t, strings.Fields(test.text)[1], requests[0].RequestURI)
			if test.status == 202 {
				assert.Equal(t, []string{test.key}, server.StartedKeys("Wf"))
			} else {
				assert.Empty(t, server.Starts())
			}
		})
	}
}

func TestBrokenEscapesSurviveAReusedConnection(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	var keys []string
	for i := range 20 {
		key := fmt.Sprintf("%02d%%", i)
		keys = append(keys, key)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL(), strings.NewReader(`{}`))
		require.NoError(t, err)
		request.URL.Opaque = "//restate.test/Wf/" + key + "/run/send"
		request.Header.Set("Content-Type", "application/json")
		response, err := server.Client().Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, 202, response.StatusCode)
	}
	server.ExpectStarted(t, "Wf", keys...)
}

func TestARequestTurnedAwayTakesNoStep(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t, restatetest.WithBodyLimit(10))
	server.Script("c-1", restatetest.Status(503))
	url := server.URL() + "/BonusPayout/c-1/run/send"
	var statuses []int
	for _, body := range []string{`{"much":"too long"}`, `{}`, `{}`} {
		status, _, err := do(t, server.Client(), http.MethodPost, url, body)
		require.NoError(t, err)
		statuses = append(statuses, status)
	}
	assert.Equal(t, []int{413, 503, 202}, statuses)
	assert.Equal(t, 3, server.Attempts("c-1"))
	assert.Nil(t, server.Requests()[0].Body)
}

// failures stands in for a test that may fail.
type failures struct{ text []string }

func (f *failures) Helper()        {}
func (f *failures) Cleanup(func()) {}
func (f *failures) Errorf(format string, args ...any) {
	f.text = append(f.text, fmt.Sprintf(format, args...))
}

func TestExpectStartedNamesTheDifference(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	for _, key := range []string{"c-2", "c-1", "c-3"} {
		_, _, err := post(t, server, key)
		require.NoError(t, err)
	}
	var none failures
	server.ExpectStarted(&none, "BonusPayout", "c-3", "c-1", "c-2", "c-1")
	server.ExpectStarted(&none, "Other")
	assert.Empty(t, none.text)

	var some failures
	server.ExpectStarted(&some, "BonusPayout", "c-1", "c-9", "c-8")
	assert.Equal(t, []string{"BonusPayout: 3 keys were started, 3 expected\n" +
		"\tnot started: [\"c-8\" \"c-9\"]\n\tstarted unexpectedly: [\"c-2\" \"c-3\"]"}, some.text)

	var many failures
	keys := make([]string, 25)
	for i := range keys {
		keys[i] = fmt.Sprint("k-", i)
	}
	server.ExpectStarted(&many, "Other", keys...)
	assert.Contains(t, many.text[0], "and 5 more")
}
