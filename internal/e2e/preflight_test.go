package e2e_test

import (
	"cmp"
	"encoding/json"
	"flag"
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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/adminapi"
	"github.com/redisevents/restatestart/internal/adminapi/adminapitest"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/preflight"
	"github.com/redisevents/restatestart/redisstream"
)

// record makes the test write the server's answers instead of comparing them.
var record = flag.Bool("record", false, "write the admin API's answers to internal/adminapi/adminapitest")

func idle[C, I any](C, I) (sdk.Void, error) { return sdk.Void{}, nil }

// workflow has one handler, run.
func workflow[I any](name string, options ...sdk.HandlerOption) sdk.ServiceDefinition {
	return sdk.NewWorkflow(name).Handler(payout.Handler, sdk.NewWorkflowHandler(idle[sdk.WorkflowContext, I], options...))
}

// serveKinds registers services of every kind that a preflight tells apart.
func serveKinds(t *testing.T, restate *servers.Restate) {
	t.Helper()
	type input struct{ Amount int }
	_, err := restate.Register(t.Context(), payout.StartServe(t,
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
	))
	require.NoError(t, err)
}

// The double that the tests of the preflight ask gives the answers of the real server.
func TestTheAdminAPIAnswersAsWasRecorded(t *testing.T) {
	t.Parallel()
	paths := []string{
		"/services/BonusPayout", "/services/NonePayout", "/services/AnyPayout", "/services/BytesPayout", "/services/ShortPayout",
		"/services/ZeroPayout", "/services/PrivateHandlerPayout", "/services/PrivatePayout", "/services/PlainPayout", "/services/ObjectPayout",
		"/services/Nope", "/services/BonusPayout/openapi", "/services/BytesPayout/openapi", "/services/NonePayout/openapi", "/elsewhere",
	}
	restate := servers.StartRestate(t, servers.RestateOptions{})
	serveKinds(t, restate)
	answers := make(map[string]adminapitest.Answer, len(paths))
	for _, path := range paths {
		status, body := request(t, http.MethodGet, restate.Admin()+path, "")
		answers[path] = adminapitest.Answer{Status: status, Body: withoutNoise(t, path, body)}
	}
	if *record {
		text, err := json.MarshalIndent(answers, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join("..", "adminapi", "adminapitest", "answers-"+restate.Version()+".json"), append(text, '\n'), 0o600))
		return
	}
	recorded, err := adminapitest.Recorded(restate.Version())
	require.NoError(t, err)
	require.Len(t, recorded, len(paths))
	for path, want := range recorded {
		assert.Equal(t, want.Status, answers[path].Status, path)
		if len(want.Body) == 0 {
			assert.Empty(t, answers[path].Body, path)
		} else {
			assert.JSONEq(t, string(want.Body), string(answers[path].Body), path)
		}
	}
	t.Logf("%d answers of restate-server %s", len(paths), restate.Version())
}

// withoutNoise is the part of an answer that is the same in every run, and that the preflight reads.
func withoutNoise(t *testing.T, path string, body []byte) json.RawMessage {
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

func TestARetentionIsReadBackAsItWasSet(t *testing.T) {
	t.Parallel()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	serveKinds(t, restate)
	base, err := url.Parse(restate.Admin())
	require.NoError(t, err)
	client, err := adminapi.New(adminapi.Config{URL: base, Timeout: kit.Patience})
	require.NoError(t, err)
	const day = 24 * time.Hour
	for _, row := range []struct {
		set  string
		want time.Duration
	}{
		{"null", day}, // what it is at first
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
		code, _ := request(t, http.MethodPatch, restate.Admin()+"/services/BonusPayout", `{"workflow_completion_retention":`+row.set+`}`)
		require.Equal(t, http.StatusOK, code, row.set)
		service, err := client.Service(t.Context(), "BonusPayout")
		require.NoError(t, err)
		got, err := adminapi.ParseDuration(service.Retention)
		require.NoError(t, err, service.Retention)
		assert.Equal(t, row.want, got, row.set)
	}
}

// What a preflight finds is tested against the recorded answers; that a late workflow is found, in
// TestAWorkflowThatIsRegisteredLateHoldsItsPartitionOnly.
func TestAStrictPreflightWaitsForTheServers(t *testing.T) {
	t.Parallel()
	server, bets := newBets(t, 1, servers.RedisOptions{})
	restate, service, _ := startPayouts(t)
	bets.Add(t, 0, kit.Bet{ID: "b-1", Amount: 1, Claim: "c-1"})
	require.NoError(t, restate.Kill())
	require.NoError(t, server.Kill())

	consumer := run(t, connect(t, server), bets, newStarter(t, restatestart.Options{Ingress: restate.Ingress()}), redisstream.Options{
		HoldMin: 50 * time.Millisecond, HoldMax: 200 * time.Millisecond, Preflight: &preflight.Options{
			AdminURL: restate.Admin(), Workflows: []preflight.Workflow{{Name: payout.Workflow}}, RedeliveryWindow: time.Hour,
		},
		StrictPreflight: true,
	})
	kit.Await(t, func() bool { return consumer.Status().Preflight.Error != "" })
	assert.Equal(t, redisstream.StateStarting, consumer.Status().State)
	require.NoError(t, restate.Restart(t.Context()))
	kit.Await(t, func() bool { return consumer.Status().Preflight.State == redisstream.PreflightPassed })
	assert.Equal(t, redisstream.StateStarting, consumer.Status().State)
	require.NoError(t, server.Restart(t.Context()))
	awaitCompleted(t, restate, payout.Workflow, 1)
	consumer.stop(t)
	assert.Equal(t, map[string]int{"c-1": 1}, service.Executions())
}
