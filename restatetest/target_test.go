package restatetest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

// Every target is answered, and starts only a key that is valid UTF-8.
func FuzzTarget(f *testing.F) {
	for _, target := range []string{
		"/Wf/k/run/send", "/Wf/%/run/send", "/Wf/%e2%82/run/send", "/Wf//run/send", "//Wf/k/run/send/", "/Svc/run/send", "/Svc/k/run/send",
		"/restate/send/Svc/run", "/restate/send/Wf/k/run?delay=1s", "/restate/send", "/restate/health", "/restate/scope/a/send/Wf/k/run",
		"http://x/Wf/k/run/send", "/Wf/k#/run/send", "/Wf/k?/run/send", "*", "/", "/Wf/k/run/send?delay=%zz", "PRI", "x:80", "/restate/send///0",
	} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if target == "" || strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return // no request line
		}
		server := restatetest.Start(restatetest.WithWorkflow("Wf"), restatetest.WithService("Svc"))
		defer server.Close()
		status, _, body := raw(t, server, http.MethodPost,
			"POST "+target+" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
		assert.Contains(t, []int{202, 400, 404, 405, 414, 501}, status, body)

		starts, requests := server.Starts(), server.Requests()
		assert.Equal(t, status == 202, len(starts) == 1)
		for _, start := range starts {
			assert.True(t, utf8.ValidString(start.Key))
			assert.Equal(t, target, requests[0].RequestURI)
			assert.Equal(t, []string{start.Workflow, start.Handler}, []string{requests[0].Workflow, requests[0].Handler})
			assert.True(t, slices.Contains([]string{"Wf", "Svc"}, start.Workflow))
		}
	})
}

func TestUnusualRequestsAreAnsweredAsByTheRealServer(t *testing.T) {
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

func TestUnsupportedPathsAreAnswered501(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	for _, path := range []string{"/Wf/k/run", "/restate/call/Wf/k/run", "/restate/output/inv_1", "/restate/lookup"} {
		status, body := mustDo(t, server.Client(), http.MethodPost, server.URL()+path, `{}`)
		assert.Equal(t, 501, status, path)
		assert.Contains(t, body, "restatetest supports only", path)
	}
	assert.Empty(t, server.Starts())
}

func TestAnEmptyNameIsNotRegistered(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t, restatetest.WithWorkflow("Wf"))
	status, body := mustDo(t, server.Client(), http.MethodPost, server.URL()+"/restate/send//k/run", `{}`)
	assert.Equal(t, 404, status)
	assert.Contains(t, body, "service '' not found")
	assert.Empty(t, server.Starts())
}
