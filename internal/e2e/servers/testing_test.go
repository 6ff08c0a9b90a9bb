package servers

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// verdict is a testing.TB that only remembers how it was ended and what it was told.
type verdict struct {
	testing.TB
	failed  bool
	skipped bool
	logged  string
}

func (v *verdict) Helper()                      {}
func (v *verdict) Failed() bool                 { return v.failed }
func (v *verdict) Fatal(...any)                 { v.failed = true; panic(v) }
func (v *verdict) Skip(...any)                  { v.skipped = true; panic(v) }
func (v *verdict) Logf(format string, a ...any) { v.logged += fmt.Sprintf(format, a...) }

func TestAMissingServerSkipsOnlyOutsideCI(t *testing.T) {
	missing := fmt.Errorf("start it: %w", &MissingError{Tool: redisServer, Variable: RedisVariable})
	for _, c := range []struct {
		ci      string
		err     error
		skipped bool
	}{
		{ci: "", err: missing, skipped: true},
		{ci: "false", err: missing, skipped: true},
		{ci: "true", err: missing},
		{ci: "", err: errors.New("it does not start")},
	} {
		t.Run(fmt.Sprintf("CI=%s %v", c.ci, c.err), func(t *testing.T) {
			t.Setenv("CI", c.ci)
			tb := new(verdict)
			assert.Panics(t, func() { giveUp(tb, c.err) })
			assert.Equal(t, c.skipped, tb.skipped)
			assert.Equal(t, !c.skipped, tb.failed)
		})
	}
}

func TestAFailedTestShowsTheEndOfTheLog(t *testing.T) {
	t.Parallel()
	server := &daemon{name: redisServer, dir: t.TempDir()}
	writeLog(t, server.logPath(), "line 1\n"+strings.Repeat("more\n", tailLines-1)+"the end\n")
	closed := 0
	closeServer := func() error { closed++; return nil }

	passed := new(verdict)
	finish(passed, server, closeServer)
	assert.Empty(t, passed.logged)

	failed := &verdict{failed: true}
	finish(failed, server, closeServer)
	assert.Contains(t, failed.logged, "the end")
	assert.NotContains(t, failed.logged, "line 1\n")
	assert.Equal(t, 2, closed)

	server.dir = filepath.Join(server.dir, "gone")
	failed = &verdict{failed: true}
	finish(failed, server, closeServer)
	assert.Contains(t, failed.logged, "read the log")
}
