package restatestart

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/redisevents/restatestart/internal/defaults"
	"github.com/redisevents/restatestart/internal/ingress"
)

// Defaults of Options. RedisEvents.Restate has the same ones.
const (
	DefaultHandler        = "run"
	DefaultMaxParallelism = 8
	DefaultMaxAttempts    = 5
	DefaultAttemptTimeout = 10 * time.Second
	DefaultRetryMin       = 200 * time.Millisecond
	DefaultRetryMax       = 5 * time.Second
	DefaultJitter         = 0.2
)

// PathStyle is the form of the path that starts are posted to. Both start the same workflow.
type PathStyle int

const (
	// PathSend is /{workflow}/{key}/{handler}/send, which every version of Restate serves; 1.7 calls it deprecated.
	PathSend PathStyle = iota
	// PathRestateSend is /restate/send/{workflow}/{key}/{handler}, served since Restate 1.7.0.
	PathRestateSend
)

// Options configure a Starter. Only Ingress is required; the zero value of every other field is its default, and a
// negative or contradictory one is an error from New.
type Options struct {
	// Ingress is the base URL of the Restate ingress, such as http://restate:8080. A path prefix is kept; a query or
	// a fragment is an error. Userinfo is sent as basic authentication. Required.
	Ingress string

	// Handler is the workflow's handler to start when a Start names none. Names are case-sensitive, and services that
	// Restate's Go SDK registers by reflection have "Run". Defaults to "run".
	Handler string

	// MaxParallelism is the most starts of one Handle call in flight at once, including those that wait for their next
	// attempt. Calls do not share it: n partitions may have n times as many in flight. Defaults to 8.
	MaxParallelism int

	// MaxAttempts is the most POSTs of one start within one Handle call. Defaults to 5.
	MaxAttempts int

	// AttemptTimeout bounds one POST, from dial to the end of the answer. It does not bound the retries. A shorter Timeout
	// of HTTPClient applies as well. Defaults to 10 s.
	AttemptTimeout time.Duration

	// RetryMin is the wait before a start's second attempt. It doubles with each further one, up to RetryMax. An
	// answer's Retry-After raises a wait. Defaults to 200 ms.
	RetryMin time.Duration

	// RetryMax is the longest wait between two attempts. A Retry-After beyond it ends the start's attempts for this
	// call. Defaults to 5 s.
	RetryMax time.Duration

	// Jitter spreads each wait evenly over wait × (1 ± Jitter), within RetryMin and RetryMax, so that starts that failed
	// together are not retried together. At most 1. Defaults to 0.2.
	Jitter float64

	// NoJitter makes every wait exact. It contradicts a Jitter.
	NoJitter bool

	// PathStyle is the form of the path. Defaults to PathSend.
	PathStyle PathStyle

	// Header is sent with every start, such as an Authorization. Restate passes all of it to the workflow and stores it, so
	// a proxy in front of Restate should consume secrets. A Content-Type here replaces application/json where there is a
	// body. An Idempotency-Key is refused: the workflow key makes a start idempotent, and Restate answers 400 to one.
	Header http.Header

	// HTTPClient is used as it is, except that redirects are never followed. Its transport should keep at least
	// MaxParallelism idle connections per host for each partition (net/http's default keeps 2). A transport other than
	// net/http's should repeat a request whose kept-alive connection turned out to be dead, or such a start costs an attempt.
	// Defaults to a client that keeps as many connections as there are starts in flight, uses HTTP/2 over TLS, and takes its
	// proxy from the environment.
	HTTPClient *http.Client

	// Encode encodes an input that is neither nil, []byte nor json.RawMessage. It is called concurrently. Defaults to
	// json.Marshal, which escapes <, > and &.
	Encode func(input any) ([]byte, error)

	// TracerProvider and MeterProvider receive spans and metrics, under ScopeName; docs/metrics.md lists them. They default to
	// OpenTelemetry's global ones.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Propagator writes the trace context of a start into its headers. A start without a span sends the producer's
	// traceparent as it came instead. Defaults to W3C Trace Context, the only format that Restate reads.
	Propagator propagation.TextMapPropagator

	// Logger receives a line at level Debug for each failed attempt, and one at level Error when a provider of telemetry
	// panics. Defaults to none: what matters is in the error that Handle returns.
	Logger *slog.Logger
}

// withDefaults fills in the zero fields, and refuses negative and contradictory ones.
func (o Options) withDefaults() (Options, error) {
	err := errors.Join(
		defaults.Set("MaxParallelism", &o.MaxParallelism, DefaultMaxParallelism),
		defaults.Set("MaxAttempts", &o.MaxAttempts, DefaultMaxAttempts),
		defaults.SetDuration("AttemptTimeout", &o.AttemptTimeout, DefaultAttemptTimeout),
		defaults.SetDuration("RetryMin", &o.RetryMin, DefaultRetryMin),
		defaults.SetDuration("RetryMax", &o.RetryMax, DefaultRetryMax),
	)
	if o.Handler == "" {
		o.Handler = DefaultHandler
	}
	switch {
	case err != nil:
		return o, err
	case o.RetryMin > o.RetryMax:
		return o, fmt.Errorf("RetryMin: %s is above RetryMax, %s", o.RetryMin, o.RetryMax)
	case !(o.Jitter >= 0 && o.Jitter <= 1):
		return o, fmt.Errorf("Jitter: %v is not between 0 and 1", o.Jitter)
	case o.NoJitter && o.Jitter != 0:
		return o, fmt.Errorf("NoJitter: contradicts Jitter, %v", o.Jitter)
	case !utf8.ValidString(o.Handler):
		return o, errors.New("Handler: not valid UTF-8")
	case o.PathStyle != PathSend && o.PathStyle != PathRestateSend:
		return o, fmt.Errorf("PathStyle: there is no style %d", o.PathStyle)
	}
	if err := ingress.CheckHeader(o.Header); err != nil {
		return o, fmt.Errorf("Header: %w", err)
	}
	if o.Jitter == 0 && !o.NoJitter {
		o.Jitter = DefaultJitter
	}
	if o.Encode == nil {
		o.Encode = json.Marshal
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.Propagator == nil {
		o.Propagator = propagation.TraceContext{}
	}
	return o, nil
}
