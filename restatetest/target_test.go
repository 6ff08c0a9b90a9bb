package restatetest_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"github.com/redisevents/restatestart/restatetest"
)

// Whatever the target, there is an answer, and a start only of a key that is text and of the target as it was sent.
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
