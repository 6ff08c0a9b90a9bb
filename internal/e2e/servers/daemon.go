package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout bounds one start, from fork to ready. An idle machine needs well under a second.
	startTimeout = 30 * time.Second
	// probeTimeout bounds one probe of a starting server: another process on its port may never answer.
	probeTimeout = 2 * time.Second
	pollInterval = 20 * time.Millisecond
	// endTimeout is how long a server may take to end: restate-server drains its ingress for up to 5 s and then shuts
	// down for up to 5 s more.
	endTimeout = 20 * time.Second
	// portTries bounds how often a start is tried with new ports: another process can take a free port before the server
	// binds it.
	portTries = 5
	// tailLines is how much of a server's log is shown after a failure.
	tailLines = 40
)

var (
	errPortTaken  = errors.New("a port was taken by another process")
	errNotRunning = errors.New("it is not running")

	// addressInUse matches what both servers log when they cannot bind.
	addressInUse = regexp.MustCompile(`(?i)address (already )?in use`)
)

// daemon is one server with its directory, its log and its restarts: what Redis and Restate have in common.
type daemon struct {
	name   string
	binary string
	args   []string
	env    []string // added to the environment of this process, without its RESTATE_… variables
	dir    string
	// ready probes once whether process pid serves. It must tell pid from another server on the same port.
	ready func(ctx context.Context, pid int) error

	mu      sync.Mutex
	process *process // nil while it is not running
	extra   []string // environment of this run alone
}

// start starts the server and waits until it is ready. The error is errPortTaken when the server could not bind.
func (d *daemon) start(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.startLocked(ctx)
}

func (d *daemon) startLocked(ctx context.Context) error {
	log, err := os.OpenFile(d.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: open its log: %w", d.name, err)
	}
	defer func() { _ = log.Close() }() // the child has its own descriptor
	offset := len(d.logSince(0))

	cmd := exec.Command(d.binary, d.args...) // it outlives ctx, which only bounds the wait for it
	cmd.Dir = d.dir
	cmd.Env = slices.Concat(cleanEnvironment(), d.env, d.extra)
	cmd.Stdout, cmd.Stderr = log, log
	child, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", d.name, err)
	}
	err = poll(ctx, startTimeout, func(ctx context.Context) (bool, error) {
		select {
		case <-child.done:
			return true, fmt.Errorf("it ended: %w", child.cause())
		default:
		}
		probe, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		err := d.ready(probe, cmd.Process.Pid)
		return err == nil, err
	})
	if err == nil {
		d.process = child
		return nil
	}
	written := d.logSince(offset)
	if addressInUse.MatchString(written) {
		err = fmt.Errorf("%w: %w", errPortTaken, err)
	}
	err = fmt.Errorf("start %s: %w\n%s", d.name, err, tail(written))
	return errors.Join(err, child.end(syscall.SIGKILL, endTimeout))
}

// restart ends a running server and starts it again with the same directory and ports, and with extra in its environment
// until the next restart. It waits for a port that another process took meanwhile.
func (d *daemon) restart(ctx context.Context, extra ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.endLocked(syscall.SIGTERM); err != nil {
		return err
	}
	d.extra = extra
	return poll(ctx, startTimeout, func(ctx context.Context) (bool, error) {
		err := d.startLocked(ctx)
		return !errors.Is(err, errPortTaken), err
	})
}

// end sends signal and waits until the server is gone. Ending a server that is not running does nothing.
func (d *daemon) end(signal syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.endLocked(signal)
}

func (d *daemon) endLocked(signal syscall.Signal) error {
	if d.process == nil {
		return nil
	}
	err := d.process.end(signal, endTimeout)
	d.process = nil
	if err != nil {
		return fmt.Errorf("end %s: %w", d.name, err)
	}
	return nil
}

// signal sends a signal to a running server and does not wait for its effect.
func (d *daemon) signal(signal syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := errNotRunning
	if d.process != nil {
		err = d.process.cmd.Process.Signal(signal)
	}
	if err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, d.name, err)
	}
	return nil
}

// close kills the server and removes its directory.
func (d *daemon) close() error {
	return errors.Join(d.end(syscall.SIGKILL), os.RemoveAll(d.dir))
}

func (d *daemon) logPath() string { return filepath.Join(d.dir, "server.log") }

// logSince returns what was logged beyond offset, over all restarts.
func (d *daemon) logSince(offset int) string {
	text, err := os.ReadFile(d.logPath())
	if err != nil {
		return fmt.Sprintf("(read the log: %v)", err)
	}
	return string(text[min(offset, len(text)):])
}

// tail returns the last lines of text, without a final newline.
func tail(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// cleanEnvironment is the environment of this process without the variables that restate-server reads as configuration.
func cleanEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "RESTATE_") })
}

// launch retries a start with new ports while one of them is taken.
func launch[S any](start func() (S, error)) (server S, err error) {
	for range portTries {
		if server, err = start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	return server, err
}

// freeAddresses returns n different loopback addresses that nobody listens on at the moment.
func freeAddresses(n int) ([]string, error) {
	addresses := make([]string, 0, n)
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		// Held until all are chosen, so that no port is chosen twice.
		defer func() { _ = listener.Close() }()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}

// poll calls probe until it is finished or limit or ctx is over. It returns the last error, or nil when probe finished
// without one.
func poll(ctx context.Context, limit time.Duration, probe func(context.Context) (finished bool, err error)) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		finished, err := probe(bounded)
		if finished {
			return err
		}
		// The end of the context would hide the reason that earlier probes gave.
		if err != nil && (last == nil || bounded.Err() == nil) {
			last = err
		}
		select {
		case <-bounded.Done():
			return fmt.Errorf("%w (last error: %w)", context.Cause(bounded), last)
		case <-ticker.C:
		}
	}
}
