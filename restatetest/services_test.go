package restatetest_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

// sent is the answer to one send: its status, and the members of a 202 or the message of an error.
type sent struct {
	Status               int `json:"-"`
	InvocationID, Answer string
}

func sendTo(t *testing.T, server *restatetest.Server, path string, header ...string) sent {
	t.Helper()
	status, body := mustDo(t, server.Client(), http.MethodPost, server.URL()+path, `{"n":1}`, header...)
	var answer struct{ InvocationID, Status, Message string }
	require.NoError(t, json.Unmarshal([]byte(body), &answer), body)
	return sent{status, answer.InvocationID, answer.Status + answer.Message}
}

func allKinds(t *testing.T) *restatetest.Server {
	t.Helper()
	return restatetest.New(t,
		restatetest.WithService("Svc", "Do", "Other"),
		restatetest.WithObject("Obj", "Do", "Other"),
		restatetest.WithWorkflow("Wf", "Run"), restatetest.WithShared("Wf", "Get", "Peek"))
}

func TestASendWithoutAnIdempotencyKeyIsNewEachTime(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/Svc/Do/send", "/restate/send/Svc/Do", "/Obj/k/Do/send", "/restate/send/Obj/k/Do", "/Wf/k/Get/send", "/restate/send/Wf/k/Get",
	} {
		server := allKinds(t)
		first, second := sendTo(t, server, path), sendTo(t, server, path)
		assert.Equal(t, []string{"Accepted", "Accepted"}, []string{first.Answer, second.Answer}, path)
		assert.Regexp(t, `^inv_1[0-9A-Za-z]{33}$`, first.InvocationID)
		assert.NotEqual(t, first.InvocationID, second.InvocationID, path)
		assert.Len(t, server.Starts(), 2)
		assert.Zero(t, server.Duplicates())
	}
}

func TestAnIdempotencyKeyMakesARepeat(t *testing.T) {
	t.Parallel()
	server := allKinds(t)
	ids := map[string]string{}
	for _, path := range []string{
		"/Svc/Do/send", "/Svc/Other/send", "/Obj/a/Do/send", "/Obj/b/Do/send", "/Obj/a/Other/send", "/Wf/a/Get/send", "/Wf/a/Peek/send",
	} {
		for _, key := range []string{"ik-1", "ik-2", ""} {
			first := sendTo(t, server, path, "Idempotency-Key", key)
			assert.Equal(t, sent{202, first.InvocationID, "Accepted"}, first, "%s %q", path, key)
			repeat := sendTo(t, server, path, "Idempotency-Key", key)
			assert.Equal(t, sent{202, first.InvocationID, "PreviouslyAccepted"}, repeat, "%s %q", path, key)
			assert.Empty(t, ids[first.InvocationID], "%s %q", path, key)
			ids[first.InvocationID] = path + key
		}
	}
	old, renamed := sendTo(t, server, "/Obj/c/Do/send", "Idempotency-Key", "x"), sendTo(t, server, "/restate/send/Obj/c/Do", "Idempotency-Key", "x")
	assert.Equal(t, old.InvocationID, renamed.InvocationID)
	assert.Equal(t, "PreviouslyAccepted", renamed.Answer)
	assert.Len(t, server.Starts(), 22)
	assert.Equal(t, 22, server.Duplicates())
}

func TestServicesAreRecordedByIdempotencyKey(t *testing.T) {
	t.Parallel()
	server := allKinds(t)
	server.Script("ik-2", restatetest.Status(503))
	for _, key := range []string{"ik-2", "ik-1", "ik-2"} {
		sendTo(t, server, "/Svc/Do/send", "Idempotency-Key", key)
	}
	sendTo(t, server, "/Obj/o-1/Do/send", "Idempotency-Key", "ik-9")
	sendTo(t, server, "/Wf/w-1/Get/send", "Idempotency-Key", "ik-9")

	server.ExpectOrder(t, "Svc", "ik-1", "ik-2")
	server.ExpectStarted(t, "Obj", "o-1")
	server.ExpectStarted(t, "Wf") // a shared handler starts nothing
	server.ExpectBody(t, "Svc", "ik-2", `{"n":1}`)
	assert.Equal(t, 2, server.Attempts("ik-2"))
	var names []string
	for _, start := range server.Starts() {
		names = append(names, start.Workflow+"/"+start.Key+"/"+start.Handler+" "+start.IdempotencyKey)
	}
	assert.Equal(t, []string{"Svc//Do ik-1", "Svc//Do ik-2", "Obj/o-1/Do ik-9", "Wf/w-1/Get ik-9"}, names)
	assert.Empty(t, server.Requests()[0].Key)
	assert.Equal(t, "Do", server.Requests()[0].Handler)
}

