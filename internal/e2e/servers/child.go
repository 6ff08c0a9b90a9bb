package servers

import "os/exec"

// StartChild starts a program of the test's own and ties its life to this process, as that of the servers is: on Linux
// it is killed when this process ends, even one that is stopped. The channel is closed once it has ended and cmd's
// ProcessState tells how. Do not wait for cmd otherwise.
func StartChild(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	child, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	return child.done, nil
}
