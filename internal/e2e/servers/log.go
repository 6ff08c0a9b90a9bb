package servers

import (
	"fmt"
	"os"
	"strings"
)

// tailLines is how much of a server's log is shown when something went wrong.
const tailLines = 40

// logSince returns what was written to the log at path behind offset, or why it cannot be read.
func logSince(path string, offset int64) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Sprintf("(read the log: %v)", err)
	}
	return string(text[min(offset, int64(len(text))):])
}

// tail returns the last n lines of text, without a final newline.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// logSize returns the length of the log at path in bytes; 0 when there is none yet.
func logSize(path string) int64 {
	facts, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return facts.Size()
}
