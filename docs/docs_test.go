package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/preflight"
	"github.com/redisevents/restatestart/redisstream"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// pages are README.md, CHANGELOG.md and all of docs/.
func pages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("*.md")
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	return append(pages, "../README.md", "../CHANGELOG.md")
}

// sources are the Go files of the repository, by path.
func sources(t *testing.T) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != ".." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case strings.HasSuffix(path, ".go"):
			files = append(files, filepath.ToSlash(path))
		}
		return nil
	}))
	return files
}

func TestTheREADMEHasAtMost200Lines(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, strings.Count(read(t, "../README.md"), "\n"), 200)
}

var (
	fence  = regexp.MustCompile("(?ms)^```.*?^```")
	inline = regexp.MustCompile("`[^`\n]*`")
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	title  = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

func TestEveryRelativeLinkResolves(t *testing.T) {
	t.Parallel()
	links := 0
	for _, page := range pages(t) {
		text := inline.ReplaceAllString(fence.ReplaceAllString(read(t, page), ""), "")
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(found[1], "#")
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			_, err := os.Stat(target)
			if assert.NoError(t, err, "%s: %s", page, found[1]) && anchor != "" {
				assert.Contains(t, anchors(t, target), anchor, "%s: %s", page, found[1])
			}
		}
	}
	assert.NotZero(t, links)
}

// anchors are those that GitHub makes of a page's headings.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	var anchors []string
	for _, heading := range title.FindAllStringSubmatch(fence.ReplaceAllString(read(t, page), ""), -1) {
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			default:
				return -1
			}
		}, heading[1])
		again := 0
		for slices.Contains(anchors, anchor) {
			again++
			anchor = strings.TrimSuffix(anchor, fmt.Sprint("-", again-1)) + fmt.Sprint("-", again)
		}
		anchors = append(anchors, anchor)
	}
	return anchors
}

// Each ```go block stands, as it is, in a file that is compiled.
func TestEveryGoSnippetIsCompiled(t *testing.T) {
	t.Parallel()
	var compiled strings.Builder
	for _, file := range sources(t) {
		compiled.WriteString(read(t, file))
	}
	snippets := 0
	for _, page := range pages(t) {
		for _, block := range fence.FindAllString(read(t, page), -1) {
			code, isGo := strings.CutPrefix(block, "```go\n")
			if !isGo {
				continue
			}
			snippets++
			code = strings.TrimSuffix(code, "```")
			if !strings.Contains(compiled.String(), code) {
				t.Errorf("%s: in no source file:\n%s", page, code)
			}
		}
	}
	assert.NotZero(t, snippets)
}

var promise = regexp.MustCompile(`(?m)^\| ([SC]\d+) \|`)

// Each promise has a test, or a subtest, that bears its id.
func TestEveryPromiseHasATest(t *testing.T) {
	t.Parallel()
	var tests strings.Builder
	for _, file := range sources(t) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "../internal/e2e/") {
			tests.WriteString(read(t, file))
		}
	}
	var promised, want []string
	for _, row := range promise.FindAllStringSubmatch(read(t, "promises.md"), -1) {
		promised = append(promised, row[1])
		assert.Regexp(t, `func Test(?:[SC]\d+)*`+row[1]+`(?:[SC]\d+)*[A-Z]|t\.Run\("`+row[1]+` `, tests.String(), "promise %s", row[1])
	}
	for n := range 14 {
		want = append(want, fmt.Sprint("S", n+1))
	}
	for n := range 11 {
		want = append(want, fmt.Sprint("C", n+1))
	}
	assert.Equal(t, want, promised)
}

func TestTheDefaultsAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]any{
		"`Handler`": restatestart.DefaultHandler, "`MaxParallelism`": restatestart.DefaultMaxParallelism,
		"`MaxAttempts`": restatestart.DefaultMaxAttempts, "`AttemptTimeout`": restatestart.DefaultAttemptTimeout,
		"`RetryMin`, `RetryMax`": []any{restatestart.DefaultRetryMin, restatestart.DefaultRetryMax},
		"`Jitter`, `NoJitter`":   restatestart.DefaultJitter, "`BatchSize`": redisstream.DefaultBatchSize,
		"`Block`": redisstream.DefaultBlock, "`ReadAhead`": redisstream.DefaultReadAhead,
		"`PersistInterval`": redisstream.DefaultPersistInterval, "`DrainTimeout`": redisstream.DefaultDrainTimeout,
		"`HoldMin`, `HoldMax`": []any{redisstream.DefaultHoldMin, redisstream.DefaultHoldMax},
		"`Timeout`":            preflight.DefaultTimeout,
	} {
		row := "| " + field + " | " + inTable(value) + " |"
		assert.Contains(t, read(t, "options.md"), row)
		for line := range strings.Lines(read(t, "../README.md")) { // which has some of them
			if strings.HasPrefix(line, "| "+field+" |") {
				assert.Contains(t, line, row)
			}
		}
	}
}

