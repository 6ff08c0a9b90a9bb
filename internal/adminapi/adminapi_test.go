package adminapi_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/adminapi"
	"github.com/redisevents/restatestart/internal/adminapi/adminapitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func clientOf(t *testing.T, base string, config adminapi.Config) *adminapi.Client {
	t.Helper()
	parsed, err := url.Parse(base)
	require.NoError(t, err)
	config.URL = parsed
	if config.Timeout == 0 {
		config.Timeout = 5 * time.Second
	}
	client, err := adminapi.New(config)
	require.NoError(t, err)
	return client
}

func TestServicesOfEveryVersionAreRead(t *testing.T) {
	t.Parallel()
	for _, version := range adminapitest.Versions() {
		api := adminapitest.New(version)
		client := clientOf(t, "http://restate:9070", adminapi.Config{HTTP: api.Client()})
		bonus, err := client.Service(t.Context(), "BonusPayout")
		require.NoError(t, err)
		assert.Equal(t, adminapi.Service{
			Name: "BonusPayout", Type: "Workflow", Public: true, Retention: "1d",
			Handlers: []adminapi.Handler{
				{Name: "run", Type: "Workflow", Public: true, Input: "JSON object"},
				{Name: "status", Type: "Shared", Public: true, Input: "none"},
			},
		}, bonus, version)
		for name, want := range map[string]adminapi.Service{
			"NonePayout":    {Type: "Workflow", Public: true, Retention: "1d", Handlers: []adminapi.Handler{{Name: "run", Type: "Workflow", Public: true, Input: "none"}}},
			"AnyPayout":     {Type: "Workflow", Public: true, Retention: "1d", Handlers: []adminapi.Handler{{Name: "run", Type: "Workflow", Public: true, Input: "application/json"}}},
			"BytesPayout":   {Type: "Workflow", Public: true, Retention: "1d", Handlers: []adminapi.Handler{{Name: "run", Type: "Workflow", Public: true, Input: "application/octet-stream"}}},
			"ShortPayout":   {Type: "Workflow", Public: true, Retention: "1h 30m 1s 500ms", Handlers: []adminapi.Handler{{Name: "run", Type: "Workflow", Public: true, Input: "JSON string"}}},
			"PrivatePayout": {Type: "Workflow", Retention: "1d", Handlers: []adminapi.Handler{{Name: "run", Type: "Workflow", Input: "JSON string"}}},
			"PlainPayout":   {Type: "Service", Public: true, Handlers: []adminapi.Handler{{Name: "run", Public: true, Input: "JSON string"}}},
			"ObjectPayout":  {Type: "VirtualObject", Public: true, Handlers: []adminapi.Handler{{Name: "run", Type: "Exclusive", Public: true, Input: "JSON string"}}},
		} {
			got, err := client.Service(t.Context(), name)
			require.NoError(t, err)
			want.Name = name
			assert.Equal(t, want, got, version)
		}
		_, err = client.Service(t.Context(), "Nope")
		require.ErrorIs(t, err, adminapi.ErrUnknown, version)
		for workflow, want := range map[string]bool{"BonusPayout": true, "BytesPayout": false, "NonePayout": false} {
			required, known, err := client.BodyRequired(t.Context(), workflow, "run")
			require.NoError(t, err)
			assert.True(t, known, version)
			assert.Equal(t, want, required, workflow)
		}
		_, known, err := client.BodyRequired(t.Context(), "BonusPayout", "Run")
		require.NoError(t, err)
		assert.False(t, known)
	}
}

func TestUnknownServicesAreDistinguishedFromOtherAnswers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"unknown":             {404, `{"message":"The requested service 'Pay' does not exist","restate_code":null}`, adminapi.ErrUnknown},
		"the ingress":         {404, `{"code":404,"message":"service 'services' not found, make sure to register the service before calling it.","source":"ingress"}`, nil},
		"a proxy's 404":       {404, "<h1>not found</h1>", nil},
		"an empty 404":        {404, "", nil},
		"a page":              {200, "<html>", adminapi.ErrNotRestate},
		"nothing":             {200, "", adminapi.ErrNotRestate},
		"other JSON":          {200, `{"ok":true}`, adminapi.ErrNotRestate},
		"JSON of other types": {200, `{"name":5,"ty":"secret"}`, adminapi.ErrNotRestate},
		"another service":     {200, `{"name":"Other","ty":"Workflow"}`, adminapi.ErrNotRestate},
		"a too long answer":   {200, `{"name":"Pay","ty":"Workflow","documentation":"` + strings.Repeat("x", 8<<20) + `"}`, adminapi.ErrNotRestate},
		"a redirect":          {302, "", nil},
		"no content":          {204, "", nil},
		"wrong credentials":   {401, "who are you, Bearer secret?", nil},
		"a starting server":   {503, "", nil},
		"switching protocols": {101, "", nil},
	} {
		api := adminapitest.New("1.7.12")
		api.Set("/services/Pay", row.status, row.body)
		_, err := clientOf(t, "http://restate:9070", adminapi.Config{HTTP: api.Client()}).Service(t.Context(), "Pay")
		require.Error(t, err, name)
		assert.NotContains(t, err.Error(), "secret")
		var status *adminapi.StatusError
		if row.want != nil {
			require.ErrorIs(t, err, row.want, name)
			require.NotErrorAs(t, err, &status)
		} else {
			require.ErrorAs(t, err, &status, name)
			assert.Equal(t, row.status, status.Status)
		}
	}
}

