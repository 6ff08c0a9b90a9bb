package restatestart_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

// Every Go snippet of the README stands to the letter in a file that is compiled.
func TestTheReadmesSnippetsAreCompiled(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var sources []string
	for _, pattern := range []string{"*.go", "examples/*/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			sources = append(sources, string(source))
		}
	}
	snippets := strings.Split(string(readme), "```go\n")[1:]
	require.Len(t, snippets, 3)
	for _, snippet := range snippets {
		code, _, found := strings.Cut(snippet, "```")
		require.True(t, found)
		compiled := false
		for _, source := range sources {
			compiled = compiled || strings.Contains(source, code)
		}
		assert.True(t, compiled, "not in any source:\n%s", code)
	}
}

// Every promise that the README makes has a test that bears its id.
func TestEveryPromiseHasATest(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var tests strings.Builder
	for _, pattern := range []string{"*_test.go", "internal/*/*_test.go", "internal/*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			tests.Write(source)
		}
	}
	promises := 0
	for line := range strings.Lines(string(readme)) {
		id, _, found := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !found || len(id) < 2 || len(id) > 3 || !strings.ContainsAny(id[:1], "SC") || strings.Trim(id[1:], "0123456789") != "" {
			continue
		}
		promises++
		assert.Regexp(t, `func Test(?:[SC]\d+)*`+id+`(?:[SC]\d+)*[A-Z]|t\.Run\("`+id+` `, tests.String(), "promise %s", id)
	}
	assert.Equal(t, 14+11, promises)
}

// The defaults of the README are those of the code.
func TestTheReadmesDefaultsAreTheCodes(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for field, value := range map[string]any{
		"`Handler`": restatestart.DefaultHandler, "`MaxParallelism`": restatestart.DefaultMaxParallelism,
		"`MaxAttempts`": restatestart.DefaultMaxAttempts, "`AttemptTimeout`": restatestart.DefaultAttemptTimeout,
		"`RetryMin`, `RetryMax`": []any{restatestart.DefaultRetryMin, restatestart.DefaultRetryMax},
		"`Jitter`, `NoJitter`":   restatestart.DefaultJitter, "`BatchSize`": restatestart.DefaultBatchSize,
		"`Block`": restatestart.DefaultBlock, "`ReadAhead`": restatestart.DefaultReadAhead,
		"`PersistInterval`": restatestart.DefaultPersistInterval, "`DrainTimeout`": restatestart.DefaultDrainTimeout,
		"`HoldMin`, `HoldMax`": []any{restatestart.DefaultHoldMin, restatestart.DefaultHoldMax},
	} {
		assert.Contains(t, string(readme), "| "+field+" | "+inReadme(value)+" | ")
	}
}

func inReadme(value any) string {
	switch value := value.(type) {
	case []any:
		return inReadme(value[0]) + ", " + inReadme(value[1])
	case string:
		return "`" + value + "`"
	case interface{ String() string }:
		unit := strings.TrimLeft(value.String(), "0123456789.")
		return strings.TrimSuffix(value.String(), unit) + " " + unit
	default:
		return fmt.Sprint(value)
	}
}

// The figures of the README are those that `make bench` wrote last: what was measured on, and every row that has a target.
func TestTheReadmesFiguresAreThoseOfTheLastBenchmark(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	results, err := os.ReadFile("internal/bench/results.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(readme), "\n## Performance\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	tables, _, _ := strings.Cut(string(results), "\n| case ")
	judged := 0
	for line := range strings.Lines(tables) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		switch {
		case strings.HasPrefix(line, "- "):
			assert.Contains(t, section, line, "what was measured on")
		case len(cells) == 8 && strings.Contains(cells[6], "met"):
			judged++
			var row strings.Builder // without the spaces that align it
			for _, cell := range cells[2:7] {
				row.WriteString("| " + strings.TrimSpace(cell) + " ")
			}
			assert.Contains(t, section, row.String()+"|\n")
		}
	}
	assert.Equal(t, 22, judged)
	assert.Equal(t, judged, strings.Count(section, "met |\n"), "and no others")
}
