package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// startTimeout bounds one start, from fork to ready. A server needs well under a second on an idle machine; the rest
// is for a busy one.
const startTimeout = 30 * time.Second

// lookTimeout bounds one look at a server that starts: whoever else has its port may never answer.
const lookTimeout = 2 * time.Second

// endTimeout is how long an asked server may take to end. restate-server drains its ingress for up to 5 s and then
// shuts down for up to 5 s more.
const endTimeout = 20 * time.Second

// daemon is one server with its directory, its log and its restarts: what Redis and Restate have in common.
type daemon struct {
	name   string
	binary string
	args   []string
	env    []string // added to the environment of this process, without its RESTATE_… variables
	dir    string
	// ready looks once whether the process pid serves. It must tell pid from another server on the same port.
	ready func(ctx context.Context, pid int) error

	mu      sync.Mutex
	process *process // nil when it does not run
	extra   []string // environment of this run alone
}

func (d *daemon) logPath() string { return filepath.Join(d.dir, "server.log") }

// start starts the server and waits until it is ready. It returns errPortTaken when the server could not bind.
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
	// The child has its own descriptor once it was started.
	defer func() { _ = log.Close() }()
	offset := logSize(d.logPath())

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
		look, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		err := d.ready(look, cmd.Process.Pid)
		return err == nil, err
	})
	if err == nil {
		d.process = child
		return nil
	}
	written := logSince(d.logPath(), offset)
	if addressInUse.MatchString(written) {
		err = fmt.Errorf("%w: %w", errPortTaken, err)
	}
	err = fmt.Errorf("start %s: %w\n%s", d.name, err, tail(written, tailLines))
	return errors.Join(err, child.end(syscall.SIGKILL, endTimeout))
}

// restart starts the server again with the same directory and ports, after ending it when it runs. A port that
// somebody else took meanwhile is waited for.
func (d *daemon) restart(ctx context.Context) error { return d.restartWith(ctx, nil) }

// restartWith is restart with something added to the environment until the next one.
func (d *daemon) restartWith(ctx context.Context, extra []string) error {
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

// end sends signal and waits until the server is gone. Ending a server that does not run does nothing.
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

// close kills the server and removes its directory.
func (d *daemon) close() error {
	return errors.Join(d.end(syscall.SIGKILL), os.RemoveAll(d.dir))
}

// logTail returns the last lines of the server's log, over all its restarts.
func (d *daemon) logTail() string { return tail(logSince(d.logPath(), 0), tailLines) }
