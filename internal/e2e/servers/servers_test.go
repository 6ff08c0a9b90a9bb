package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		leaveOrphan()
	}
	goleak.VerifyTestMain(m)
}

func TestBinariesAreFoundInOrder(t *testing.T) {
	here := t.TempDir()
	script := func(name string) string {
		path := filepath.Join(here, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho "+name+" v=9.8.7 sha=0\n"), 0o700))
		return path
	}
	inPath, chosen := script(redisServer), script("chosen")
	t.Setenv("PATH", here)
	t.Setenv(redisVariable, "")
	t.Setenv(restateVariable, "")
	t.Setenv(restateVersionVariable, "0.0.1")

	path, err := redisBinary()
	require.NoError(t, err)
	assert.Equal(t, inPath, path)
	t.Setenv(redisVariable, filepath.Join(here, "absent"))
	_, err = redisBinary()
	require.ErrorIs(t, err, os.ErrNotExist)
	var missing *MissingError
	require.NotErrorAs(t, err, &missing, "a wrong path is no reason to skip")
	_, err = restateBinary()
	require.ErrorAs(t, err, &missing)
	assert.Contains(t, fetchedRestate(), "restate-0.0.1")
	t.Setenv(redisVariable, chosen)
	assert.Equal(t, "redis-server 9.8.7, restate-server missing", Versions(t.Context()))
}

func TestToolsFetchTheVersionThatIsStarted(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../tools.sh")
	require.NoError(t, err)
	assert.Contains(t, string(script), "${RESTATE_VERSION:-"+defaultRestateVersion+"}")
}

// outcome is a testing.TB that only records how it was ended.
type outcome struct {
	testing.TB
	failed, skipped bool
}

func (o *outcome) Helper()      {}
func (o *outcome) Fatal(...any) { o.failed = true; panic(o) }
func (o *outcome) Skip(...any)  { o.skipped = true; panic(o) }

func TestAMissingServerSkipsOnlyOutsideCI(t *testing.T) {
	missing := fmt.Errorf("start it: %w", &MissingError{Tool: redisServer, Variable: redisVariable})
	for _, row := range []struct {
		ci   string
		err  error
		want outcome
	}{
		{"", missing, outcome{skipped: true}},
		{"true", missing, outcome{failed: true}},
		{"", errors.New("it does not start"), outcome{failed: true}},
	} {
		t.Setenv("CI", row.ci)
		tb := new(outcome)
		assert.Panics(t, func() { giveUp(tb, row.err) })
		assert.Equal(t, row.want, *tb, "CI=%s %v", row.ci, row.err)
	}
}

func shell(t *testing.T, script string, ready error) *daemon {
	t.Helper()
	return &daemon{
		name: "server", binary: "/bin/sh", dir: t.TempDir(), args: []string{"-c", script},
		ready: func(context.Context, int) error { return ready },
	}
}

func TestAServerThatCannotBindDiffersFromOneThatFails(t *testing.T) {
	t.Parallel()
	server := shell(t, "echo 'failed binding: Address in use (os error 98)'; exit 1", errors.New("not ready"))
	err := server.start(t.Context())
	require.ErrorIs(t, err, errPortTaken)
	require.ErrorContains(t, err, "exit status 1")

	// The log of an earlier start does not count.
	server.args = []string{"-c", "echo another reason; exit 2"}
	err = server.start(t.Context())
	require.NotErrorIs(t, err, errPortTaken)
	require.ErrorContains(t, err, "another reason")
	assert.NotContains(t, err.Error(), "Address in use")
}

// orphanVariable set in its environment makes the test binary start a child, print its process id and wait to be killed.
const orphanVariable = "E2E_LEAVE_ORPHAN"

func leaveOrphan() {
	child, err := startProcess(exec.Command("sleep", "60"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(child.cmd.Process.Pid)
	time.Sleep(time.Minute) // killed long before
}
