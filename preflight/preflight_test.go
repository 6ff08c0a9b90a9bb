package preflight_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/adminapi/adminapitest"
	"github.com/redisevents/restatestart/preflight"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var bonus = preflight.Workflow{Name: "BonusPayout"}

func checkerOf(t *testing.T, api http.RoundTripper, options preflight.Options) *preflight.Checker {
	t.Helper()
	if options.AdminURL == "" {
		options.AdminURL = "http://restate:9070"
	}
	if options.Workflows == nil {
		options.Workflows = []preflight.Workflow{bonus}
	}
	options.HTTPClient = &http.Client{Transport: api}
	checker, err := preflight.New(options)
	require.NoError(t, err)
	return checker
}

// findings returns those of a check, which must end with nil or a *preflight.Error.
func findings(t *testing.T, checker *preflight.Checker) []preflight.Finding {
	t.Helper()
	err := checker.Check(t.Context())
	if err == nil {
		return nil
	}
	failed, is := errors.AsType[*preflight.Error](err)
	require.True(t, is, "%v", err)
	require.NotEmpty(t, failed.Findings)
	return failed.Findings
}

func finding(workflow, handler string, code preflight.Code, text string) preflight.Finding {
	return preflight.Finding{Workflow: workflow, Handler: handler, Code: code, Text: workflow + ": " + text}
}

// found is one finding alone.
func found(workflow, handler string, code preflight.Code, text string) []preflight.Finding {
	return []preflight.Finding{finding(workflow, handler, code, text)}
}

func TestACheckFindsWhatKeepsAStartFromWorking(t *testing.T) {
	t.Parallel()
	type workflow = preflight.Workflow
	for _, version := range adminapitest.Versions() {
		for name, row := range map[string]struct {
			ask    []workflow
			window time.Duration
			want   []preflight.Finding
		}{
			"JSON":                              {[]workflow{bonus}, 24 * time.Hour, nil},
			"no input":                          {[]workflow{{Name: "NonePayout", Input: preflight.InputNone}}, 0, nil},
			"any JSON":                          {[]workflow{{Name: "AnyPayout"}}, 0, nil},
			"no body for bytes":                 {[]workflow{{Name: "BytesPayout", Input: preflight.InputNone}}, 0, nil},
			"unchecked input":                   {[]workflow{{Name: "BytesPayout", Input: preflight.InputUnchecked}}, 0, nil},
			"unchecked retention":               {[]workflow{{Name: "ZeroPayout"}}, 0, nil},
			"retention as long as the window":   {[]workflow{{Name: "ShortPayout"}}, 90*time.Minute + 1500*time.Millisecond, nil},
			"unknown workflow":                  {[]workflow{{Name: "Nope"}}, 0, found("Nope", "", preflight.UnknownWorkflow, "no service of that name is registered")},
			"workflow in another case":          {[]workflow{{Name: "bonuspayout"}}, 0, found("bonuspayout", "", preflight.UnknownWorkflow, "no service of that name is registered")},
			"service":                           {[]workflow{{Name: "PlainPayout"}}, 0, found("PlainPayout", "", preflight.NotWorkflow, "it is of type Service, not a workflow")},
			"virtual object, reported once":     {[]workflow{{Name: "ObjectPayout"}, {Name: "ObjectPayout", Handler: "x"}}, 0, found("ObjectPayout", "", preflight.NotWorkflow, "it is of type VirtualObject, not a workflow")},
			"private workflow":                  {[]workflow{{Name: "PrivatePayout"}}, 0, found("PrivatePayout", "", preflight.Private, "it is private, and the ingress refuses to start it")},
			"private handler":                   {[]workflow{{Name: "PrivateHandlerPayout"}}, 0, found("PrivateHandlerPayout", "run", preflight.Private, "handler run is private, and the ingress refuses to start it")},
			"unknown handler":                   {[]workflow{{Name: "BonusPayout", Handler: "Run"}}, 0, found("BonusPayout", "Run", preflight.UnknownHandler, "it has no handler Run; the one that runs the workflow is run")},
			"shared handler":                    {[]workflow{{Name: "BonusPayout", Handler: "status", Input: preflight.InputNone}}, 0, found("BonusPayout", "status", preflight.SharedHandler, "handler status does not run the workflow; the one that runs the workflow is run")},
			"JSON for a handler without input":  {[]workflow{{Name: "NonePayout"}}, 0, found("NonePayout", "run", preflight.Input, "handler run takes as input: none; a start carries a body of application/json")},
			"JSON for a handler of bytes":       {[]workflow{{Name: "BytesPayout"}}, 0, found("BytesPayout", "run", preflight.Input, "handler run takes as input: application/octet-stream; a start carries a body of application/json")},
			"no body for JSON":                  {[]workflow{{Name: "BonusPayout", Input: preflight.InputNone}}, 0, found("BonusPayout", "run", preflight.Input, "handler run takes as input: JSON object; a start carries no body")},
			"retention shorter than the window": {[]workflow{{Name: "ShortPayout"}}, 90*time.Minute + 1501*time.Millisecond, found("ShortPayout", "", preflight.Retention, "its workflow_completion_retention of 1h 30m 1s 500ms is shorter than the redelivery window of 1h30m1.501s")},
			"no retention":                      {[]workflow{{Name: "ZeroPayout"}}, time.Millisecond, found("ZeroPayout", "", preflight.Retention, "its workflow_completion_retention of 0s is shorter than the redelivery window of 1ms")},
			"several, in the order of Workflows": {[]workflow{{Name: "Nope"}, bonus, {Name: "PrivatePayout", Handler: "Run"}, {Name: "Nope", Handler: "x"}}, 48 * time.Hour, []preflight.Finding{
				finding("Nope", "", preflight.UnknownWorkflow, "no service of that name is registered"),
				finding("BonusPayout", "", preflight.Retention, "its workflow_completion_retention of 1d is shorter than the redelivery window of 48h0m0s"),
				finding("PrivatePayout", "", preflight.Private, "it is private, and the ingress refuses to start it"),
				finding("PrivatePayout", "", preflight.Retention, "its workflow_completion_retention of 1d is shorter than the redelivery window of 48h0m0s"),
				finding("PrivatePayout", "Run", preflight.UnknownHandler, "it has no handler Run; the one that runs the workflow is run"),
			}},
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				t.Parallel()
				checker := checkerOf(t, adminapitest.New(version), preflight.Options{Workflows: row.ask, RedeliveryWindow: row.window})
				assert.Equal(t, row.want, findings(t, checker))
			})
		}
	}
}

