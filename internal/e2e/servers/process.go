package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// process is one running child, waited for by the goroutine that started it.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the child was waited for
	err  error         // of that wait; read it after done only
}

// startProcess starts cmd and ties its life to this process.
func startProcess(cmd *exec.Cmd) (*process, error) {
	dieWithParent(cmd)
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux sends the parent-death signal when the thread that forked ends, not when the process does. The
		// runtime ends idle threads, so this one is kept until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// StartChild starts a program of the test's own and ties its life to this process: on Linux it is killed when this
// process ends, even while it is stopped. The channel is closed once it has ended and cmd.ProcessState is set. Do not call
// cmd.Wait.
func StartChild(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	child, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	return child.done, nil
}

// end sends signal and waits for the child to end; one that has ended already is no error. A child that is still running
// after patience is killed, which is an error.
func (p *process) end(signal os.Signal, patience time.Duration) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send %s to process %d: %w", signal, p.cmd.Process.Pid, err)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", p.cmd.Process.Pid, err)
	}
	<-p.done
	return fmt.Errorf("process %d did not end within %s of %s and was killed", p.cmd.Process.Pid, patience, signal)
}

// cause is why a child ended that was not signalled.
func (p *process) cause() error {
	if p.err == nil {
		return errors.New("exit status 0")
	}
	return p.err
}
