package child_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/bench/child"
)

// role in the arguments makes the test binary a child, in place of running tests.
const role = "child"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == role {
		if child.Serve(answer) != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func answer(request json.RawMessage) (any, error) {
	var text string
	if err := json.Unmarshal(request, &text); err != nil {
		return nil, err
	}
	switch text {
	case "refuse":
		return nil, errors.New("refused")
	case "exit":
		os.Exit(3)
	case "hang":
		select {}
	}
	return text + "!", nil
}

func start(t *testing.T) *child.Process {
	t.Helper()
	process, err := child.Start(role, "echo")
	require.NoError(t, err)
	return process
}

func TestEachRequestGetsItsAnswer(t *testing.T) {
	t.Parallel()
	process := start(t)
	var got string
	require.NoError(t, process.Call(t.Context(), "a", &got))
	assert.Equal(t, "a!", got)
	require.EqualError(t, process.Call(t.Context(), "refuse", &got), "echo: refused")
	require.NoError(t, process.Call(t.Context(), "b", &got), "what was refused does not break the line")
	assert.Equal(t, "b!", got)
	require.NoError(t, process.Close())
}

func TestAChildThatEndsIsAnError(t *testing.T) {
	t.Parallel()
	process := start(t)
	require.ErrorContains(t, process.Call(t.Context(), "exit", new(string)), "echo: it ended")
	require.Error(t, process.Call(t.Context(), "a", new(string)))
	require.NoError(t, process.Close(), "its error was returned before")
}

func TestAChildThatHangsIsGivenUpWithTheContext(t *testing.T) {
	t.Parallel()
	process := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, process.Call(ctx, "hang", new(string)), context.DeadlineExceeded)
	require.ErrorIs(t, process.Call(t.Context(), "a", new(string)), context.DeadlineExceeded, "its answer would be taken for this one's")
	require.NoError(t, process.Close())
}
