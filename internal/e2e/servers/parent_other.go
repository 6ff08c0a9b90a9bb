//go:build !linux

package servers

import "os/exec"

// dieWithParent does nothing: only Linux has a parent-death signal. A test process that is killed on another system
// leaves its servers behind.
func dieWithParent(*exec.Cmd) {}
