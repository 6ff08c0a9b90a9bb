package restatestart_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/admin/admintest"
	"github.com/redisevents/restatestart/restatetest"
)

// preflightOn makes the world's consumer ask an admin API in memory about workflows.
func preflightOn(w *world, api *admintest.API, workflows ...restatestart.PreflightWorkflow) {
	w.options.Preflight = &restatestart.Preflight{AdminURL: "http://restate:9070", Workflows: workflows, HTTPClient: api.Client()}
}

var bonus = restatestart.PreflightWorkflow{Name: "BonusPayout"}

func TestAPreflightFindsWhatIsNotAsAStartNeedsIt(t *testing.T) {
	t.Parallel()
	type workflow = restatestart.PreflightWorkflow
	for _, version := range admintest.Versions() {
		for name, row := range map[string]struct {
			ask    []workflow
			window time.Duration
			want   []restatestart.PreflightFinding
		}{
			"all is well":                 {[]workflow{bonus}, 24 * time.Hour, nil},
			"all is well, without input":  {[]workflow{{Name: "NonePayout", Input: restatestart.InputNone}}, 0, nil},
			"all is well, with any JSON":  {[]workflow{{Name: "AnyPayout"}}, 0, nil},
			"bytes may be none":           {[]workflow{{Name: "BytesPayout", Input: restatestart.InputNone}}, 0, nil},
			"bytes are not looked at":     {[]workflow{{Name: "BytesPayout", Input: restatestart.InputUnchecked}}, 0, nil},
			"retention is not looked at":  {[]workflow{{Name: "ZeroPayout"}}, 0, nil},
			"as long as the window":       {[]workflow{{Name: "ShortPayout"}}, 90*time.Minute + 1500*time.Millisecond, nil},
			"nothing of that name":        {[]workflow{{Name: "Nope"}}, 0, found("Nope", "", "workflow_unknown", "no service of that name is registered")},
			"names are to the letter":     {[]workflow{{Name: "bonuspayout"}}, 0, found("bonuspayout", "", "workflow_unknown", "no service of that name is registered")},
			"a service":                   {[]workflow{{Name: "PlainPayout"}}, 0, found("PlainPayout", "", "not_a_workflow", "it is of type Service, and not a workflow")},
			"an object, of which is said": {[]workflow{{Name: "ObjectPayout"}, {Name: "ObjectPayout", Handler: "x"}}, 0, found("ObjectPayout", "", "not_a_workflow", "it is of type VirtualObject, and not a workflow")},
			"private":                     {[]workflow{{Name: "PrivatePayout"}}, 0, found("PrivatePayout", "", "private", "it is private, and the ingress refuses to start it")},
			"a private handler":           {[]workflow{{Name: "PrivateHandlerPayout"}}, 0, found("PrivateHandlerPayout", "run", "private", "handler run is private, and the ingress refuses to start it")},
			"another handler":             {[]workflow{{Name: "BonusPayout", Handler: "Run"}}, 0, found("BonusPayout", "Run", "handler_unknown", "it has no handler Run; that is run")},
			"a shared handler":            {[]workflow{{Name: "BonusPayout", Handler: "status", Input: restatestart.InputNone}}, 0, found("BonusPayout", "status", "handler_shared", "handler status is not the one that runs the workflow; that is run")},
			"JSON for none":               {[]workflow{{Name: "NonePayout"}}, 0, found("NonePayout", "run", "input", "handler run takes as input: none; a start carries a body of application/json")},
			"JSON for bytes":              {[]workflow{{Name: "BytesPayout"}}, 0, found("BytesPayout", "run", "input", "handler run takes as input: application/octet-stream; a start carries a body of application/json")},
			"none for JSON":               {[]workflow{{Name: "BonusPayout", Input: restatestart.InputNone}}, 0, found("BonusPayout", "run", "input", "handler run takes as input: JSON object; a start carries no body")},
			"short of the window": {[]workflow{{Name: "ShortPayout"}}, 90*time.Minute + 1501*time.Millisecond, found("ShortPayout", "", "retention",
				"it is forgotten 1h 30m 1s 500ms after its completion, by its workflow_completion_retention, and the redelivery window is 1h30m1.501s")},
			"not kept at all": {[]workflow{{Name: "ZeroPayout"}}, time.Millisecond, found("ZeroPayout", "", "retention",
				"it is forgotten 0s after its completion, by its workflow_completion_retention, and the redelivery window is 1ms")},
			"several": {[]workflow{{Name: "Nope"}, bonus, {Name: "PrivatePayout", Handler: "Run"}, {Name: "Nope", Handler: "x"}}, 48 * time.Hour, append(append(append(append(
				found("Nope", "", "workflow_unknown", "no service of that name is registered"),
				found("BonusPayout", "", "retention", "it is forgotten 1d after its completion, by its workflow_completion_retention, and the redelivery window is 48h0m0s")...),
				found("PrivatePayout", "", "private", "it is private, and the ingress refuses to start it")...),
				found("PrivatePayout", "", "retention", "it is forgotten 1d after its completion, by its workflow_completion_retention, and the redelivery window is 48h0m0s")...),
				found("PrivatePayout", "Run", "handler_unknown", "it has no handler Run; that is run")...)},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 1)
					preflightOn(w, admintest.New(version), row.ask...)
					w.options.Preflight.RedeliveryWindow = row.window
					w.options.Preflight.Strict = true
					w.run(&recorder{})
					status := w.consumer.Status().Preflight
					require.NotNil(t, status)
					assert.Equal(t, row.want, status.Findings)
					if row.want == nil {
						assert.Equal(t, restatestart.PreflightPassed, status.State)
						require.NoError(t, w.stop())
						return
					}
					assert.Equal(t, restatestart.PreflightTrouble, status.State)
					failed, is := errors.AsType[*restatestart.PreflightError](w.stop())
					require.True(t, is)
					assert.Equal(t, row.want, failed.Findings)
				})
			})
		}
	}
}

