package e2e_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/restatedev/sdk-go"
	"github.com/restatedev/sdk-go/encoding"
	"github.com/restatedev/sdk-go/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/admin"
	"github.com/redisevents/restatestart/internal/admin/admintest"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// record makes the test write what the server answers, in place of holding it against what was recorded.
var record = flag.Bool("record", false, "write the admin API's answers to internal/admin/admintest")

// idle is a handler that does nothing.
func idle[C, I any](C, I) (sdk.Void, error) { return sdk.Void{}, nil }

// workflow has one handler, run.
func workflow[I any](name string, options ...sdk.HandlerOption) sdk.ServiceDefinition {
	return sdk.NewWorkflow(name).Handler(payout.Handler, sdk.NewWorkflowHandler(idle[sdk.WorkflowContext, I], options...))
}

// serveKinds serves services of every kind that a preflight tells apart, until the test ends, and returns where.
func serveKinds(t *testing.T) string {
	t.Helper()
	type input struct{ Amount int }
	endpoint := server.NewRestate().WithLogger(slog.DiscardHandler, true)
	for _, definition := range []sdk.ServiceDefinition{
		sdk.NewWorkflow("BonusPayout").
			Handler(payout.Handler, sdk.NewWorkflowHandler(idle[sdk.WorkflowContext, input])).
			Handler("status", sdk.NewWorkflowSharedHandler(idle[sdk.WorkflowSharedContext, sdk.Void])),
		workflow[sdk.Void]("NonePayout"),
		workflow[any]("AnyPayout", sdk.WithInputCodec(encoding.JSONCodecWithCustomSchemaGenerator(
			func(any) any { return map[string]any{} }))),
		workflow[[]byte]("BytesPayout", sdk.WithInputCodec(encoding.BinaryCodec)),
		workflow[string]("ShortPayout", sdk.WithWorkflowRetention(90*time.Minute+1500*time.Millisecond)),
		workflow[string]("ZeroPayout", sdk.WithWorkflowRetention(0)),
		workflow[string]("PrivateHandlerPayout", sdk.WithIngressPrivate(true)),
		sdk.NewWorkflow("PrivatePayout", sdk.WithIngressPrivate(true)).
			Handler(payout.Handler, sdk.NewWorkflowHandler(idle[sdk.WorkflowContext, string])),
		sdk.NewService("PlainPayout").Handler(payout.Handler, sdk.NewServiceHandler(idle[sdk.Context, string])),
		sdk.NewObject("ObjectPayout").Handler(payout.Handler, sdk.NewObjectHandler(idle[sdk.ObjectContext, string])),
	} {
		endpoint.Bind(definition)
	}
	handler, err := endpoint.Handler()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	serving := &http.Server{Handler: handler, Protocols: new(http.Protocols), ReadHeaderTimeout: 5 * time.Second}
	serving.Protocols.SetUnencryptedHTTP2(true)
	served := make(chan struct{})
	go func() {
		defer close(served)
		// It returns when the cleanup closes the listener, with an error that says so.
		_ = serving.Serve(listener)
	}()
	t.Cleanup(func() {
		assert.NoError(t, serving.Close())
		<-served
	})
	return "http://" + listener.Addr().String()
}

// asked are the paths whose answers are recorded.
var asked = []string{
	"/services/BonusPayout", "/services/NonePayout", "/services/AnyPayout", "/services/BytesPayout", "/services/ShortPayout",
	"/services/ZeroPayout", "/services/PrivateHandlerPayout", "/services/PrivatePayout", "/services/PlainPayout", "/services/ObjectPayout",
	"/services/Nope", "/services/BonusPayout/openapi", "/services/BytesPayout/openapi", "/services/NonePayout/openapi", "/elsewhere",
}

// The doubles give the answers that the real server gives.
func TestTheAdminAPIAnswersAsWasRecorded(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	_, err := restate.Register(t.Context(), serveKinds(t))
	require.NoError(t, err)
	answers := make(map[string]admintest.Answer, len(asked))
	for _, path := range asked {
		status, body := get(t, restate.Admin()+path)
		answers[path] = admintest.Answer{Status: status, Body: essence(t, path, body)}
	}
	if *record {
		text, err := json.MarshalIndent(answers, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join("..", "admin", "admintest", "answers-"+restate.Version()+".json"), append(text, '\n'), 0o600))
		return
	}
	recorded, err := admintest.Recorded(restate.Version())
	require.NoError(t, err)
	require.Len(t, recorded, len(asked))
	for path, want := range recorded {
		assert.Equal(t, want.Status, answers[path].Status, path)
		if len(want.Body) == 0 {
			assert.Empty(t, answers[path].Body, path)
		} else {
			assert.JSONEq(t, string(want.Body), string(answers[path].Body), path)
		}
	}
	t.Logf("%d answers of restate-server %s", len(asked), restate.Version())
}

func get(t *testing.T, target string) (int, []byte) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	require.NoError(t, err)
	request.Close = true // nothing is left idle for the leak check to find
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, body
}

// essence is what of an answer stays the same from one run to the next, and is looked at.
func essence(t *testing.T, path string, body []byte) json.RawMessage {
	t.Helper()
	if len(body) == 0 {
		return nil
	}
	var fields map[string]any
	require.NoError(t, json.Unmarshal(body, &fields))
	delete(fields, "deployment_id")
	if handlers, found := fields["handlers"].([]any); found {
		slices.SortFunc(handlers, func(a, b any) int {
			return cmp.Compare(a.(map[string]any)["name"].(string), b.(map[string]any)["name"].(string))
		})
	}
	if strings.HasSuffix(path, "/openapi") {
		paths := map[string]any{}
		for path, methods := range fields["paths"].(map[string]any) {
			if post, found := methods.(map[string]any)["post"].(map[string]any); found {
				paths[path] = map[string]any{"post": map[string]any{"requestBody": post["requestBody"]}}
			}
		}
		fields = map[string]any{"paths": paths}
	}
	text, err := json.Marshal(fields)
	require.NoError(t, err)
	return text
}

// How Restate takes a retention, and gives it back.
func TestARetentionIsReadBackAsItWasSet(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	_, err := restate.Register(t.Context(), serveKinds(t))
	require.NoError(t, err)
	base, err := url.Parse(restate.Admin())
	require.NoError(t, err)
	client, err := admin.New(admin.Config{URL: base, Timeout: patience})
	require.NoError(t, err)
	const day = 24 * time.Hour
	for _, row := range []struct {
		set  string
		want time.Duration
	}{
		{"null", day},
		{`"1s"`, time.Second},
		{`"1 day"`, day},
		{`"1500ms"`, 1500 * time.Millisecond},
		{`"P1DT1H"`, 25 * time.Hour},
		{`"36 hours"`, 36 * time.Hour},
		{`"7d 1h"`, 7*day + time.Hour},
		{`"2w"`, 14 * day},
		{`"400d"`, 400 * day},
		{`"1h 30m 5s 7ms 3us 9ns"`, 90*time.Minute + 5*time.Second + 7_003_009},
		{`"0s"`, 0},
	} {
		answer := request(t, http.MethodPatch, restate.Admin()+"/services/BonusPayout", `{"workflow_completion_retention":`+row.set+`}`)
		require.Equal(t, http.StatusOK, answer.Code, row.set)
		service, err := client.Service(t.Context(), "BonusPayout")
		require.NoError(t, err)
		got, err := admin.ParseDuration(service.Retention)
		require.NoError(t, err, service.Retention)
		assert.Equal(t, row.want, got, row.set)
	}
}