func TestTheErrorOfACheckNamesEveryFinding(t *testing.T) {
	t.Parallel()
	checker := checkerOf(t, adminapitest.New("1.7.12"), preflight.Options{Workflows: []preflight.Workflow{{Name: "Nope"}, {Name: "Pay\u200b"}}})
	require.EqualError(t, checker.Check(t.Context()),
		`preflight: Nope: no service of that name is registered; "Pay\u200b": no service of that name is registered`)
}

func TestWorkflowsWithoutAHandlerHaveThatOfTheOptions(t *testing.T) {
	t.Parallel()
	checker := checkerOf(t, adminapitest.New("1.7.12"), preflight.Options{
		Handler: "Run", Workflows: []preflight.Workflow{bonus, {Name: "AnyPayout", Handler: "run"}},
	})
	assert.Equal(t, found("BonusPayout", "Run", preflight.UnknownHandler, "it has no handler Run; the one that runs the workflow is run"),
		findings(t, checker))
}

// Waiting does not help here: somebody has to change a setting.
func TestAnswersThatOnlyAChangeCanFixAreFindings(t *testing.T) {
	t.Parallel()
	for text, row := range map[string]struct {
		status int
		body   string
	}{
		"answer 401": {401, ""}, "answer 403": {403, "Forbidden"}, "answer 404": {404, ""}, "answer 302": {302, ""},
		"the answer is not from Restate's admin API": {200, "<html>"},
	} {
		api := adminapitest.New("1.7.12")
		api.Set("/services/BonusPayout", row.status, row.body)
		assert.Equal(t, found("BonusPayout", "", preflight.Refused, "the admin API could not be used: "+text),
			findings(t, checkerOf(t, api, preflight.Options{})))
	}
}

func TestAnswersThatTimeMayFixAreErrorsWithoutFindings(t *testing.T) {
	t.Parallel()
	for _, status := range []int{408, 425, 429, 500, 502, 503, 504} {
		for path, workflow := range map[string]preflight.Workflow{
			"/services/BonusPayout":         bonus,
			"/services/BonusPayout/openapi": {Name: "BonusPayout", Input: preflight.InputNone},
		} {
			api := adminapitest.New("1.7.12")
			api.Set(path, status, "")
			checker := checkerOf(t, api, preflight.Options{Workflows: []preflight.Workflow{{Name: "Nope"}, workflow}})
			require.EqualError(t, checker.Check(t.Context()), fmt.Sprintf("ask the admin API about BonusPayout: answer %d", status))
		}
	}
}

func TestAnOpenAPIDocumentThatIsRefusedIsNoFinding(t *testing.T) {
	t.Parallel()
	api := adminapitest.New("1.7.12")
	api.Set("/services/BonusPayout/openapi", http.StatusForbidden, "")
	checker := checkerOf(t, api, preflight.Options{Workflows: []preflight.Workflow{{Name: "BonusPayout", Input: preflight.InputNone}}})
	assert.Empty(t, findings(t, checker))
}