func found(workflow, handler string, code restatestart.PreflightCode, text string) []restatestart.PreflightFinding {
	return []restatestart.PreflightFinding{{Workflow: workflow, Handler: handler, Code: code, Text: workflow + ": " + text}}
}

func TestAPreflightDelaysNoMessageAndIsRepeatedUntilItPasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		api := admintest.New("1.7.12")
		api.Fail(admintest.ErrRefused)
		preflightOn(w, api, bonus)
		w.publish(0, "a")
		handler := &recorder{}
		w.run(handler)
		assert.Equal(t, []string{"a"}, handler.handed(), "at once")
		pass(100 * time.Second)
		assert.Len(t, api.Requests(), 1+1+1+1+1+1+2, "after 1, 2, 4, 8 and 16 s, and then every 30 s")
		status := w.consumer.Status()
		assert.Equal(t, &restatestart.PreflightStatus{
			State: restatestart.PreflightPending, Error: "ask the admin API about BonusPayout: " + admintest.ErrRefused.Error(),
		}, status.Preflight)
		assert.Empty(t, status.Error, "the consumer itself is well")
		assert.Equal(t, restatestart.StateRunning, status.State)
		assert.InDelta(t, 3, w.logged("preflight waits for the admin API"), 1)

		api.Fail(nil)
		api.Replace("/services/BonusPayout", `"public": true`, `"public": false`)
		pass(31 * time.Second)
		status = w.consumer.Status()
		assert.Equal(t, restatestart.PreflightTrouble, status.Preflight.State)
		assert.Equal(t, found("BonusPayout", "", "private", "it is private, and the ingress refuses to start it"), status.Preflight.Findings)
		assert.Empty(t, status.Preflight.Error)
		assert.Equal(t, 1, w.logged(`level=ERROR msg="preflight found trouble" topic=claims consumer=payout findings="[BonusPayout: it is private, and the ingress refuses to start it]"`))

		api.Fail(admintest.ErrRefused)
		pass(30 * time.Second)
		status = w.consumer.Status()
		assert.Equal(t, restatestart.PreflightTrouble, status.Preflight.State, "what was found still stands")
		assert.Len(t, status.Preflight.Findings, 1)
		assert.NotEmpty(t, status.Preflight.Error)

		api.Fail(nil)
		api.Replace("/services/BonusPayout", `"public": false`, `"public": true`)
		pass(31 * time.Second)
		status = w.consumer.Status()
		assert.Equal(t, restatestart.PreflightPassed, status.Preflight.State)
		assert.WithinDuration(t, time.Now(), status.Preflight.CheckedAt, 31*time.Second)
		assert.Empty(t, status.Preflight.Findings)
		assert.Equal(t, 1, w.logged(`level=INFO msg="preflight passed" topic=claims consumer=payout workflows=1`))
		asked := len(api.Requests())
		pass(time.Hour)
		assert.Len(t, api.Requests(), asked, "it is over")
		require.NoError(t, w.stop())
	})
}

func TestThePreflightsLogSaysWhatIsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		api := admintest.New("1.7.12")
		preflightOn(w, api, restatestart.PreflightWorkflow{Name: "PrivatePayout"})
		w.run(&recorder{})
		pass(10 * time.Second) // after 1, 3 and 7 s the same is found
		assert.Equal(t, 1, w.logged("preflight found trouble"))
		api.Set("/services/PrivatePayout", http.StatusForbidden, "")
		pass(10 * time.Second)
		assert.Equal(t, 2, w.logged("preflight found trouble"))
		pass(5 * time.Minute)
		assert.InDelta(t, 11, w.logged("preflight found trouble"), 2, "and the same every 30 s")
		require.NoError(t, w.stop())
	})
}

func TestAPreflightThatHangsDelaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		api := admintest.New("1.7.12")
		api.Hang()
		preflightOn(w, api, bonus)
		w.publish(0, "a")
		handler := &recorder{}
		w.run(handler)
		assert.Equal(t, []string{"a"}, handler.handed())
		pass(restatestart.DefaultPreflightTimeout)
		assert.Contains(t, w.consumer.Status().Preflight.Error, "no answer within 5s")
		pass(time.Second)
		began := time.Now()
		require.NoError(t, w.stop())
		assert.LessOrEqual(t, time.Since(began), time.Second)
	})
}

func TestAStrictPreflightReadsNothingBeforeItPasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		api := admintest.New("1.7.12")
		api.Fail(admintest.ErrRefused)
		preflightOn(w, api, bonus)
		w.options.Preflight.Strict = true
		w.setMeta("", "", errors.New("LOADING Redis is loading the dataset in memory"))
		w.publish(0, "a")
		handler := &recorder{}
		w.run(handler)
		pass(20 * time.Second)
		status := w.consumer.Status()
		assert.Equal(t, restatestart.StateStarting, status.State)
		assert.Contains(t, status.Error, "ask the admin API about BonusPayout: dial tcp")
		assert.Zero(t, w.logged("redis unavailable"), "Redis was not even asked")

		api.Set("/services/BonusPayout", http.StatusServiceUnavailable, "")
		api.Fail(nil)
		pass(30 * time.Second)
		assert.Contains(t, w.consumer.Status().Error, "answer 503", "a proxy whose server is not there yet")
		answers, err := admintest.Recorded("1.7.12")
		require.NoError(t, err)
		api.Set("/services/BonusPayout", http.StatusOK, string(answers["/services/BonusPayout"].Body))
		pass(31 * time.Second)
		status = w.consumer.Status()
		assert.Equal(t, restatestart.PreflightPassed, status.Preflight.State)
		assert.Contains(t, status.Error, "LOADING", "Redis is waited for next")
		assert.Empty(t, handler.handed())

		w.setMeta("1", "1", nil)
		pass(31 * time.Second)
		assert.Equal(t, []string{"a"}, handler.handed())
		assert.Empty(t, w.consumer.Status().Error)
		require.NoError(t, w.stop())
	})
}

func TestAStrictPreflightReturnsEachFindingFromRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		preflightOn(w, admintest.New("1.7.12"), bonus, restatestart.PreflightWorkflow{Name: "Nope"}, restatestart.PreflightWorkflow{Name: "PlainPayout"})
		w.options.Preflight.Strict, w.options.Preflight.RedeliveryWindow = true, 48*time.Hour
		w.publish(0, "a")
		handler := &recorder{}
		w.run(handler)
		want := "restatestart: consumer payout of topic claims: preflight: " +
			"BonusPayout: it is forgotten 1d after its completion, by its workflow_completion_retention, and the redelivery window is 48h0m0s; " +
			"Nope: no service of that name is registered; PlainPayout: it is of type Service, and not a workflow"
		require.EqualError(t, <-w.result, want)
		assert.Zero(t, w.source.Reads(0))
		assert.Equal(t, 1, w.logged("preflight found trouble"))
		status := w.consumer.Status()
		assert.Equal(t, restatestart.StateStopped, status.State)
		assert.Len(t, status.Preflight.Findings, 3)
		assert.Contains(t, status.Error, "Nope: no service")

		encoded, err := json.Marshal(status.Preflight)
		require.NoError(t, err)
		var decoded restatestart.PreflightStatus
		require.NoError(t, json.Unmarshal(encoded, &decoded))
		assert.True(t, decoded.CheckedAt.Equal(status.Preflight.CheckedAt))
		assert.Equal(t, status.Preflight.Findings, decoded.Findings)
	})
}

// What no waiting mends is a finding too: a strict Run must not wait for ever where somebody has to act.
func TestAnAdminAPIThatIsNoneIsAFinding(t *testing.T) {
	t.Parallel()
	for text, row := range map[string]struct {
		status int
		body   string
	}{
		"answer 401": {401, ""}, "answer 403": {403, "Forbidden"}, "answer 404": {404, ""}, "answer 302": {302, ""},
		"the answer is not one of Restate's admin API": {200, "<html>"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			api := admintest.New("1.7.12")
			api.Set("/services/BonusPayout", row.status, row.body)
			preflightOn(w, api, bonus)
			w.options.Preflight.Strict = true
			w.run(&recorder{})
			failed, is := errors.AsType[*restatestart.PreflightError](<-w.result)
			require.True(t, is)
			assert.Equal(t, found("BonusPayout", "", "refused", "the admin API was not of help: "+text), failed.Findings)
		})
	}
	for _, status := range []int{408, 425, 429, 500, 502, 503, 504} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			api := admintest.New("1.7.12")
			api.Set("/services/BonusPayout", status, "")
			preflightOn(w, api, bonus)
			w.options.Preflight.Strict = true
			w.run(&recorder{})
			pass(time.Minute)
			assert.Equal(t, restatestart.PreflightPending, w.consumer.Status().Preflight.State, status)
			require.NoError(t, w.stop(), "stopped before it began")
		})
	}
}

