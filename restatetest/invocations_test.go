package restatetest_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

func TestTheFirstBodyCounts(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	url := server.URL() + "/BonusPayout/c%2F1/run/send"
	mustDo(t, server.Client(), http.MethodPost, url+"?delay=1500ms", `{"n":1}`, "X-Trace", "first")
	mustDo(t, server.Client(), http.MethodPost, url, `{"n":2}`, "X-Trace", "second")
	mustDo(t, server.Client(), http.MethodPost, server.URL()+"/restate/send/BonusPayout/c%2F1/run", `{"n":3}`)

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
	mustPost(t, server, "c-1")
	server.Starts()[0].Body[0] = 'x'
	server.Starts()[0].Header.Set("Content-Type", "changed")
	server.Requests()[0].Body[0] = 'x'
	server.Requests()[0].Header.Del("Content-Type")
	assert.JSONEq(t, `{"n":1}`, string(server.Starts()[0].Body))
	assert.Equal(t, "application/json", server.Requests()[0].Header.Get("Content-Type"))
}

func TestInvocationIDsDependOnWorkflowAndKeyOnly(t *testing.T) {
	t.Parallel()
	ids := map[string]string{}
	for range 2 {
		server := restatetest.New(t)
		for _, path := range []string{"A/1/run", "A/2/run", "B/1/run"} {
			mustDo(t, server.Client(), http.MethodPost, server.URL()+"/"+path+"/send", `{}`)
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

func TestARepeatCarriesTheExecutionTimeWhileItIsAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t)
		url := server.URL() + "/BonusPayout/c-1/run/send"
		due := time.Now().UTC().Add(90 * time.Minute).Format(time.RFC3339)

		_, first := mustDo(t, server.Client(), http.MethodPost, url+"?delay=1h%2030m", `{}`)
		assert.Contains(t, first, `"executionTime":"`+due+`","status":"Accepted"`)
		time.Sleep(89 * time.Minute)
		_, repeat := mustDo(t, server.Client(), http.MethodPost, url+"?delay=5s", `{}`)
		assert.Contains(t, repeat, `"executionTime":"`+due+`","status":"PreviouslyAccepted"`)
		time.Sleep(time.Minute)
		_, late := mustDo(t, server.Client(), http.MethodPost, url, `{}`)
		assert.NotContains(t, late, "executionTime")
	})
}
