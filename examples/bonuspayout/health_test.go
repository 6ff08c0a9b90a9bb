package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

// ask answers a GET from a Status.
func ask(t *testing.T, path string, status restatestart.Status) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	healthHandler(func() restatestart.Status { return status }).ServeHTTP(answer, request)
	return answer
}

func TestOnlyAConsumerThatDoesNotRunIsDead(t *testing.T) {
	t.Parallel()
	blocked := []restatestart.PartitionStatus{{State: restatestart.StateBlocked, Blocked: &restatestart.Blocked{Cause: "starts"}}}
	for name, test := range map[string]struct {
		status restatestart.Status
		want   int
	}{
		"starting": {restatestart.Status{State: restatestart.StateStarting, Error: "connection refused"}, http.StatusOK},
		"running":  {restatestart.Status{State: restatestart.StateRunning}, http.StatusOK},
		"blocked":  {restatestart.Status{State: restatestart.StateRunning, Partitions: blocked}, http.StatusOK},
		"stopped":  {restatestart.Status{State: restatestart.StateStopped}, http.StatusServiceUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, ask(t, "/livez", test.status).Code)
		})
	}
}

func TestStatusIsJSON(t *testing.T) {
	t.Parallel()
	status := restatestart.Status{
		Topic: topic, Consumer: "bonus-payout", State: restatestart.StateRunning,
		Partitions: []restatestart.PartitionStatus{{Partition: 3, State: restatestart.StateIdle, Position: "1-0"}},
	}
	answer := ask(t, "/status", status)
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	var got restatestart.Status
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &got))
	assert.Equal(t, status, got)
}

func TestOtherPathsAreNotFound(t *testing.T) {
	t.Parallel()
	assert.Equal(t, http.StatusNotFound, ask(t, "/", restatestart.Status{}).Code)
}
