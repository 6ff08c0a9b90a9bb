package servers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
)

const (
	redisServer   = "redis-server"
	restateServer = "restate-server"

	// Environment variables with the path of the server to run, and with the version of the fetched restate-server.
	redisVariable          = "REDIS_SERVER"
	restateVariable        = "RESTATE_SERVER"
	restateVersionVariable = "RESTATE_VERSION"
	// defaultRestateVersion is the version that tools.sh fetches.
	defaultRestateVersion = "1.7.12"
)

// MissingError reports a server whose binary was not found. It is the only error that skips a test.
type MissingError struct {
	Tool     string // redis-server or restate-server
	Variable string // the environment variable that can name its path
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s was not found: run `make tools`, or set %s to its path", e.Tool, e.Variable)
}

// redisBinary returns the path of REDIS_SERVER when it is set, else of the redis-server in PATH. The error is a
// *MissingError when there is none, another one when REDIS_SERVER cannot be run.
func redisBinary() (string, error) { return find(redisServer, redisVariable, "") }

// restateBinary returns the path of RESTATE_SERVER when it is set, else of the restate-server that tools.sh fetched, else
// of the one in PATH.
func restateBinary() (string, error) {
	return find(restateServer, restateVariable, fetchedRestate())
}

func find(tool, variable, fetched string) (string, error) {
	if chosen := os.Getenv(variable); chosen != "" {
		path, err := exec.LookPath(chosen)
		if err != nil {
			return "", fmt.Errorf("find %s by %s: %w", tool, variable, err)
		}
		return filepath.Abs(path)
	}
	for _, candidate := range []string{fetched, tool} {
		if path, err := exec.LookPath(candidate); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", &MissingError{Tool: tool, Variable: variable}
}

// fetchedRestate is where tools.sh puts restate-server. It is the native binary: the npm package's own command is a Node.js
// wrapper, and a SIGKILL would end that instead of the server.
func fetchedRestate() string {
	architecture := runtime.GOARCH
	if architecture == "amd64" {
		architecture = "x64"
	}
	_, here, _, known := runtime.Caller(0)
	if !known {
		return ""
	}
	return filepath.Join(filepath.Dir(here), "..", "..", "..", ".tools", "restate-"+cmp.Or(os.Getenv(restateVersionVariable), defaultRestateVersion),
		"node_modules", "@restatedev", fmt.Sprintf("restate-server-%s-%s", runtime.GOOS, architecture), "bin", restateServer)
}

// versionNumber matches both `Redis server v=7.0.15 sha=…` and `restate-server 1.7.12 (…)`.
var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+\S*`)

// Versions returns what would be started in one line, such as `redis-server 7.0.15, restate-server 1.7.12`, with missing
// or unknown in place of a version.
func Versions(ctx context.Context) string {
	redis, redisErr := redisBinary()
	restate, restateErr := restateBinary()
	return redisServer + " " + binaryVersion(ctx, redis, redisErr) + ", " + restateServer + " " + binaryVersion(ctx, restate, restateErr)
}

func binaryVersion(ctx context.Context, path string, err error) string {
	if missing := (*MissingError)(nil); errors.As(err, &missing) {
		return "missing"
	}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = cleanEnvironment()
	text, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return cmp.Or(versionNumber.FindString(firstLine(text)), "unknown")
}

func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return string(bytes.TrimSpace(line))
}
