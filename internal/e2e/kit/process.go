package kit

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// serviceVariable in its environment, with a configuration in JSON, makes the test binary a service instead of running
// tests.
const serviceVariable = "E2E_SERVICE"

// Main is a package's TestMain. In a process that StartProcess started it is the main of a service instead, which runs until
// SIGTERM.
func Main[C any](m *testing.M, service func(ctx context.Context, config C, logger *slog.Logger) error) {
	// go-redis writes a line for every refused connection, and these tests kill servers.
	redis.SetLogger(&logging.VoidLogger{})
	if text := os.Getenv(serviceVariable); text != "" {
		os.Exit(runService(text, service))
	}
	fmt.Println("e2e:", servers.Versions(context.Background()))
	goleak.VerifyTestMain(m)
}

func runService[C any](text string, service func(ctx context.Context, config C, logger *slog.Logger) error) (code int) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var config C
	err := json.Unmarshal([]byte(text), &config)
	if err == nil {
		err = service(ctx, config, logger)
	}
	if err != nil {
		logger.Error("ended", slog.Any("error", err))
		return 1
	}
	logger.Info("ended")
	return 0
}

// Process is a service in a process of its own.
type Process struct {
	Started time.Time

	command *exec.Cmd
	log     string
	ended   chan struct{} // closed once it was waited for; at may be read then
	at      time.Time
}

// StartProcess runs the test binary as a service with this configuration, which logs to a file. The process is killed with
// this one.
func StartProcess(config any, log string) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	p := &Process{command: exec.Command(program), log: log, Started: time.Now(), ended: make(chan struct{})}
	stderr, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }() // the child has its own descriptor
	// The race detector delays a program's end by a second, to report what is still running.
	p.command.Env = append(os.Environ(), serviceVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.command.Stderr = stderr
	ended, err := servers.StartChild(p.command)
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		<-ended
		p.at = time.Now()
	}()
	return p, nil
}

func (p *Process) String() string {
	return fmt.Sprintf("%s (process %d)", strings.TrimSuffix(filepath.Base(p.log), ".log"), p.command.Process.Pid)
}

// Signal sends a signal; to a process that has ended it does nothing.
func (p *Process) Signal(signal syscall.Signal) { _ = p.command.Process.Signal(signal) }

// Kill kills the process and waits for its end.
func (p *Process) Kill() {
	p.Signal(syscall.SIGKILL)
	<-p.ended
}

// Await waits for the end of the process and reports whether it came in time.
func (p *Process) Await(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// EndedAt is when an ended process ended.
func (p *Process) EndedAt() time.Time { return p.at }

// Alive reports whether it was running at that time.
func (p *Process) Alive(at time.Time) bool {
	select {
	case <-p.ended:
		return !at.Before(p.Started) && at.Before(p.at)
	default:
		return !at.Before(p.Started)
	}
}

// Ending is how an ended process ended: a signal's name, or an exit code.
func (p *Process) Ending() string {
	status, _ := p.command.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}

// Log is what it has logged.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
