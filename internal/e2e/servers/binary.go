package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

const (
	redisServer   = "redis-server"
	restateServer = "restate-server"

	// RedisVariable names the environment variable that holds the path of the redis-server to use.
	RedisVariable = "REDIS_SERVER"
	// RestateVariable names the environment variable that holds the path of the restate-server to use.
	RestateVariable = "RESTATE_SERVER"
	// RestateVersionVariable names the environment variable that chooses the fetched restate-server by its version.
	RestateVersionVariable = "RESTATE_VERSION"
	// DefaultRestateVersion is the version looked for when RestateVersionVariable is not set. It is the one that
	// tools.sh fetches.
	DefaultRestateVersion = "1.7.12"
)

// MissingError says that a server's binary was found nowhere. It is the one error that skips a test.
type MissingError struct {
	Tool     string // redis-server or restate-server
	Variable string // the environment variable that can name its path
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s was not found: run `make tools`, or set %s to its path", e.Tool, e.Variable)
}

// RedisBinary returns the path of the redis-server to start: REDIS_SERVER when it is set, else the one in PATH. The
// error is a *MissingError when there is none, another one when REDIS_SERVER names something that cannot be run.
func RedisBinary() (string, error) {
	return find(redisServer, RedisVariable, "")
}

// RestateBinary returns the path of the restate-server to start: RESTATE_SERVER when it is set, else the one that
// tools.sh fetched below the repository's root, else the one in PATH. The errors are those of RedisBinary.
func RestateBinary() (string, error) {
	return find(restateServer, RestateVariable, fetchedRestate())
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
		if candidate == "" {
			continue
		}
		if path, err := exec.LookPath(candidate); err == nil {
			return filepath.Abs(path)
		}
	}
	return "", &MissingError{Tool: tool, Variable: variable}
}

// fetchedRestate is where tools.sh puts restate-server, or "" outside the repository. It is the native binary: the
// package's own command is a Node.js wrapper, which a SIGKILL would end in place of the server.
func fetchedRestate() string {
	root, ok := repositoryRoot()
	if !ok {
		return ""
	}
	version := os.Getenv(RestateVersionVariable)
	if version == "" {
		version = DefaultRestateVersion
	}
	architecture := runtime.GOARCH
	if architecture == "amd64" {
		architecture = "x64"
	}
	return filepath.Join(root, ".tools", "restate-"+version, "node_modules", "@restatedev",
		fmt.Sprintf("restate-server-%s-%s", runtime.GOOS, architecture), "bin", restateServer)
}

// repositoryRoot looks upward from the working directory, which for a test is its package's, for the library's go.mod.
func repositoryRoot() (string, bool) {
	directory, err := os.Getwd()
	if err != nil {
		return "", false
	}
	for {
		text, err := os.ReadFile(filepath.Join(directory, "go.mod"))
		if err == nil && firstLine(text) == "module github.com/redisevents/restatestart" {
			return directory, true
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return "", false
		}
		directory = parent
	}
}

// versionNumber matches both `Redis server v=7.0.15 sha=…` and `restate-server 1.7.12 (…)`.
var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+\S*`)

// Versions returns what would be started, in one line such as `redis-server 7.0.15, restate-server 1.7.12`. A server
// that is missing or does not tell its version is listed with the word missing or unknown.
func Versions(ctx context.Context) string {
	redis, redisErr := RedisBinary()
	restate, restateErr := RestateBinary()
	return strings.Join([]string{
		redisServer + " " + binaryVersion(ctx, redis, redisErr),
		restateServer + " " + binaryVersion(ctx, restate, restateErr),
	}, ", ")
}

func binaryVersion(ctx context.Context, path string, err error) string {
	if missing := (*MissingError)(nil); errors.As(err, &missing) {
		return "missing"
	}
	if err != nil {
		return "unknown"
	}
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.Env = cleanEnvironment()
	text, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	if version := versionNumber.FindString(firstLine(text)); version != "" {
		return version
	}
	return "unknown"
}

// firstLine returns text up to its first newline, trimmed.
func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return string(bytes.TrimSpace(line))
}
