package restatestart_test

import (
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

func TestNewNamesTheFieldThatIsWrong(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*restatestart.Options){
		"MaxParallelism: -1 is negative":                   func(o *restatestart.Options) { o.MaxParallelism = -1 },
		"MaxAttempts: -1 is negative":                      func(o *restatestart.Options) { o.MaxAttempts = -1 },
		"AttemptTimeout: -1s is negative":                  func(o *restatestart.Options) { o.AttemptTimeout = -time.Second },
		"AttemptTimeout: 10ns is below a millisecond":      func(o *restatestart.Options) { o.AttemptTimeout = 10 },
		"RetryMin: -1s is negative":                        func(o *restatestart.Options) { o.RetryMin = -time.Second },
		"RetryMax: -1s is negative":                        func(o *restatestart.Options) { o.RetryMax = -time.Second },
		"RetryMin: 6s is above RetryMax, 5s":               func(o *restatestart.Options) { o.RetryMin = 6 * time.Second },
		"RetryMin: 200ms is above RetryMax, 100ms":         func(o *restatestart.Options) { o.RetryMax = 100 * time.Millisecond },
		"Jitter: -0.1 is not between 0 and 1":              func(o *restatestart.Options) { o.Jitter = -0.1 },
		"Jitter: 1.1 is not between 0 and 1":               func(o *restatestart.Options) { o.Jitter = 1.1 },
		"Jitter: NaN is not between 0 and 1":               func(o *restatestart.Options) { o.Jitter = math.NaN() },
		"NoJitter: contradicts Jitter":                     func(o *restatestart.Options) { o.Jitter, o.NoJitter = 0.1, true },
		"Handler: not valid UTF-8":                         func(o *restatestart.Options) { o.Handler = "\xff" },
		"PathStyle: there is no style 7":                   func(o *restatestart.Options) { o.PathStyle = 7 },
		"Header: header Host is set by the HTTP transport": func(o *restatestart.Options) { o.Header = http.Header{"Host": {"x"}} },
		"Header: header X-A has a value with a character":  func(o *restatestart.Options) { o.Header = http.Header{"X-A": {"a\nb"}} },
		`Header: header name "a b" is not valid`:           func(o *restatestart.Options) { o.Header = http.Header{"a b": {"x"}} },
		"Ingress: no URL is given":                         func(o *restatestart.Options) { o.Ingress = "" },
		"Ingress: not an http or https URL":                func(o *restatestart.Options) { o.Ingress = "localhost:8080" },
		"Ingress: there is no host in the URL":             func(o *restatestart.Options) { o.Ingress = "http://" },
		"Ingress: port 99999 of the URL":                   func(o *restatestart.Options) { o.Ingress = "http://h:99999" },
		"Ingress: the URL of host h has a query":           func(o *restatestart.Options) { o.Ingress = "http://h?x=1" },
		"Ingress: the URL of host h has a fragment":        func(o *restatestart.Options) { o.Ingress = "http://h#x" },
		"Ingress: both the URL's userinfo and": func(o *restatestart.Options) {
			o.Ingress = "http://u:p@h"
			o.Header = http.Header{"authorization": {"x"}}
		},
	} {
		options := restatestart.Options{Ingress: "http://restate:8080"}
		change(&options)
		starter, err := restatestart.New(nil, payout, options)
		require.ErrorContains(t, err, "restatestart: Options."+field)
		assert.Nil(t, starter)
	}
	_, err := restatestart.New[claim](nil, nil, restatestart.Options{Ingress: "http://restate:8080"})
	require.ErrorContains(t, err, "Map is nil")
}

// Nothing is dialled before there is something to send: a name that does not exist is fine so far.
func TestNewDoesNoIO(t *testing.T) {
	t.Parallel()
	_, err := restatestart.New(nil, payout, restatestart.Options{
		Ingress: "https://nowhere.invalid:8443/prefix/",
		HTTPClient: &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			t.Error("a request was made")
			return nil, net.ErrClosed
		})},
	})
	require.NoError(t, err)
}

func TestABlockedErrorIsOneLineThatNamesFive(t *testing.T) {
	t.Parallel()
	blocked := &restatestart.BlockedError{Accepted: 93}
	for _, key := range keysOf(7) {
		blocked.Failed = append(blocked.Failed, restatestart.FailedStart{
			EntryID: "17-" + key[1:], Workflow: "Payout", Key: key, Reason: restatestart.ReasonServer, Status: 503, Attempts: 5,
			Err: &restatestart.StatusError{Status: 503, Text: "no leader"},
		})
	}
	text := blocked.Error()
	assert.True(t, strings.HasPrefix(text, "7 of 100 starts not accepted; start Payout/k1 (entry 17-1): server after 5 attempts: 503: no leader; "), text)
	assert.Contains(t, text, "Payout/k5")
	assert.NotContains(t, text, "Payout/k6")
	assert.True(t, strings.HasSuffix(text, "; and 2 more"), text)
	assert.Len(t, blocked.Unwrap(), 7)

	odd := &restatestart.BlockedError{ShuttingDown: true, Failed: []restatestart.FailedStart{{
		EntryID: "1-0", Workflow: "W", Key: "a\nb" + strings.Repeat("k", 70000), Reason: restatestart.ReasonMap,
		Err: &restatestart.PanicError{Value: "line one\nline two " + strings.Repeat("x", 5000)},
	}}}
	text = odd.Error()
	assert.True(t, strings.HasPrefix(text, `shutting down: 1 of 1 starts not accepted; start W/"a\nbkkk`), text)
	assert.NotContains(t, text, "\n")
	assert.Less(t, len(text), 1000)
	assert.Equal(t, "1 of 1 starts not accepted; start (entry 1-0): unknown", (&restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "1-0"}}}).Error())
}

func TestReasonsHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for reason := restatestart.ReasonUnknown; reason <= restatestart.ReasonShutdown; reason++ {
		text, err := reason.MarshalText()
		require.NoError(t, err)
		assert.Equal(t, reason.String(), string(text))
		assert.NotEmpty(t, text)
		assert.NotContains(t, string(text), "Reason(")
		seen[string(text)] = true
		var back restatestart.Reason
		require.NoError(t, back.UnmarshalText(text))
		assert.Equal(t, reason, back)
	}
	assert.Len(t, seen, int(restatestart.ReasonShutdown)+1)
	assert.Equal(t, "unknown", restatestart.Reason(0).String())
	require.ErrorContains(t, new(restatestart.Reason).UnmarshalText([]byte("bad luck")), `"bad luck"`)
	assert.Equal(t, "Reason(99)", restatestart.Reason(99).String())
	assert.Equal(t, "Reason(-1)", restatestart.Reason(-1).String())
}
