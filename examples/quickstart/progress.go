package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress writes what happens, each line with the time since the beginning.
type progress struct {
	out   io.Writer
	begin time.Time

	mu       sync.Mutex // of out
	reported time.Time
}

func newProgress(out io.Writer) *progress { return &progress{out: out, begin: time.Now()} }

func (p *progress) eventf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%5.1fs  %s\n", time.Since(p.begin).Seconds(), fmt.Sprintf(format, args...))
}

// reportf writes at most one line a second. It is for one goroutine only.
func (p *progress) reportf(format string, args ...any) {
	if time.Since(p.reported) >= time.Second {
		p.reported = time.Now()
		p.eventf(format, args...)
	}
}