func inTable(value any) string {
	switch value := value.(type) {
	case []any:
		return inTable(value[0]) + ", " + inTable(value[1])
	case string:
		return "`" + value + "`"
	case fmt.Stringer: // a duration
		unit := strings.TrimLeft(value.String(), "0123456789.")
		return strings.TrimSuffix(value.String(), unit) + " " + unit
	default:
		return fmt.Sprint(value)
	}
}

// The page has what the last run of the benchmark was measured on, and each row with a target.
func TestThePerformanceIsThatOfTheLastBenchmark(t *testing.T) {
	t.Parallel()
	page := read(t, "performance.md")
	tables, _, _ := strings.Cut(read(t, "../internal/bench/results.md"), "\n| case ")
	rows := 0
	for line := range strings.Lines(tables) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		switch {
		case strings.HasPrefix(line, "- "):
			assert.Contains(t, page, line)
		case len(cells) == 8 && strings.Contains(cells[6], "met"):
			rows++
			var row strings.Builder // without the spaces that align it
			for _, cell := range cells[2:7] {
				row.WriteString("| " + strings.TrimSpace(cell) + " ")
			}
			assert.Contains(t, page, row.String()+"|\n")
		}
	}
	assert.NotZero(t, rows)
	assert.Equal(t, rows, strings.Count(page, "met |\n"), "no other rows")
}

var eventRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (?:Debug|Info|Warn|Error) \\|")

func TestTheLogEventsAreThoseOfTheCode(t *testing.T) {
	t.Parallel()
	var product []*ast.File
	loggers := map[string]bool{
		"Debug": true, "Info": true, "Warn": true, "Error": true, "DebugContext": true, "InfoContext": true, "WarnContext": true,
		"ErrorContext": true, "Log": true, "LogAttrs": true,
	}
	for _, file := range sources(t) {
		if !isProduct(file) {
			continue
		}
		source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		product = append(product, source)
		for _, declared := range source.Decls { // our own functions that log have a parameter called event
			if function, is := declared.(*ast.FuncDecl); is && slices.ContainsFunc(function.Type.Params.List, isEvent) {
				loggers[function.Name.Name] = true
			}
		}
	}
	logged := map[string]bool{}
	for _, source := range product {
		ast.Inspect(source, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CallExpr:
				if event, found := firstText(node.Args); found && loggers[nameOf(node.Fun)] {
					logged[event] = true
				}
			case *ast.ValueSpec: // the constants of a type of events
				if strings.HasSuffix(nameOf(node.Type), "Event") {
					event, _ := firstText(node.Values)
					logged[event] = true
				}
			}
			return true
		})
	}
	var documented []string
	for _, row := range eventRow.FindAllStringSubmatch(read(t, "logs.md"), -1) {
		documented = append(documented, row[1])
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(logged)), documented)
}

// isProduct reports that a file is part of what users import or run.
func isProduct(file string) bool {
	folder, _, nested := strings.Cut(strings.TrimPrefix(file, "../"), "/")
	inner, _, _ := strings.Cut(strings.TrimPrefix(file, "../internal/"), "/")
	switch {
	case strings.HasSuffix(file, "_test.go"):
		return false
	case folder == "internal":
		return !slices.Contains([]string{"bench", "conformance", "e2e", "testkit"}, inner)
	default:
		return !nested || slices.Contains([]string{"preflight", "redisstream", "cmd"}, folder)
	}
}

func isEvent(parameter *ast.Field) bool {
	return slices.ContainsFunc(parameter.Names, func(name *ast.Ident) bool { return name.Name == "event" })
}

// nameOf is the last part of a name, empty for what is none.
func nameOf(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.SelectorExpr:
		return expression.Sel.Name
	case *ast.Ident:
		return expression.Name
	default:
		return ""
	}
}

// firstText is the first string literal of a list.
func firstText(list []ast.Expr) (text string, found bool) {
	for _, expression := range list {
		if literal, is := expression.(*ast.BasicLit); is && literal.Kind == token.STRING {
			text, err := strconv.Unquote(literal.Value)
			return text, err == nil
		}
	}
	return "", false
}
