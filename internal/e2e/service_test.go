package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

// serviceVariable in its environment, with a serviceConfig in JSON, makes the test binary a service that consumes, in
// place of running tests.
const serviceVariable = "E2E_SERVICE"

// serviceConfig is all that the service needs to know.
type serviceConfig struct {
	Redis        string
	Topic        string
	Ingress      string
	DrainTimeout time.Duration
	Parking      *parkingConfig // makes it a service that parks
}

// runService is a service's main: it consumes until SIGTERM and returns the exit code.
func runService(text string) int {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	go func() {
		// The pipe ends with the test process: the service must not outlive it.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := consume(ctx, text, logger); err != nil {
		logger.Error("ended", slog.Any("error", err))
		return 1
	}
	logger.Info("ended")
	return 0
}

func consume(ctx context.Context, text string, logger *slog.Logger) error {
	var config serviceConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	client := redis.NewClient(clientOptions(config.Redis))
	defer func() { _ = client.Close() }()
	if config.Parking != nil {
		return consumeParking(ctx, config, client, logger)
	}
	starter, err := restatestart.New(hasClaim, payoutOf, restatestart.Options{Ingress: config.Ingress})
	if err != nil {
		return err
	}
	consumer, err := restatestart.NewConsumer(client, config.Topic, restatestart.JSON[bet], starter,
		restatestart.ConsumerOptions{Consumer: consumerName, DrainTimeout: config.DrainTimeout, Logger: logger})
	if err != nil {
		return err
	}
	return consumer.Run(ctx)
}

// serviceProcess is a consumer in a process of its own.
type serviceProcess struct {
	command *exec.Cmd
	ended   chan struct{} // closed once it was waited for
}

// startService starts a consumer in a process of its own. It is killed with the test, if it has not ended before; its
// log is shown when the test failed.
func startService(t *testing.T, config serviceConfig) *serviceProcess {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	text, err := json.Marshal(config)
	require.NoError(t, err)
	logPath := filepath.Join(t.TempDir(), "service.log")
	stderr, err := os.Create(logPath)
	require.NoError(t, err)
	defer func() { _ = stderr.Close() }() // the child has its own descriptor

	p := &serviceProcess{command: exec.Command(program), ended: make(chan struct{})}
	// The race detector makes a program's end a second late, for reports of what still runs then.
	p.command.Env = append(os.Environ(), serviceVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.command.Stderr = stderr
	input, err := p.command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	go func() {
		defer close(p.ended)
		_ = p.command.Wait() // how it ended is in its ProcessState
	}()
	t.Cleanup(func() {
		_ = p.command.Process.Kill() // it may have ended
		<-p.ended
		_ = input.Close()
		if t.Failed() {
			log, _ := os.ReadFile(logPath)
			t.Logf("the log of service %d:\n%s", p.command.Process.Pid, log)
		}
	})
	return p
}

// await waits for the end of the process and returns its exit code, -1 when a signal ended it or it did not end.
func (p *serviceProcess) await(limit time.Duration) int {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return p.command.ProcessState.ExitCode()
	case <-timer.C:
		return -1
	}
}
