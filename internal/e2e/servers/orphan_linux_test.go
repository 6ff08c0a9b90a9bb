package servers

import (
	"bufio"
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
)

func TestChildrenDieWithAKilledTestProcess(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	require.NoError(t, err)
	parent := exec.Command(program)
	parent.Env = append(os.Environ(), orphanVariable+"=1")
	output, err := parent.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, parent.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err)
	orphan, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	// Long enough for the runtime to end idle threads: the child must outlive those.
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, syscall.Kill(orphan, 0), "the child lives as long as its parent")

	require.NoError(t, parent.Process.Kill())
	_, err = io.Copy(io.Discard, output)
	require.NoError(t, err)
	require.Error(t, parent.Wait())
	assert.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", orphan))
		_, state, _ := strings.Cut(string(stat), ") ")
		return err != nil || state[0] == 'Z' || state[0] == 'X'
	}, 5*time.Second, 10*time.Millisecond)
}
