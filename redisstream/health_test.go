package redisstream_test

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
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/redisstream"
)

func TestC11HealthFollowsAConsumerThroughItsLife(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, 2)
		e.setMeta("", "", testkit.ErrBoom)
		e.source.Fail(1, testkit.ErrBoom)
		fail := true
		handler := &recorder{fail: func([]claimMessage) error {
			if fail {
				return &restatestart.BlockedError{Failed: []restatestart.FailedStart{{EntryID: "1-0"}}}
			}
			return nil
		}}
		e.run(handler)
		assert.Equal(t, "alive, starting", healthOf(t, e.consumer), "Redis does not answer yet")
		e.setMeta("2", "1", nil)
		testkit.Pass(5 * time.Second)
		assert.Equal(t, "alive, starting", healthOf(t, e.consumer), "one partition cannot be read yet")
		e.source.Fail(1, nil)
		testkit.Pass(30 * time.Second)
		assert.Equal(t, "alive, ready", healthOf(t, e.consumer))
		e.publish(0, "a")
		testkit.Pass(time.Minute)
		require.Equal(t, redisstream.StateBlocked, e.partition(0).State)
		assert.Equal(t, "alive, ready", healthOf(t, e.consumer), "blocked is not dead")
		e.source.Fail(1, testkit.ErrBoom)
		testkit.Pass(time.Minute)
		assert.Equal(t, "alive, ready", healthOf(t, e.consumer), "nor is an outage of Redis")
		require.NoError(t, e.stop())
		assert.Equal(t, "alive, stopped", healthOf(t, e.consumer), "a service that shuts down is left alone")
	})
}

func TestC11OnlyARunThatEndedWithAnErrorIsDead(t *testing.T) {
	t.Parallel()
	for policy, want := range map[redisstream.ErrorPolicy]string{redisstream.ErrorStop: "alive, ready", redisstream.ErrorFail: "dead, stopped"} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnv(t, 1)
			e.options.OnError = policy
			e.publish(0, "a")
			e.run(&recorder{fail: boom})
			testkit.Pass(time.Second)
			assert.Equal(t, want, healthOf(t, e.consumer))
			if policy == redisstream.ErrorFail {
				require.ErrorIs(t, e.ended(), testkit.ErrBoom)
			}
		})
	}
}

func TestC11HealthReportsTheWorstConsumer(t *testing.T) {
	t.Parallel()
	running := statusOf{State: redisstream.StateRunning, Partitions: []redisstream.PartitionStatus{{Started: true, State: redisstream.StateIdle}}}
	starting := statusOf{State: redisstream.StateStarting, Error: "connection refused"}
	dead := statusOf{State: redisstream.StateStopped, Error: "boom"}
	none := statusOf{State: redisstream.StateRunning}
	assert.Equal(t, "alive, ready", healthOf(t))
	assert.Equal(t, "alive, ready", healthOf(t, running, none))
	assert.Equal(t, "alive, starting", healthOf(t, running, starting))
	assert.Equal(t, "dead, stopped", healthOf(t, running, dead, starting))
}

func TestC11HealthServesItsTwoPathsAndNothingElse(t *testing.T) {
	t.Parallel()
	handler := http.StripPrefix("/internal", redisstream.Health(statusOf{State: redisstream.StateRunning}))
	for request, want := range map[string]int{
		"GET /internal/livez": 200, "HEAD /internal/readyz": 200, "GET /internal/": 404, "GET /internal/livez/x": 404, "POST /internal/livez": 405,
	} {
		method, path, _ := strings.Cut(request, " ")
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		assert.Equal(t, want, answer.Code, request)
	}
}

func TestC11AStatusThatCannotBeEncodedFailsNoProbe(t *testing.T) {
	t.Parallel()
	oldest := time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)
	notEncodable := statusOf{State: redisstream.StateRunning, Partitions: []redisstream.PartitionStatus{{Started: true, Oldest: &oldest}}}
	answer := httptest.NewRecorder()
	redisstream.Health(notEncodable).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/livez", nil))
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Contains(t, answer.Body.String(), `"alive"`)
}

type statusOf redisstream.Status

func (s statusOf) Status() redisstream.Status { return redisstream.Status(s) }

// probe returns the code and the verdict of one probe.
func probe(t *testing.T, path string, consumers ...interface{ Status() redisstream.Status }) (code int, verdict string) {
	t.Helper()
	answer := httptest.NewRecorder()
	redisstream.Health(consumers...).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	var body struct {
		Status    string
		Consumers []redisstream.Status
	}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &body))
	require.Len(t, body.Consumers, len(consumers))
	for i, consumer := range consumers {
		assert.Equal(t, consumer.Status().State, body.Consumers[i].State)
	}
	assert.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	return answer.Code, body.Status
}

// healthOf returns both verdicts in a line.
func healthOf(t *testing.T, consumers ...interface{ Status() redisstream.Status }) string {
	t.Helper()
	code, alive := probe(t, "/livez", consumers...)
	assert.Equal(t, alive == "alive", code == http.StatusOK)
	code, ready := probe(t, "/readyz", consumers...)
	assert.Equal(t, ready == "ready", code == http.StatusOK)
	return alive + ", " + ready
}