func TestPathsAndCredentialsAreSentAsGiven(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{
		"http://restate:9070":           "http://restate:9070/services/",
		"http://restate:9070/":          "http://restate:9070/services/",
		"https://gate/a%2Fb/restate//":  "https://gate/a%2Fb/restate/services/",
		"http://user:pa%20ss@gate:9070": "http://gate:9070/services/",
	} {
		for name, escaped := range map[string]string{"Pay": "Pay", "a/b": "a%2Fb", "..": "%2E%2E", "ä b?": "%C3%A4%20b%3F"} {
			api := adminapitest.New("1.7.12")
			_, err := clientOf(t, base, adminapi.Config{HTTP: api.Client(), Header: http.Header{"x-tenant": {"t-1"}}}).Service(t.Context(), name)
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "ss")
			request := api.Requests()[0]
			assert.Equal(t, want+escaped, request.URL.String())
			assert.Equal(t, "t-1", request.Header.Get("X-Tenant"))
			assert.Equal(t, "application/json", request.Header.Get("Accept"))
			user, password, has := request.BasicAuth()
			assert.Equal(t, strings.Contains(base, "user"), has)
			if has {
				assert.Equal(t, "user pa ss", user+" "+password)
			}
		}
	}
	parsed, err := url.Parse("http://user:pass@gate")
	require.NoError(t, err)
	_, err = adminapi.New(adminapi.Config{URL: parsed, Header: http.Header{"authorization": {"Bearer secret"}}})
	require.EqualError(t, err, "both the URL's userinfo and an Authorization header are given")
}

func TestConnectionErrorsContainNoURL(t *testing.T) {
	t.Parallel()
	api := adminapitest.New("1.7.12")
	api.Fail(adminapitest.ErrRefused)
	_, err := clientOf(t, "http://user:secret@restate:9070/prefix", adminapi.Config{HTTP: api.Client()}).Service(t.Context(), "Pay")
	require.ErrorIs(t, err, adminapitest.ErrRefused)
	assert.Equal(t, adminapitest.ErrRefused.Error(), err.Error())
}

func TestARequestEndsAtItsTimeoutAndIsNotRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := adminapitest.New("1.7.12")
		api.Hang()
		client := clientOf(t, "http://restate:9070", adminapi.Config{HTTP: api.Client(), Timeout: 3 * time.Second})
		began := time.Now()
		_, err := client.Service(t.Context(), "Pay")
		require.ErrorContains(t, err, "no answer within 3s: ")
		assert.Equal(t, 3*time.Second, time.Since(began))
		assert.Len(t, api.Requests(), 1, "no retry")
	})
}

// A connection left open fails the leak check of TestMain.
func TestTheDefaultClientFollowsNoRedirectAndKeepsNoConnection(t *testing.T) {
	t.Parallel()
	slow := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/services/Pay":
			_, _ = w.Write([]byte(`{"name":"Pay","ty":"Workflow","public":true,"workflow_completion_retention":"7d"}`))
		case "/services/Slow":
			_, _ = w.Write([]byte(`{"name":`))
			w.(http.Flusher).Flush()
			<-slow
		default:
			http.Redirect(w, r, "/services/Pay", http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(slow) })
	client := clientOf(t, server.URL, adminapi.Config{Timeout: 200 * time.Millisecond})
	for range 3 {
		service, err := client.Service(t.Context(), "Pay")
		require.NoError(t, err)
		assert.Equal(t, "7d", service.Retention)
	}
	var status *adminapi.StatusError
	_, err := client.Service(t.Context(), "Moved")
	require.ErrorAs(t, err, &status)
	assert.Equal(t, http.StatusFound, status.Status)
	_, err = client.Service(t.Context(), "Slow")
	require.ErrorContains(t, err, "no answer within 200ms")
}

func TestDurationsAreReadAsRestateWritesThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0s": 0, "1d": 24 * time.Hour, "1h 30m 1s 500ms": 90*time.Minute + 1500*time.Millisecond,
		"1h 30m 5s 7ms 3µs 9ns": 90*time.Minute + 5*time.Second + 7_003_009, "400d": 9600 * time.Hour, "2w": 336 * time.Hour,
		"106752d": 1<<63 - 1, "9223372036854775807d": 1<<63 - 1, "99999999999999999999s 1d": 1<<63 - 1, " 1d  1s ": 24*time.Hour + time.Second,
	} {
		got, err := adminapi.ParseDuration(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", " ", "1", "d", "-1d", "1.5d", "1D", "P1D", "1 day", "1mo", "1dd", "1d,1h"} {
		_, err := adminapi.ParseDuration(text)
		require.Error(t, err, text)
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1d 12h", "1h 30m 5s 7ms 3µs 9ns", "9223372036854775807d", "P1D", "µ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := adminapi.ParseDuration(text); err == nil && got < 0 {
			t.Errorf("%q is %s", text, got)
		}
	})
}

func TestInputDescriptionsThatAcceptJSON(t *testing.T) {
	t.Parallel()
	for description, want := range map[string]bool{
		"none": false, "JSON object": true, "JSON 'Payout'": true, "application/json": true, "application/*": true, "*/*": true,
		"application/octet-stream": false, "text/*": false, `one of ["none", "text/plain"]`: false,
		`one of ["none", "application/octet-stream", "JSON object"]`: true, "JSON value of content-type 'application/json'": true,
		"": true, "<invalid rules>": true, "something new": true,
	} {
		assert.Equal(t, want, adminapi.AcceptsJSON(description), description)
	}
}
