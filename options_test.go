package restatestart_test

import (
	"math"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/propagation"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
)

func TestNewNamesTheWrongField(t *testing.T) {
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
		starter, err := restatestart.New(nil, testkit.Payout, options)
		require.ErrorContains(t, err, "restatestart: Options."+field)
		assert.Nil(t, starter)
	}
	_, err := restatestart.New[testkit.Claim](nil, nil, restatestart.Options{Ingress: "http://restate:8080"})
	require.ErrorContains(t, err, "Map is nil")
}

func TestNewDoesNoIO(t *testing.T) {
	t.Parallel()
	_, err := restatestart.New(nil, testkit.Payout, restatestart.Options{
		Ingress: "https://nowhere.invalid:8443/prefix/",
		HTTPClient: &http.Client{Transport: testkit.RoundTripper(func(*http.Request) (*http.Response, error) {
			t.Error("a request was made")
			return nil, net.ErrClosed
		})},
	})
	require.NoError(t, err)
}

func TestOptionsReturnsTheDefaultsOfWhatIsNotSet(t *testing.T) {
	t.Parallel()
	starter, err := restatestart.New(nil, testkit.Payout, restatestart.Options{Ingress: "http://restate:8080", MaxAttempts: 7})
	require.NoError(t, err)
	options := starter.Options()
	assert.NotNil(t, options.Encode)
	assert.NotNil(t, options.TracerProvider)
	assert.NotNil(t, options.MeterProvider)
	options.Encode, options.TracerProvider, options.MeterProvider = nil, nil, nil
	assert.Equal(t, restatestart.Options{
		Ingress: "http://restate:8080", MaxAttempts: 7, Handler: restatestart.DefaultHandler, MaxParallelism: restatestart.DefaultMaxParallelism,
		AttemptTimeout: restatestart.DefaultAttemptTimeout, RetryMin: restatestart.DefaultRetryMin, RetryMax: restatestart.DefaultRetryMax,
		Jitter: restatestart.DefaultJitter, Propagator: propagation.TraceContext{},
	}, options)
}
