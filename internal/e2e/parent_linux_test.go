package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/servers"
)

func TestServersDieWithAKilledTestProcess(t *testing.T) {
	t.Parallel()
	servers.StartRedis(t, servers.RedisOptions{}) // skips where there is none

	program, err := os.Executable()
	require.NoError(t, err)
	parent := exec.Command(program)
	temporary := t.TempDir()
	parent.Env = append(os.Environ(), orphanVariable+"=1", "TMPDIR="+temporary)
	output, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	orphan, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	// Long enough for the runtime to end the threads it has no use for: the server must outlive those.
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, syscall.Kill(orphan, 0), "the server lives as long as its parent")

	require.NoError(t, parent.Process.Kill())
	_, err = io.Copy(io.Discard, output)
	require.NoError(t, err)
	require.Error(t, parent.Wait())

	assert.Eventually(t, func() bool { return !running(orphan) }, 5*time.Second, 10*time.Millisecond)
}

// running tells a live process from one that is gone or only waits for its adoptive parent to collect it.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// leaveOrphan is the test binary's other life: it starts a redis-server, prints its process id and waits to be killed.
func leaveOrphan() {
	redis, err := servers.LaunchRedis(context.Background(), servers.RedisOptions{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	text, err := redis.Client().Info(context.Background(), "server").Result()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for line := range strings.Lines(text) {
		if pid, ok := strings.CutPrefix(line, "process_id:"); ok {
			fmt.Println(strings.TrimSpace(pid))
		}
	}
	time.Sleep(time.Minute) // its parent kills it long before
	os.Exit(1)
}
