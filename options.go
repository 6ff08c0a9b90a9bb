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

	"github.com/redisevents/restatestart/internal/ingress"
)

// Defaults of Options. Those that RedisEvents.Restate has too are the same there.
const (
	DefaultHandler        = "run"
	DefaultMaxParallelism = 8
	DefaultMaxAttempts    = 5
	DefaultAttemptTimeout = 10 * time.Second
	DefaultRetryMin       = 200 * time.Millisecond
	DefaultRetryMax       = 5 * time.Second
	DefaultJitter         = 0.2
)

// PathStyle is the shape of the path that starts are posted to. Both start the same workflow.
type PathStyle int

const (
	// PathSend is /{workflow}/{key}/{handler}/send, which every Restate knows; 1.7 calls it deprecated.
	PathSend PathStyle = iota
	// PathRestateSend is /restate/send/{workflow}/{key}/{handler}, known since Restate 1.7.0.
	PathRestateSend
)

// Options say how a Starter posts. Only Ingress is required; the zero value of every other field is its default,
// and a negative or contradictory one is an error of New.
type Options struct {
	// Ingress is the base URL of the Restate ingress, such as http://restate:8080. A path prefix is kept; a query or
	// a fragment is an error. Userinfo is sent as basic authentication. Required.
	Ingress string

	// Handler is the workflow's handler to start when a Start names none. Restate compares names to the letter, and
	// services that its Go SDK registers by reflection have "Run". Defaults to "run".
	Handler string

	// MaxParallelism is how many starts of one Handle call are under way at most, the waits between their attempts
	// included. Defaults to 8. Calls do not share it: n partitions may have n times as many under way.
	MaxParallelism int

	// MaxAttempts is how many POSTs one start gets within one Handle call. Defaults to 5.
	MaxAttempts int

	// AttemptTimeout bounds one POST, from dial to the end of the answer. It does not bound the retries, and a
	// shorter Timeout of HTTPClient still holds. Defaults to 10 s.
	AttemptTimeout time.Duration

	// RetryMin is the wait before a start's second attempt. It doubles with each further one, up to RetryMax. An
	// answer's Retry-After raises a wait. Defaults to 200 ms.
	RetryMin time.Duration

	// RetryMax is the longest wait between two attempts. A Retry-After beyond it ends the start's attempts for this
	// call. Defaults to 5 s.
	RetryMax time.Duration

	// Jitter spreads each wait evenly over wait × (1 ± Jitter), within RetryMin and RetryMax, so that many starts
	// that failed together do not return together. At most 1. Defaults to 0.2.
	Jitter float64

	// NoJitter makes every wait exact. It contradicts a Jitter.
	NoJitter bool

	// PathStyle is the shape of the path. Defaults to PathSend.
	PathStyle PathStyle

	// Header goes with every start, an Authorization for one. Restate hands all of it to the workflow and stores it
	// there, so that secrets are best consumed by a proxy on the way. A Content-Type here takes the place of
	// application/json where there is a body. An Idempotency-Key is refused: the workflow key does that work, and
	// Restate answers 400 to one.
	Header http.Header

	// HTTPClient is used as it is, except that redirects are never followed. Its transport should keep at least
	// MaxParallelism idle connections a host for each partition (net/http's default keeps 2). A transport that is not
	// net/http's should repeat a request whose kept-alive connection turned out to be dead, or such a start costs an
	// attempt. Defaults to a client that keeps as many connections as there are starts under way, speaks HTTP/2 over TLS,
	// and uses the proxy that the environment names.
	HTTPClient *http.Client

	// Encode makes the body of an input that is neither nil, []byte nor json.RawMessage. It is called concurrently.
	// Defaults to json.Marshal, with its escapes of <, > and &.
	Encode func(input any) ([]byte, error)

	// TracerProvider and MeterProvider are where spans and metrics go, under ScopeName; the package comment lists them.
	// They default to OpenTelemetry's global ones.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Propagator writes the trace context of a start into its headers. Where there is no span of the start, the producer's
	// traceparent goes out as it came, without it. Defaults to W3C Trace Context, the only one that Restate reads.
	Propagator propagation.TextMapPropagator

	// Logger gets a line at level Debug for every attempt that failed. Defaults to none: what matters is in the
	// error that Handle returns.
	Logger *slog.Logger
}

// withDefaults fills in the zero fields and refuses what is contradictory.
func (o Options) withDefaults() (Options, error) {
	err := errors.Join(
		orDefault("MaxParallelism", &o.MaxParallelism, DefaultMaxParallelism),
		orDefault("MaxAttempts", &o.MaxAttempts, DefaultMaxAttempts),
		timeOrDefault("AttemptTimeout", &o.AttemptTimeout, DefaultAttemptTimeout),
		timeOrDefault("RetryMin", &o.RetryMin, DefaultRetryMin),
		timeOrDefault("RetryMax", &o.RetryMax, DefaultRetryMax),
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
	o.Logger = guard(o.Logger)
	return o, nil
}

// timeOrDefault is orDefault for a time. One below a millisecond is a number whose unit was forgotten.
func timeOrDefault(field string, value *time.Duration, fallback time.Duration) error {
	if *value > 0 && *value < time.Millisecond {
		return fmt.Errorf("%s: %s is below a millisecond; is the unit missing?", field, *value)
	}
	return orDefault(field, value, fallback)
}

// orDefault puts a default in the place of zero and refuses what is below it.
func orDefault[N int | time.Duration](field string, value *N, fallback N) error {
	if *value < 0 {
		return fmt.Errorf("%s: %v is negative", field, *value)
	}
	if *value == 0 {
		*value = fallback
	}
	return nil
}