func TestServicesAndObjectsRefuse(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t,
		restatetest.WithService("Svc", "Do"), restatetest.WithObject("Obj"), restatetest.WithShared("Wf", "Get"),
		restatetest.WithWorkflow("Wf"), restatetest.WithPrivate("Obj", "Do"), restatetest.WithInput("Svc", "Void", restatetest.InputNone))
	const badPath = "bad path, expected either /:service-name/:handler or /:object-name/:object-key/:handler"
	const onceOnly = "cannot use the idempotency key with workflow handlers. The handler invocation will already be idempotent by the workflow key itself."
	tests := map[string]struct {
		path, idempotencyKey string
		status               int
		message              string
	}{
		"a service has no key":          {"/Svc/somekey/Do/send", "", 400, badPath},
		"nor in the new form":           {"/restate/send/Svc/somekey/Do", "", 400, "bad path, expected /restate/call/"},
		"an object has one":             {"/Obj/run/send", "", 404, "handler 'send' was not found"},
		"unknown handler of a service":  {"/Svc/do/send", "", 404, "handler 'do' was not found"},
		"private":                       {"/Obj/k/run/send", "", 400, "the invoked service is not public"},
		"key that is no ASCII":          {"/Svc/Do/send", "k\u00e9y", 400, "bad header idempotency-key: ToStrError { _priv: () }"},
		"key of a workflow's run":       {"/Wf/k/run/send", "ik", 400, onceOnly},
		"void handler with a body":      {"/Svc/Void/send", "", 400, "input validation error: Expected body and content-type to be empty"},
		"a call of a service":           {"/Svc/Do", "", 501, "restatetest supports only"},
		"delay of a service unreadable": {"/Svc/Do/send?delay=10", "", 400, "bad delay query parameter"},
	}
	for name, test := range tests {
		var header []string
		if test.idempotencyKey != "" {
			header = []string{"Idempotency-Key", test.idempotencyKey}
		}
		answer := sendTo(t, server, test.path, header...)
		assert.Equal(t, test.status, answer.Status, name)
		assert.Contains(t, answer.Answer, test.message, name)
	}
	assert.Empty(t, server.Starts())
}

func TestAServiceRegisteredAgainStaysAService(t *testing.T) {
	t.Parallel()
	server := allKinds(t)
	first := sendTo(t, server, "/Svc/Do/send", "Idempotency-Key", "ik")
	server.Unregister("Svc")
	assert.Equal(t, 404, sendTo(t, server, "/Svc/Do/send", "Idempotency-Key", "ik").Status)
	_, health := mustDo(t, server.Client(), http.MethodGet, server.URL()+"/restate/health", "")
	assert.JSONEq(t, `{"services":["Obj","Wf"]}`, health)

	server.Register("Svc", "Do")
	assert.Equal(t, sent{202, first.InvocationID, "PreviouslyAccepted"}, sendTo(t, server, "/Svc/Do/send", "Idempotency-Key", "ik"))
	assert.Equal(t, 404, sendTo(t, server, "/Svc/Other/send").Status, "not registered again")
}

// One request of the code under test becomes two attempts, of which the doc comment of Drop warns.
func TestGosClientRetriesADroppedIdempotentRequest(t *testing.T) {
	t.Parallel()
	server := allKinds(t)
	server.Script("ik", restatetest.DropAfterAccept())
	sendTo(t, server, "/Svc/Do/send") // for a connection to reuse
	assert.Equal(t, "PreviouslyAccepted", sendTo(t, server, "/Svc/Do/send", "Idempotency-Key", "ik").Answer)
	assert.Equal(t, 2, server.Attempts("ik"))
	assert.Equal(t, []int{202, 0, 202}, statuses(server))
}

func TestIdempotencyKeysAreForgottenToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t, restatetest.WithService("Svc"), restatetest.WithRetention(time.Hour))
		first := sendTo(t, server, "/Svc/run/send", "Idempotency-Key", "ik")
		time.Sleep(time.Hour)
		assert.Equal(t, first, sendTo(t, server, "/Svc/run/send", "Idempotency-Key", "ik"), "Accepted, with the same id")
		server.Purge("Svc", "ik")
		assert.Equal(t, first, sendTo(t, server, "/Svc/run/send", "Idempotency-Key", "ik"))
		server.ExpectOrder(t, "Svc", "ik", "ik", "ik")
	})
}

func TestWorkflowsAreRegisteredAndUnregistered(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	server.Unregister("BonusPayout") // and with it the readiness to accept any name
	status, body := mustPost(t, server, "c-1")
	assert.Equal(t, 404, status)
	assert.Contains(t, body, "service 'BonusPayout' not found")

	server.Register("BonusPayout")
	status, _ = mustPost(t, server, "c-1")
	assert.Equal(t, 202, status)
	status, body = mustDo(t, server.Client(), http.MethodGet, server.URL()+"/restate/health", "")
	assert.Equal(t, 200, status)
	assert.JSONEq(t, `{"services":["BonusPayout"]}`, body)

	server.Unregister("BonusPayout")
	status, _ = mustPost(t, server, "c-1")
	assert.Equal(t, 404, status, "even for a key accepted before")
	server.Register("BonusPayout", "run")
	_, body = mustPost(t, server, "c-1")
	assert.Contains(t, body, "PreviouslyAccepted")
}
