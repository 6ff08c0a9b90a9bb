package chaos_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// process is a consumer in a process of its own.
type process struct {
	command *exec.Cmd
	log     string
	started time.Time
	ended   chan struct{} // closed once it was waited for; what follows is read after it only
	at      time.Time     // when it ended
}

// start starts a consumer that logs to a file of its own.
func start(config consumerConfig, directory string, number int) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	p := &process{
		command: exec.Command(program), log: filepath.Join(directory, fmt.Sprintf("consumer-%04d.log", number)),
		started: time.Now(), ended: make(chan struct{}),
	}
	stderr, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }() // the child has its own descriptor
	// The race detector makes a program's end a second late, for reports of what still runs then.
	p.command.Env = append(os.Environ(), consumerVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
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

func (p *process) String() string {
	return fmt.Sprintf("%s (process %d)", strings.TrimSuffix(filepath.Base(p.log), ".log"), p.command.Process.Pid)
}

// signal sends a signal; a process that has ended is none of its business.
func (p *process) signal(signal syscall.Signal) { _ = p.command.Process.Signal(signal) }

// await waits for the end of the process.
func (p *process) await(limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// alive tells that it ran at that time.
func (p *process) alive(at time.Time) bool {
	select {
	case <-p.ended:
		return !at.Before(p.started) && at.Before(p.at)
	default:
		return !at.Before(p.started)
	}
}

// ending is how an ended process ended: a signal's name, or an exit code.
func (p *process) ending() string {
	status, _ := p.command.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return status.Signal().String()
	}
	return fmt.Sprintf("exit code %d", status.ExitStatus())
}

// outcry matches what no consumer may ever write.
var outcry = regexp.MustCompile(`(?m)^(WARNING: DATA RACE|panic: |fatal error: |goroutine \d+ \[).*$`)

// complaint is what an ended process wrote that it should not have, empty for none.
func (p *process) complaint() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	at := outcry.FindIndex(text)
	if at == nil {
		return ""
	}
	const most = 4 << 10
	return string(text[at[0]:min(len(text), at[0]+most)])
}

// tail is the end of its log.
func (p *process) tail(lines int) string {
	text, _ := os.ReadFile(p.log)
	all := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
