package servers

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAServerThatCannotBindIsToldFromOneThatFails(t *testing.T) {
	t.Parallel()
	never := func(context.Context, int) error { return errors.New("not ready") }
	taken := &daemon{
		name: "server", binary: "/bin/sh", dir: t.TempDir(), ready: never,
		args: []string{"-c", "echo 'failed binding: Address in use (os error 98)'; exit 1"},
	}
	err := taken.start(t.Context())
	require.ErrorIs(t, err, errPortTaken)
	require.ErrorContains(t, err, "exit status 1")

	// The log of an earlier start does not count.
	taken.args = []string{"-c", "echo another reason; exit 2"}
	err = taken.start(t.Context())
	require.NotErrorIs(t, err, errPortTaken)
	require.ErrorContains(t, err, "another reason")
	assert.NotContains(t, err.Error(), "Address in use")
}

func TestAServerThatIgnoresItsSignalIsKilled(t *testing.T) {
	t.Parallel()
	stubborn := &daemon{
		name: "server", binary: "/bin/sh", dir: t.TempDir(),
		args: []string{"-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"},
	}
	stubborn.ready = func(context.Context, int) error {
		if logSize(stubborn.logPath()) == 0 {
			return errors.New("not up")
		}
		return nil
	}
	require.NoError(t, stubborn.start(t.Context()))
	err := stubborn.process.end(syscall.SIGTERM, 20*time.Millisecond)
	require.ErrorContains(t, err, "was killed")
	require.NoError(t, stubborn.close())
	assert.NoDirExists(t, stubborn.dir)
}

func TestAStartEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	slow := &daemon{
		name: "server", binary: "/bin/sh", dir: t.TempDir(), args: []string{"-c", "exec sleep 60"},
		ready: func(context.Context, int) error { return errors.New("not ready") },
	}
	err := slow.start(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "not ready")
}

func TestFreeAddressesAreDifferentAndFree(t *testing.T) {
	t.Parallel()
	addresses, err := freeAddresses(3)
	require.NoError(t, err)
	for _, address := range addresses {
		listener, err := net.Listen("tcp", address)
		require.NoError(t, err, "listening on each at once shows that they differ")
		defer func() { _ = listener.Close() }()
	}
}

func TestCleanupIsConfiguredOnlyWhenAskedFor(t *testing.T) {
	t.Parallel()
	assert.NotContains(t, lightConfig(0), "cleanup-interval")
	assert.Contains(t, lightConfig(5*time.Second), "[worker]\ndata-service-memory-limit = \"64 MiB\"\ncleanup-interval = \"5000ms\"\n")
	_, err := LaunchRestate(t.Context(), RestateOptions{CleanupInterval: -1})
	assert.ErrorContains(t, err, "CleanupInterval")
}

func writeLog(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestAFrozenServerIsStillThere(t *testing.T) {
	t.Parallel()
	server := StartRedis(t, RedisOptions{})
	require.NoError(t, server.Freeze())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.Error(t, server.Client().Ping(ctx).Err())
	require.NoError(t, server.Thaw())
	require.NoError(t, server.Client().Ping(t.Context()).Err())

	require.NoError(t, server.Freeze())
	require.NoError(t, server.Kill(), "a frozen one can be killed")
	require.ErrorIs(t, server.Freeze(), errNotRunning)
	require.ErrorIs(t, server.Thaw(), errNotRunning)
}

func TestSettingsOfARestartLastUntilTheNext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := &daemon{
		name: "server", binary: "/bin/sh", dir: dir, env: []string{"BASE=1"},
		args:  []string{"-c", "echo \"BASE=$BASE EXTRA=$EXTRA\"; exec sleep 60"},
		ready: func(context.Context, int) error { return nil },
	}
	t.Cleanup(func() { assert.NoError(t, server.close()) })
	said := func(line string) {
		t.Helper()
		require.Eventually(t, func() bool { return tail(logSince(server.logPath(), 0), 1) == line }, 5*time.Second, 10*time.Millisecond)
	}
	require.NoError(t, server.start(t.Context()))
	said("BASE=1 EXTRA=")
	require.NoError(t, server.restartWith(t.Context(), []string{"EXTRA=2"}))
	said("BASE=1 EXTRA=2")
	require.NoError(t, server.restart(t.Context()))
	said("BASE=1 EXTRA=")
}
