package testkit

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
)

// Log captures log lines. The zero value is ready to use, and safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// Logger returns a logger that writes to the Log as slog.TextHandler does, from level Debug on.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// String is all that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Count is how often a text occurs in it.
func (l *Log) Count(text string) int { return strings.Count(l.String(), text) }
