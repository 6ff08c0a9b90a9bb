package restatestart_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

// probe asks for the health of the consumers: the code and the verdict.
func probe(t *testing.T, path string, consumers ...interface{ Status() restatestart.Status }) (code int, verdict string) {
	t.Helper()
	answer := httptest.NewRecorder()
	restatestart.Health(consumers...).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	var body struct {
		Status    string
		Consumers []restatestart.Status
	}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &body))
	require.Len(t, body.Consumers, len(consumers))
	for i, consumer := range consumers {
		assert.Equal(t, consumer.Status().State, body.Consumers[i].State)
	}
	assert.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	return answer.Code, body.Status
}

// health is both probes in a line.
func healthOf(t *testing.T, consumers ...interface{ Status() restatestart.Status }) string {
	t.Helper()
	code, alive := probe(t, "/livez", consumers...)
	assert.Equal(t, alive == "alive", code == http.StatusOK)
	code, ready := probe(t, "/readyz", consumers...)
	assert.Equal(t, ready == "ready", code == http.StatusOK)
	return alive + ", " + ready
}

func TestC11HealthFollowsAConsumerThroughItsLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.setMeta("", "", errBoom)
		w.source.Fail(1, errBoom)
		fail := true
		handler := &recorder{fail: func([]restatestart.Message[claim]) error {
			if fail {
				return &restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "1-0"}}}
			}
			return nil
		}}
		w.run(handler)
		assert.Equal(t, "alive, starting", healthOf(t, w.consumer), "Redis does not answer yet")
		w.setMeta("2", "1", nil)
		pass(5 * time.Second)
		assert.Equal(t, "alive, starting", healthOf(t, w.consumer), "one partition cannot be read yet")
		w.source.Fail(1, nil)
		pass(30 * time.Second)
		assert.Equal(t, "alive, ready", healthOf(t, w.consumer))
		w.publish(0, "a")
		pass(time.Minute)
		require.Equal(t, restatestart.StateBlocked, w.partition(0).State)
		assert.Equal(t, "alive, ready", healthOf(t, w.consumer), "blocked is not dead")
		w.source.Fail(1, errBoom)
		pass(time.Minute)
		assert.Equal(t, "alive, ready", healthOf(t, w.consumer), "nor is an outage of Redis")
		require.NoError(t, w.stop())
		assert.Equal(t, "alive, stopped", healthOf(t, w.consumer), "a service that shuts down is left alone")
	})
}

func TestC11OnlyARunThatEndedWithAnErrorIsDead(t *testing.T) {
	t.Parallel()
	for policy, want := range map[restatestart.ErrorPolicy]string{restatestart.ErrorStop: "alive, ready", restatestart.ErrorFail: "dead, stopped"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, 1)
			w.options.OnError = policy
			w.publish(0, "a")
			w.run(&recorder{fail: func([]restatestart.Message[claim]) error { return errBoom }})
			pass(time.Second)
			assert.Equal(t, want, healthOf(t, w.consumer))
			w.cancel()
			pass(time.Second)
		})
	}
}

type statusOf restatestart.Status

func (s statusOf) Status() restatestart.Status { return restatestart.Status(s) }

func TestC11HealthIsThatOfTheWorstConsumer(t *testing.T) {
	t.Parallel()
	running := statusOf{State: restatestart.StateRunning, Partitions: []restatestart.PartitionStatus{{Started: true, State: restatestart.StateIdle}}}
	starting := statusOf{State: restatestart.StateStarting, Error: "connection refused"}
	dead := statusOf{State: restatestart.StateStopped, Error: "boom"}
	none := statusOf{State: restatestart.StateRunning}
	assert.Equal(t, "alive, ready", healthOf(t))
	assert.Equal(t, "alive, ready", healthOf(t, running, none))
	assert.Equal(t, "alive, starting", healthOf(t, running, starting))
	assert.Equal(t, "dead, stopped", healthOf(t, running, dead, starting))
}

func TestC11HealthServesItsTwoPathsAndNothingElse(t *testing.T) {
	t.Parallel()
	handler := http.StripPrefix("/internal", restatestart.Health(statusOf{State: restatestart.StateRunning}))
	for request, want := range map[string]int{
		"GET /internal/livez": 200, "HEAD /internal/readyz": 200, "GET /internal/": 404, "GET /internal/livez/x": 404, "POST /internal/livez": 405,
	} {
		method, path, _ := strings.Cut(request, " ")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		assert.Equal(t, want, answer.Code, request)
	}
}