func TestEachCheckAsksAgain(t *testing.T) {
	t.Parallel()
	api := adminapitest.New("1.7.12")
	api.Fail(adminapitest.ErrRefused)
	checker := checkerOf(t, api, preflight.Options{})
	err := checker.Check(t.Context())
	require.ErrorIs(t, err, adminapitest.ErrRefused)
	require.EqualError(t, err, "ask the admin API about BonusPayout: "+adminapitest.ErrRefused.Error())
	assert.Len(t, api.Requests(), 1, "no retry")

	api.Fail(nil)
	api.Replace("/services/BonusPayout", `"public": true`, `"public": false`)
	assert.Len(t, findings(t, checker), 1)
	api.Replace("/services/BonusPayout", `"public": false`, `"public": true`)
	var checks sync.WaitGroup
	for range 8 {
		checks.Go(func() { assert.NoError(t, checker.Check(t.Context())) })
	}
	checks.Wait()
	assert.Len(t, api.Requests(), 1+1+8)
}

func TestARetentionThatCannotBeReadIsAFinding(t *testing.T) {
	t.Parallel()
	api := adminapitest.New("1.7.12")
	api.Replace("/services/BonusPayout", `"workflow_completion_retention": "1d"`, `"workflow_completion_retention": "P1D"`)
	assert.Equal(t, found("BonusPayout", "", preflight.Retention,
		`its workflow_completion_retention of "P1D" cannot be read; it may be shorter than the redelivery window of 1h0m0s`),
		findings(t, checkerOf(t, api, preflight.Options{RedeliveryWindow: time.Hour})))
}

func TestEachDocumentIsRequestedOnceAndOnlyIfNeeded(t *testing.T) {
	t.Parallel()
	api := adminapitest.New("1.7.12")
	workflows := []preflight.Workflow{
		bonus,
		{Name: "BonusPayout", Handler: "status"},
		{Name: "Nope"},
		{Name: "Nope", Handler: "x"},
		{Name: "NonePayout", Input: preflight.InputNone},
		{Name: "BytesPayout", Input: preflight.InputNone},
	}
	findings(t, checkerOf(t, api, preflight.Options{Workflows: workflows}))
	var paths []string
	for _, request := range api.Requests() {
		paths = append(paths, request.URL.Path)
	}
	assert.Equal(t, []string{
		"/services/BonusPayout", "/services/Nope", "/services/NonePayout", "/services/BytesPayout", "/services/BytesPayout/openapi",
	}, paths)
}

func TestACheckEndsAtItsTimeoutAndWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := adminapitest.New("1.7.12")
		api.Hang()
		checker := checkerOf(t, api, preflight.Options{})
		began := time.Now()
		require.ErrorContains(t, checker.Check(t.Context()), "ask the admin API about BonusPayout: no answer within 5s")
		assert.Equal(t, preflight.DefaultTimeout, time.Since(began))

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began = time.Now()
		require.ErrorIs(t, checker.Check(ctx), context.Canceled)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

func TestS14FindingsAndErrorsContainNoCredentials(t *testing.T) {
	t.Parallel()
	api := adminapitest.New("1.7.12")
	api.Set("/services/BonusPayout", 401, `{"message":"no access for cGFzcw== or s3cr3t-pass or Bearer t0ken"}`)
	checker := checkerOf(t, api, preflight.Options{
		AdminURL: "http://operator:s3cr3t-pass@restate:9070", Header: http.Header{"X-Token": {"t0ken-value"}},
	})
	refused := checker.Check(t.Context())
	api.Fail(errors.New("no route"))
	unreachable := checker.Check(t.Context())
	for _, err := range []error{refused, unreachable} {
		require.Error(t, err)
		for _, secret := range []string{"s3cr3t", "t0ken", "operator", "access", "cGFzcw"} {
			assert.NotContains(t, fmt.Sprintf("%+v %#v", err, err), secret)
		}
	}
	request := api.Requests()[0]
	_, password, _ := request.BasicAuth()
	assert.Equal(t, []string{"s3cr3t-pass", "t0ken-value"}, []string{password, request.Header.Get("X-Token")})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

func TestAPanicOfTheHTTPClientIsAnError(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for value, isError := range map[any]bool{"boom": false, boom: true} {
		checker := checkerOf(t, roundTrip(func(*http.Request) (*http.Response, error) { panic(value) }), preflight.Options{})
		err := checker.Check(t.Context())
		require.EqualError(t, err, "panic: boom")
		assert.Equal(t, isError, errors.Is(err, boom))
		_, hasFindings := errors.AsType[*preflight.Error](err)
		assert.False(t, hasFindings)
	}
}

func TestCodesKeepTheirText(t *testing.T) {
	t.Parallel()
	codes := []preflight.Code{
		preflight.UnknownWorkflow, preflight.NotWorkflow, preflight.Private, preflight.UnknownHandler, preflight.SharedHandler,
		preflight.Input, preflight.Retention, preflight.Refused,
	}
	slices.Sort(codes)
	assert.Equal(t, []preflight.Code{
		"handler_shared", "handler_unknown", "input", "not_a_workflow", "private", "refused", "retention", "workflow_unknown",
	}, codes)
}
