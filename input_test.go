package restatestart_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/restatetest"
)

// B44, B48: what Map passes through arrives byte for byte, and nothing arrives as nothing.
func TestS3TheBodyIsTheEncodedInput(t *testing.T) {
	t.Parallel()
	raw := `{"id":9007199254740993,"s":"a<b&c","n":1.10}`
	for name, row := range map[string]struct {
		input       any
		body        string
		contentType string
	}{
		"a value":          {claim{Key: "a<b"}, `{"key":"a\u003cb"}`, "application/json"},
		"bytes":            {[]byte(raw), raw, "application/json"},
		"raw JSON":         {json.RawMessage(raw), raw, "application/json"},
		"a large number":   {map[string]any{"id": int64(9007199254740993)}, `{"id":9007199254740993}`, "application/json"},
		"nil":              {nil, "", ""},
		"empty bytes":      {[]byte{}, "", ""},
		"empty raw JSON":   {json.RawMessage(nil), "", ""},
		"a typed nil":      {(*claim)(nil), "null", "application/json"},
		"an empty string":  {"", `""`, "application/json"},
		"bytes not a JSON": {[]byte("\xff\x00"), "\xff\x00", "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fake := restatetest.New(t)
			fake.ScriptAll(restatetest.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
			starter := starterOn(t, fake, func(*restatestart.Message[claim]) (restatestart.Start, error) {
				return restatestart.Start{Workflow: "Payout", Key: "k", Input: row.input}, nil
			}, restatestart.Options{})
			require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
			request := fake.Requests()[0]
			assert.Equal(t, row.body, string(request.Body))
			assert.Equal(t, row.contentType, request.Header.Get("Content-Type"))
			assert.Equal(t, row.contentType != "", len(request.Header["Content-Type"]) == 1)
		})
	}
}

func TestS3EncodeAndContentTypeCanBeChosen(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t, restatetest.WithInput("Payout", "run", restatetest.InputBytes))
	starter := starterOn(t, fake, nil, restatestart.Options{
		Encode: func(input any) ([]byte, error) { return fmt.Appendf(nil, "%v", input), nil },
		Header: http.Header{"content-type": {"application/octet-stream"}},
	})
	require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
	assert.Equal(t, "{k}", string(fake.Starts()[0].Body))
}

func TestS3AHandlerWithoutInputGetsNeitherBodyNorType(t *testing.T) {
	t.Parallel()
	fake := restatetest.New(t, restatetest.WithInput("Payout", "run", restatetest.InputNone))
	starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		return restatestart.Start{Workflow: "Payout", Key: message.Value.Key}, nil
	}, restatestart.Options{})
	require.NoError(t, starter.Handle(t.Context(), batchOf("k")))
	fake.ExpectStarted(t, "Payout", "k")
}

func TestS4AnIdempotencyKeyIsNeverSent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Idempotency-Key", "idempotency-key", "X-Idempotency-Key"} {
		_, err := restatestart.New(nil, payout, restatestart.Options{Ingress: "http://restate", Header: http.Header{name: {"x"}}})
		require.ErrorContains(t, err, "Options.Header")
		require.ErrorContains(t, err, "Idempotency-Key")
	}
	fake := restatetest.New(t)
	starter := starterOn(t, fake, func(message *restatestart.Message[claim]) (restatestart.Start, error) {
		start, err := payout(message)
		if start.Key == "k2" {
			start.Header = http.Header{"Idempotency-Key": {""}}
		}
		return start, err
	}, restatestart.Options{})
	failed := onlyFailure(t, starter.Handle(t.Context(), batchOf("k1", "k2")))
	assert.Equal(t, restatestart.ReasonInvalid, failed.Reason)
	requests := fake.Requests()
	require.Len(t, requests, 1)
	for name := range requests[0].Header {
		assert.NotContains(t, strings.ToLower(name), "idempotency")
	}
}
