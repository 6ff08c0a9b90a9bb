package redisstream_test

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
	"github.com/redisevents/restatestart/internal/adminapi/adminapitest"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/preflight"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/restatetest"
)

// preflightEnv is an env whose consumer checks workflows against an admin API in memory, before it delivers the message a.
// What a check finds is tested in package preflight.
func preflightEnv(t *testing.T, workflows ...preflight.Workflow) (*env, *adminapitest.API, *recorder) {
	t.Helper()
	e, api := newEnv(t, 1), adminapitest.New("1.7.12")
	e.options.Preflight = &preflight.Options{AdminURL: "http://restate:9070", Workflows: workflows, HTTPClient: api.Client()}
	e.publish(0, "a")
	return e, api, &recorder{}
}

var bonus = preflight.Workflow{Name: "BonusPayout"}

func TestAPreflightDelaysNoMessageAndIsRepeatedUntilItPasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, api, handler := preflightEnv(t, bonus)
		api.Fail(adminapitest.ErrRefused)
		e.run(handler)
		assert.Equal(t, []string{"a"}, handler.delivered(), "at once")
		testkit.Pass(100 * time.Second)
		assert.Len(t, api.Requests(), 1+5+2, "after 1, 2, 4, 8 and 16 s, and then every 30 s")
		status := e.consumer.Status()
		assert.Equal(t, &redisstream.PreflightStatus{
			State: redisstream.PreflightPending, Error: "ask the admin API about BonusPayout: " + adminapitest.ErrRefused.Error(),
		}, status.Preflight)
		assert.Empty(t, status.Error, "the consumer itself is well")
		assert.Equal(t, redisstream.StateRunning, status.State)
		assert.InDelta(t, 3, e.log.Count("preflight waiting for the admin API"), 1)

		api.Fail(nil)
		api.Replace("/services/BonusPayout", `"public": true`, `"public": false`)
		testkit.Pass(31 * time.Second)
		const private = "BonusPayout: it is private, and the ingress refuses to start it"
		found := e.consumer.Status().Preflight
		assert.Equal(t, &redisstream.PreflightStatus{
			State: redisstream.PreflightFailed, CheckedAt: found.CheckedAt,
			Findings: []preflight.Finding{{Workflow: "BonusPayout", Code: preflight.Private, Text: private}},
		}, found)
		assert.Equal(t, 1, e.log.Count(`level=ERROR msg="preflight failed" topic=claims consumer=payout findings="[`+private+`]"`))

		api.Fail(adminapitest.ErrRefused)
		testkit.Pass(30 * time.Second)
		silent := e.consumer.Status().Preflight
		assert.NotEmpty(t, silent.Error)
		silent.Error = ""
		assert.Equal(t, found, silent, "the last findings stay")

		api.Fail(nil)
		api.Replace("/services/BonusPayout", `"public": false`, `"public": true`)
		testkit.Pass(31 * time.Second)
		passed := e.consumer.Status().Preflight
		assert.WithinDuration(t, time.Now(), passed.CheckedAt, 31*time.Second)
		assert.Equal(t, &redisstream.PreflightStatus{State: redisstream.PreflightPassed, CheckedAt: passed.CheckedAt}, passed)
		assert.Equal(t, 1, e.log.Count(`level=INFO msg="preflight passed" topic=claims consumer=payout workflows=1`))
		requests := len(api.Requests())
		testkit.Pass(time.Hour)
		assert.Len(t, api.Requests(), requests)
	})
}

func TestRepeatedFindingsAreLoggedOnlyEvery30Seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, api, handler := preflightEnv(t, preflight.Workflow{Name: "PrivatePayout"})
		e.run(handler)
		testkit.Pass(10 * time.Second) // the same after 1, 3 and 7 s
		assert.Equal(t, 1, e.log.Count("preflight failed"))
		api.Set("/services/PrivatePayout", http.StatusForbidden, "")
		testkit.Pass(10 * time.Second)
		assert.Equal(t, 2, e.log.Count("preflight failed"), "another finding is logged at once")
		testkit.Pass(5 * time.Minute)
		assert.InDelta(t, 11, e.log.Count("preflight failed"), 2)
	})
}

func TestAStrictPreflightReadsNothingBeforeItPasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, api, handler := preflightEnv(t, bonus)
		e.options.StrictPreflight = true
		e.setMeta("", "", errors.New("LOADING Redis is loading the dataset in memory"))
		api.Fail(adminapitest.ErrRefused)
		e.run(handler)
		testkit.Pass(20 * time.Second)
		assert.Equal(t, redisstream.StateStarting, e.consumer.Status().State)
		assert.Contains(t, e.consumer.Status().Error, "ask the admin API about BonusPayout: dial tcp")
		assert.Zero(t, e.log.Count("redis unavailable"), "Redis was not asked")

		answers, err := adminapitest.Recorded("1.7.12")
		require.NoError(t, err)
		api.Set("/services/BonusPayout", http.StatusServiceUnavailable, "") // of a proxy
		api.Fail(nil)
		testkit.Pass(30 * time.Second)
		assert.Contains(t, e.consumer.Status().Error, "answer 503")
		api.Set("/services/BonusPayout", http.StatusOK, string(answers["/services/BonusPayout"].Body))
		testkit.Pass(31 * time.Second)
		assert.Equal(t, redisstream.PreflightPassed, e.consumer.Status().Preflight.State)
		assert.Contains(t, e.consumer.Status().Error, "LOADING", "Redis is waited for next")
		assert.Empty(t, handler.delivered())

		e.setMeta("1", "1", nil)
		testkit.Pass(31 * time.Second)
		assert.Equal(t, []string{"a"}, handler.delivered())
		assert.Empty(t, e.consumer.Status().Error)
	})
}

