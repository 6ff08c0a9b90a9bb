package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/restatetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// short is a run of a few seconds, in real time because of its Redis.
func short(t *testing.T, args ...string) config {
	t.Helper()
	config, err := parse(append([]string{"-n", "600", "-outage", "1500ms"}, args...))
	require.NoError(t, err)
	return config
}

func lastLine(out string) string {
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	return lines[len(lines)-1]
}

// totals is the last line of a short run that lost nothing in its outage.
var totals = regexp.MustCompile(`^published=600 claims=30 started=30 duplicates=\d+ blocked=[1-9]\d* lost=0$`)

func TestAnOutageLosesNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), short(t), &out))
	assert.Regexp(t, totals, lastLine(out.String()))
	assert.Equal(t, 1, strings.Count(out.String(), "published="), "one last line")
	assert.Regexp(t, `partition \d blocked at \d+-\d+: .*unreachable after 3 attempts`, out.String())
	assert.Regexp(t, `partition \d resumed after `, out.String())
}

// To the program this ingress is another process: it has a URL, and its starts are counted by their answers.
func TestARemoteIngressIsCountedByItsAnswers(t *testing.T) {
	t.Parallel()
	server, err := restatetest.Listen("127.0.0.1:0", restatetest.WithWorkflow(workflow, "Run"))
	require.NoError(t, err)
	defer server.Close()
	server.ScriptAll(restatetest.DropAfterAccept()) // each start is accepted twice, and once without an answer
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), short(t, "-ingress", server.URL(), "-handler", "Run"), &out))
	assert.Regexp(t, totals, lastLine(out.String()))
	assert.Contains(t, lastLine(out.String()), " duplicates=30 ")
	assert.Len(t, server.StartedKeys(workflow), 30)
}

func TestNoOutageBlocksNothing(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), short(t, "-n", "100", "-partitions", "1", "-outage", "0"), &out))
	assert.Equal(t, "published=100 claims=5 started=5 duplicates=3 blocked=0 lost=0", lastLine(out.String()))
}

// cancelOn calls cancel when text is written.
type cancelOn struct {
	bytes.Buffer

	text   string
	cancel context.CancelFunc
	at     time.Time
}

func (c *cancelOn) Write(p []byte) (int, error) {
	n, err := c.Buffer.Write(p)
	if c.at.IsZero() && strings.Contains(c.String(), c.text) {
		c.at = time.Now()
		c.cancel()
	}
	return n, err
}

func TestAnInterruptionDuringAHoldStopsTheRunSoon(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &cancelOn{text: " blocked at ", cancel: cancel}
	require.EqualError(t, run(ctx, short(t, "-outage", "1m"), out), "interrupted")
	assert.Less(t, time.Since(out.at), 10*time.Second)
	assert.NotContains(t, out.String(), "lost=", "an interrupted run has no totals")
}

func TestALostStartIsCounted(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	publisher := &publisher{published: 40, claims: []string{"claim-1", "claim-2"}}
	response, err := server.Client().Post(server.URL()+"/"+workflow+"/claim-2/run/send", "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	result := (&watcher{publisher: publisher, ingress: server}).result()
	assert.Equal(t, "published=40 claims=2 started=1 duplicates=0 blocked=0 lost=1", result.String())
}

func TestServersThatCannotBeUsedAreErrors(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.ErrorContains(t, run(t.Context(), short(t, "-redis", "127.0.0.1:1"), &out), "reach Redis at 127.0.0.1:1")
	require.ErrorContains(t, run(t.Context(), short(t, "-ingress", "localhost:8080"), &out), "Options.Ingress")
	assert.Empty(t, out.String())
}

func TestFlagsOutOfRangeAreErrors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-n", "0"}, {"-partitions", "0"}, {"-outage", "-1s"}, {"more"}} {
		_, err := parse(args)
		assert.Error(t, err, args)
	}
}
