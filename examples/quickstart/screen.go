package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// screen shows what happens: on a terminal as a line that changes in place, elsewhere as a line a second.
type screen struct {
	out      io.Writer
	terminal bool
	begin    time.Time

	mu   sync.Mutex
	live string    // what the changing line shows
	last time.Time // when the last line a second was written
}

const clearLine = "\r\x1b[K"

func newScreen(out io.Writer) *screen {
	s := &screen{out: out, begin: time.Now()}
	if file, ok := out.(*os.File); ok {
		mode, err := file.Stat()
		s.terminal = err == nil && mode.Mode()&os.ModeCharDevice != 0
	}
	return s
}

// eventf writes a line that stays.
func (s *screen) eventf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		fmt.Fprint(s.out, clearLine)
	}
	s.write(fmt.Sprintf(format, args...) + "\n")
	if s.terminal && s.live != "" {
		s.write(s.live)
	}
}

// progressf writes how far things are, over what it wrote before.
func (s *screen) progressf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = fmt.Sprintf(format, args...)
	switch {
	case s.terminal:
		fmt.Fprint(s.out, clearLine)
		s.write(s.live)
	case time.Since(s.last) >= time.Second:
		s.last = time.Now()
		s.write(s.live + "\n")
	}
}

// end leaves the last progress standing.
func (s *screen) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal {
		fmt.Fprintln(s.out)
	} else {
		s.write(s.live + "\n")
	}
	s.live = ""
}

// write puts the time since the beginning in front of a text.
func (s *screen) write(text string) {
	fmt.Fprintf(s.out, "%5.1fs  %s", time.Since(s.begin).Seconds(), text)
}
