package servers

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// signal sends a signal to a server that runs, and does not wait for what comes of it.
func (d *daemon) signal(signal syscall.Signal) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.process == nil {
		return fmt.Errorf("send %s to %s: %w", signal, d.name, errNotRunning)
	}
	if err := d.process.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, d.name, err)
	}
	return nil
}

// errNotRunning is what a signal to a server that was ended comes to.
var errNotRunning = errors.New("it does not run")

// Freeze stops the server with SIGSTOP: its connections stay open, and nothing is answered until Thaw. A frozen server
// can be killed, but neither stopped nor restarted in time.
func (r *Redis) Freeze() error { return r.daemon.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on with what has come meanwhile.
func (r *Redis) Thaw() error { return r.daemon.signal(syscall.SIGCONT) }

// Freeze is that of a Redis.
func (r *Restate) Freeze() error { return r.daemon.signal(syscall.SIGSTOP) }

// Thaw is that of a Redis.
func (r *Restate) Thaw() error { return r.daemon.signal(syscall.SIGCONT) }

// RestartWith is Restart with further settings in the form of RestateOptions.Env. They last until the next restart.
func (r *Restate) RestartWith(ctx context.Context, env ...string) error {
	return r.daemon.restartWith(ctx, env)
}
