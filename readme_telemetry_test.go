package restatestart_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/restatetest"
)

var eventRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (?:Debug|Info|Warn|Error) \\|")

// eventsInREADME are the events of its table of logs.
func eventsInREADME(t *testing.T) []string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var events []string
	for _, row := range eventRow.FindAllStringSubmatch(string(readme), -1) {
		events = append(events, row[1])
	}
	require.NotEmpty(t, events)
	return events
}

// Every event that is logged stands in the README, and nothing else does.
func TestTheReadmesEventsAreTheCodes(t *testing.T) {
	t.Parallel()
	logged := map[string]bool{}
	for _, pattern := range []string{"*.go", "internal/*/*.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			require.NoError(t, err)
			ast.Inspect(source, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.CallExpr:
					if event, found := eventOf(node); found {
						logged[event] = true
					}
				case *ast.ValueSpec: // the events of a kind
					if kind, is := node.Type.(*ast.Ident); is && strings.HasSuffix(kind.Name, "Event") {
						event, err := strconv.Unquote(node.Values[0].(*ast.BasicLit).Value)
						logged[event] = err == nil
					}
				}
				return true
			})
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(logged)), eventsInREADME(t))
}

// eventOf is the event that a call logs.
func eventOf(call *ast.CallExpr) (event string, found bool) {
	method, is := call.Fun.(*ast.SelectorExpr)
	if !is || !slices.Contains([]string{
		"Debug", "Info", "Warn", "Error", "DebugContext", "InfoContext", "WarnContext", "ErrorContext", "LogAttrs", "tell", "announce",
	}, method.Sel.Name) {
		return "", false
	}
	for _, argument := range call.Args {
		if literal, is := argument.(*ast.BasicLit); is && literal.Kind == token.STRING {
			event, err := strconv.Unquote(literal.Value)
			return event, err == nil
		}
	}
	return "", false
}

var (
	instrumentRow = regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| (counter|up-down counter|gauge|histogram), ([a-z{}]+) \\| ([^|]+) \\|")
	instrumentDoc = regexp.MustCompile(`(?m)^//\t(\S+) +(counter|up-down|gauge|histogram) +(\S+) +([a-z._, ]+|-)  `)
)

// Every instrument stands in the README's table and in the package comment, with its kind, unit and attributes.
func TestTheReadmesInstrumentsAreTheCodes(t *testing.T) {
	t.Parallel()
	reported := reportedInstruments(t)
	for file, rows := range map[string]*regexp.Regexp{"README.md": instrumentRow, "doc.go": instrumentDoc} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		documented := map[string]string{}
		for _, row := range rows.FindAllStringSubmatch(string(text), -1) {
			attributes := strings.NewReplacer("`", "", "–", "", "-", "").Replace(strings.TrimSpace(row[4]))
			names := strings.Split(attributes, ", ")
			slices.Sort(names)
			documented[row[1]] = strings.TrimSuffix(row[2], " counter") + ", " + row[3] + ": " + strings.Join(names, ", ")
		}
		assert.Equal(t, reported, documented, file)
	}
}

// reportedInstruments are those that an SDK has seen, after something of each kind has happened: kind, unit: attributes.
func reportedInstruments(t *testing.T) map[string]string {
	t.Helper()
	reported := map[string]string{}
	synctest.Test(t, func(t *testing.T) {
		w, telemetry := recordedWorld(t, 1)
		fake := restatetest.New(t)
		fake.Script("bad", restatetest.Status(400).Times(1))
		w.publish(0, "a", "bad", "")
		w.run(starterOn(t, fake, nil, restatestart.Options{MeterProvider: telemetry.meters}))
		pass(10 * time.Second)
		fake.Script("stuck", restatetest.Status(400).Always())
		w.publish(0, keysOf(30)...)
		pass(time.Second)
		w.publish(0, "stuck")
		for range 20 {
			w.publish(0, "k1")
			w.source.Trim(0, 30)
			pass(5 * time.Second)
		}
		w.consumer.Reporting(t.Context())() // what no world in memory brings about
		w.consumer.Observer().Failed(0, stream.Verdict{})
		var collected metricdata.ResourceMetrics
		require.NoError(t, telemetry.reader.Collect(t.Context(), &collected))
		for _, scope := range collected.ScopeMetrics {
			for _, instrument := range scope.Metrics {
				kind, attributes := kindOf(t, instrument)
				reported[instrument.Name] = kind + ", " + instrument.Unit + ": " + strings.Join(attributes, ", ")
				assert.NotEmpty(t, instrument.Description)
			}
		}
		require.NoError(t, w.stop())
	})
	return reported
}

func kindOf(t *testing.T, instrument metricdata.Metrics) (kind string, attributes []string) {
	t.Helper()
	var set attribute.Set
	switch data := instrument.Data.(type) {
	case metricdata.Sum[int64]:
		kind, set = "counter", data.DataPoints[0].Attributes
		if !data.IsMonotonic {
			kind = "up-down"
		}
	case metricdata.Gauge[int64]:
		kind, set = "gauge", data.DataPoints[0].Attributes
	case metricdata.Gauge[float64]:
		kind, set = "gauge", data.DataPoints[0].Attributes
	case metricdata.Histogram[float64]:
		kind, set = "histogram", data.DataPoints[0].Attributes
	case metricdata.Histogram[int64]:
		kind, set = "histogram", data.DataPoints[0].Attributes
	default:
		t.Fatalf("%s is a %T", instrument.Name, data)
	}
	for _, pair := range set.ToSlice() {
		attributes = append(attributes, string(pair.Key))
	}
	if attributes == nil {
		attributes = []string{""}
	}
	slices.Sort(attributes)
	return kind, attributes
}