func TestAStrictPreflightMakesRunReturnItsFindings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _, handler := preflightEnv(t, bonus, preflight.Workflow{Name: "Nope"}, preflight.Workflow{Name: "PlainPayout"})
		e.options.StrictPreflight = true
		e.run(handler)
		err := e.ended()
		require.EqualError(t, err, "redisstream: consumer payout of topic claims: preflight: "+
			"Nope: no service of that name is registered; PlainPayout: it is of type Service, not a workflow")
		failed, is := errors.AsType[*preflight.Error](err)
		require.True(t, is)
		assert.Zero(t, e.source.Reads(0))
		assert.Equal(t, 1, e.log.Count("preflight failed"))
		status := e.consumer.Status()
		assert.Equal(t, redisstream.StateStopped, status.State)
		assert.Equal(t, failed.Findings, status.Preflight.Findings)
		assert.Contains(t, status.Error, "Nope: no service")

		encoded, err := json.Marshal(status.Preflight)
		require.NoError(t, err)
		var decoded redisstream.PreflightStatus
		require.NoError(t, json.Unmarshal(encoded, &decoded))
		assert.True(t, decoded.CheckedAt.Equal(status.Preflight.CheckedAt))
		assert.Equal(t, failed.Findings, decoded.Findings)
	})
}

func TestAPreflightChecksTheHandlerOfTheStarter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _, _ := preflightEnv(t, bonus, preflight.Workflow{Name: "AnyPayout", Handler: "run"})
		e.run(testkit.NewStarter(t, restatetest.New(t), nil, restatestart.Options{Handler: "Run"}))
		findings := e.consumer.Status().Preflight.Findings
		require.Len(t, findings, 1)
		assert.Equal(t, []string{"BonusPayout", "Run", "handler_unknown"}, []string{findings[0].Workflow, findings[0].Handler, string(findings[0].Code)})
	})
}

func TestS14APreflightShowsNoCredentials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, api, handler := preflightEnv(t, bonus)
		api.Set("/services/BonusPayout", http.StatusUnauthorized, `{"message":"no access for cGFzcw== or s3cr3t-pass or Bearer t0ken"}`)
		e.options.Preflight.AdminURL = "http://operator:s3cr3t-pass@restate:9070"
		e.options.Preflight.Header = http.Header{"X-Token": {"t0ken-value"}}
		e.run(handler)
		api.Fail(errors.New("no route"))
		testkit.Pass(time.Minute)
		status := e.consumer.Status()
		assert.Len(t, status.Preflight.Findings, 1)
		assert.NotEmpty(t, status.Preflight.Error)
		encoded, err := json.Marshal(status)
		require.NoError(t, err)
		for _, secret := range []string{"s3cr3t", "t0ken", "operator", "access"} {
			assert.NotContains(t, string(encoded), secret)
			assert.Zero(t, e.log.Count(secret), secret)
		}
	})
}

func TestAPreflightWhoseHTTPClientPanicsDelaysNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _, handler := preflightEnv(t, bonus)
		e.options.Preflight.HTTPClient.Transport = roundTrip(func(*http.Request) (*http.Response, error) { panic("boom") })
		e.run(handler)
		assert.Equal(t, []string{"a"}, handler.delivered())
		assert.Equal(t, "panic: boom", e.consumer.Status().Preflight.Error)
	})
}

func TestRunReturnsWhileAPreflightHangs(t *testing.T) {
	t.Parallel()
	ignoresContext := roundTrip(func(*http.Request) (*http.Response, error) {
		time.Sleep(time.Hour)
		return nil, testkit.ErrBoom
	})
	for name, row := range map[string]struct {
		strict    bool
		transport http.RoundTripper // nil hangs until the end of the context
		delivered []string
		within    time.Duration
	}{
		"in the background":                           {false, nil, []string{"a"}, time.Second},
		"in the background, and ignores its context":  {false, ignoresContext, []string{"a"}, redisstream.DefaultDrainTimeout + time.Second},
		"before the first read":                       {true, nil, nil, 0},
		"before the first read, ignoring its context": {true, ignoresContext, nil, redisstream.DefaultDrainTimeout + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e, api, handler := preflightEnv(t, bonus)
				api.Hang()
				e.options.StrictPreflight = row.strict
				if row.transport != nil {
					e.options.Preflight.HTTPClient.Transport = row.transport
				}
				e.run(handler)
				testkit.Pass(preflight.DefaultTimeout)
				assert.Equal(t, row.delivered, handler.delivered())
				if row.transport == nil {
					assert.Contains(t, e.consumer.Status().Preflight.Error, "no answer within 5s")
				}
				testkit.Pass(time.Second)
				began := time.Now()
				require.NoError(t, e.stop())
				assert.LessOrEqual(t, time.Since(began), row.within)
				time.Sleep(2 * time.Hour) // until the abandoned request ends
			})
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }
