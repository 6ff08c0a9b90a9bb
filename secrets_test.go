package restatestart_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

// S14: whatever goes wrong, and wherever it is told, nobody reads a credential or a body there.
func TestS14NeitherCredentialsNorBodiesLeaveTheirPlace(t *testing.T) {
	t.Parallel()
	secrets := []string{"t0psecret", "dXNlcjp0MHBzZWNyZXQ", "iban-DE00"} // the second is user:t0psecret in base64
	fake := restatetest.New(t)
	echo := restatetest.Answer(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, "you sent %v and %s", r.Header, body.String())
	})
	fake.Script("echo", echo.Always())
	fake.Script("drop", restatetest.Drop().Always())
	fake.Script("hang", restatetest.Status(503).Always())

	var log bytes.Buffer
	spans := tracetest.NewSpanRecorder()
	for _, options := range []restatestart.Options{
		{Ingress: strings.Replace(fake.URL(), "//", "//user:t0psecret@", 1)},
		{Ingress: fake.URL(), Header: http.Header{"Authorization": {"Bearer t0psecret"}}},
		{Ingress: strings.Replace(fake.URL(), "//", "//t0psecret@", 1)},
	} {
		options.HTTPClient, options.MaxAttempts = fake.Client(), 1
		options.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		options.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
		telemetry := record()
		options.MeterProvider = telemetry.meters
		starter, err := restatestart.New(nil, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
			return restatestart.Start{Workflow: "Payout", Key: message.Value.Key, Input: map[string]string{"account": "iban-DE00"}}, nil
		}, options)
		require.NoError(t, err)
		err = starter.Handle(t.Context(), batchOf("echo", "drop", "hang"))
		blocked := blockedBy(t, err)
		require.Len(t, blocked.Failed, 3)
		encoded, failure := json.Marshal(blocked.Failed)
		require.NoError(t, failure)
		fmt.Fprintf(&log, "%s %+v %s", err.Error(), blocked.Failed, encoded)
		for _, cause := range blocked.Unwrap() {
			fmt.Fprintf(&log, " %v %+v", cause, cause)
		}
		fmt.Fprint(&log, telemetry.metrics(t))
	}
	for _, span := range spans.Ended() {
		fmt.Fprintf(&log, "%s %v %v %v", span.Name(), span.Attributes(), span.Events(), span.Status())
	}
	assert.Contains(t, log.String(), "you sent")
	assert.Contains(t, log.String(), "start attempt failed")
	for _, secret := range secrets {
		assert.NotContains(t, log.String(), secret)
	}
	for _, request := range fake.Requests() {
		assert.NotEmpty(t, request.Header.Get("Authorization"), "it does reach the ingress")
	}
}