func TestARetentionThatIsNotUnderstoodIsAFinding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		api := admintest.New("1.7.12")
		api.Replace("/services/BonusPayout", `"workflow_completion_retention": "1d"`, `"workflow_completion_retention": "P1D"`)
		preflightOn(w, api, bonus)
		w.options.Preflight.RedeliveryWindow = time.Hour
		w.run(&recorder{})
		assert.Equal(t, found("BonusPayout", "", "retention",
			`whether its workflow_completion_retention covers the redelivery window of 1h0m0s is not known, since it is given as "P1D"`),
			w.consumer.Status().Preflight.Findings)
		require.NoError(t, w.stop())
	})
}

// The documents of one service are asked for once, and no more of them than needed.
func TestAPreflightAsksOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		api := admintest.New("1.7.12")
		preflightOn(w, api, bonus, restatestart.PreflightWorkflow{Name: "BonusPayout", Handler: "status"},
			restatestart.PreflightWorkflow{Name: "NonePayout", Input: restatestart.InputNone},
			restatestart.PreflightWorkflow{Name: "BytesPayout", Input: restatestart.InputNone})
		w.options.Preflight.Strict = true
		w.run(&recorder{})
		require.Error(t, <-w.result)
		var paths []string
		for _, request := range api.Requests() {
			paths = append(paths, request.URL.Path)
		}
		assert.Equal(t, []string{"/services/BonusPayout", "/services/NonePayout", "/services/BytesPayout", "/services/BytesPayout/openapi"}, paths)
	})
}

func TestAPreflightTakesTheHandlerOfTheStarter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		preflightOn(w, admintest.New("1.7.12"), bonus, restatestart.PreflightWorkflow{Name: "AnyPayout", Handler: "run"})
		w.run(starterOn(t, restatetest.New(t), nil, restatestart.Options{Handler: "Run"}))
		assert.Equal(t, found("BonusPayout", "Run", "handler_unknown", "it has no handler Run; that is run"), w.consumer.Status().Preflight.Findings)
		require.NoError(t, w.stop())
	})
}

func TestS14APreflightTellsNoCredentials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		api := admintest.New("1.7.12")
		api.Set("/services/BonusPayout", 401, `{"message":"no access for cGFzcw== or s3cr3t-pass or Bearer t0ken"}`)
		preflightOn(w, api, bonus)
		w.options.Preflight.AdminURL = "http://operator:s3cr3t-pass@restate:9070"
		w.options.Preflight.Header = http.Header{"X-Token": {"t0ken-value"}}
		w.run(&recorder{})
		api.Fail(errors.New("no route"))
		pass(time.Minute)
		encoded, err := json.Marshal(w.consumer.Status())
		require.NoError(t, err)
		assert.Len(t, w.consumer.Status().Preflight.Findings, 1)
		assert.NotEmpty(t, w.consumer.Status().Preflight.Error)
		for _, secret := range []string{"s3cr3t", "t0ken", "operator", "access"} {
			assert.NotContains(t, string(encoded), secret)
			assert.Zero(t, w.logged(secret), secret)
		}
		require.NoError(t, w.stop())
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func TestAnHTTPClientThatPanicsOrHeedsNoContextDoesNoHarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		preflightOn(w, admintest.New("1.7.12"), bonus)
		w.options.Preflight.HTTPClient = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { panic("boom") })}
		w.publish(0, "a")
		handler := &recorder{}
		w.run(handler)
		assert.Equal(t, []string{"a"}, handler.handed())
		assert.Equal(t, "panic: boom", w.consumer.Status().Preflight.Error)
		require.NoError(t, w.stop())
	})
	for _, strict := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			preflightOn(w, admintest.New("1.7.12"), bonus)
			w.options.Preflight.Strict = strict
			w.options.Preflight.HTTPClient = &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				time.Sleep(time.Hour) // virtual
				return nil, errBoom
			})}
			w.run(&recorder{})
			pass(time.Second)
			began := time.Now()
			require.NoError(t, w.stop())
			assert.LessOrEqual(t, time.Since(began), restatestart.DefaultDrainTimeout+time.Second)
			time.Sleep(2 * time.Hour) // what was left behind ends
		})
	}
}
