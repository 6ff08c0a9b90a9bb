// Package child runs parts of a program in processes of their own: the program starts itself again under a role, and
// the two exchange lines of JSON, one answer for each request. What a process costs can then be asked of the kernel
// with nothing else in it, and it does not share a heap with those it is compared to.
package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// patience is how long a child may take to end once it is asked to.
const patience = 30 * time.Second

// Process is a child. Its methods are not for concurrent use.
type Process struct {
	name    string
	command *exec.Cmd
	input   io.WriteCloser
	answers chan answer
	broken  error // a call that was given up leaves an answer behind, which would be taken for the next one's
}

type answer struct {
	line []byte
	err  error
}

// Start starts this program again, under a role. The name is for errors. The caller must Close it.
func Start(role, name string) (*Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{name: name, command: exec.Command(program, role), answers: make(chan answer, 1)}
	p.command.Stderr = os.Stderr
	if p.input, err = p.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go p.receive(output)
	return p, nil
}

func (p *Process) receive(output io.Reader) {
	lines := bufio.NewReader(output)
	for {
		line, err := lines.ReadBytes('\n')
		p.answers <- answer{line, err}
		if err != nil {
			close(p.answers)
			return
		}
	}
}

// Call sends a request and waits for its answer, until ctx ends.
func (p *Process) Call(ctx context.Context, request, response any) error {
	if p.broken != nil {
		return p.broken
	}
	if err := p.call(ctx, request, response); err != nil {
		err = fmt.Errorf("%s: %w", p.name, err)
		if _, reply := errors.AsType[*TaskError](err); !reply {
			p.broken = err
		}
		return err
	}
	return nil
}

func (p *Process) call(ctx context.Context, request, response any) error {
	if err := json.NewEncoder(p.input).Encode(request); err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case got, open := <-p.answers:
		if !open {
			return io.ErrUnexpectedEOF
		}
		if got.err != nil {
			return fmt.Errorf("it ended: %w", got.err)
		}
		var reply envelope
		if err := json.Unmarshal(got.line, &reply); err != nil {
			return fmt.Errorf("read the answer %q: %w", got.line, err)
		}
		if reply.Error != "" {
			return &TaskError{reply.Error}
		}
		return json.Unmarshal(reply.Answer, response)
	}
}

// Close asks the child to end, and ends it if it does not.
func (p *Process) Close() error {
	err := p.input.Close()
	kill := time.AfterFunc(patience, func() { _ = p.command.Process.Kill() })
	defer kill.Stop()
	if p.broken != nil { // it may be in the middle of something
		_ = p.command.Process.Kill()
	}
	for range p.answers {
		continue // the end of what it has to say means that all was read
	}
	if waited := p.command.Wait(); waited != nil && p.broken == nil {
		err = errors.Join(err, fmt.Errorf("%s: %w", p.name, waited))
	}
	return err
}

// TaskError is what a child said went wrong.
type TaskError struct{ Text string }

func (e *TaskError) Error() string { return e.Text }

type envelope struct {
	Answer json.RawMessage `json:"answer,omitempty"`
	Error  string          `json:"error,omitempty"`
}

// Serve answers the requests of the process that started this one, until that closes the line or ends. It returns
// when no request is under way any more, or ends the process when that takes long.
func Serve(answer func(request json.RawMessage) (any, error)) error {
	requests := make(chan json.RawMessage)
	go func() {
		defer close(requests)
		for decoder := json.NewDecoder(os.Stdin); ; {
			var request json.RawMessage
			if err := decoder.Decode(&request); err != nil {
				time.AfterFunc(patience, func() { os.Exit(2) }) // nobody is there to ask for more
				return
			}
			requests <- request
		}
	}()
	for request := range requests {
		var reply envelope
		value, err := answer(request)
		if err == nil {
			reply.Answer, err = json.Marshal(value)
		}
		if err != nil {
			reply = envelope{Error: err.Error()}
		}
		if err := json.NewEncoder(os.Stdout).Encode(reply); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	return nil
}
