package report_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/bench/report"
)

func TestMediansAndRatiosOfMedians(t *testing.T) {
	t.Parallel()
	assert.Zero(t, report.Median(nil))
	assert.Equal(t, 2.0, report.Median([]float64{9, 1, 2}))
	assert.Equal(t, 2.5, report.Median([]float64{9, 1, 2, 3}))
	assert.Equal(t, report.Spread{Value: 2, Min: 1, Max: 9}, report.Of([]float64{9, 1, 2}))

	ratio := report.Ratio([]float64{10, 30, 20}, []float64{10, 10, 40})
	assert.Equal(t, report.Spread{Value: 2, Min: 0.5, Max: 3}, ratio, "20/10, and each round by itself")
	assert.Equal(t, report.Spread{}, report.Ratio([]float64{1}, []float64{0}))
}

func TestATargetIsMetFromItsBoundOn(t *testing.T) {
	t.Parallel()
	assert.True(t, report.AtLeast(1.5).Met(1.5))
	assert.False(t, report.AtLeast(1.5).Met(1.49))
	assert.True(t, report.AtMost(12).Met(12))
	assert.False(t, report.AtMost(12).Met(12.01))
}

func TestTheTableSaysWhetherTargetsAreMetUnlessToldNotTo(t *testing.T) {
	t.Parallel()
	table := report.Report{
		Head: []string{"a machine"},
		Rows: []report.Row{
			{Name: "a", What: "fast", Target: report.AtLeast(1.2), Measured: report.Spread{Value: 1.25, Min: 1, Max: 1.5}},
			{Name: "b", What: "slow", Target: report.AtMost(5), Unit: " ms", Measured: report.Spread{Value: 7, Min: 6, Max: 812.3}},
			{Name: "c", What: "told", Measured: report.Spread{Value: 12.34, Min: -0.5, Max: 130}},
		},
		Lines: []report.Line{{Case: "a", Contender: "ours", Rate: report.Spread{Value: 1e6, Min: 9e5, Max: 2e6}, CPU: 1.5, Allocs: 12, Bytes: 2048}},
		Judge: true,
	}
	var text strings.Builder
	require.NoError(t, table.Write(&text))
	assert.Equal(t, `- a machine

| row | what | target | measured | rounds       | verdict |
|-----|------|--------|----------|--------------|---------|
| a   | fast | ≥ 1.20 | 1.25     | 1 to 1.50    | met     |
| b   | slow | ≤ 5 ms | 7 ms     | 6 to 812     | not met |
| c   | told | –      | 12.3     | -0.50 to 130 | –       |

| case | contender | messages/s | rounds            | CPU µs/message | allocations/message | bytes/message |
|------|-----------|------------|-------------------|----------------|---------------------|---------------|
| a    | ours      | 1000000    | 900000 to 2000000 | 1.50           | 12                  | 2048          |
`, text.String())

	text.Reset()
	table.Judge = false
	require.NoError(t, table.Write(&text))
	assert.NotContains(t, text.String(), "met ")
}

func TestANumberHasTheDigitsThatItsVerdictTakes(t *testing.T) {
	t.Parallel()
	row := func(target report.Target, value float64) string {
		var text strings.Builder
		rows := []report.Row{{Name: "row", Target: target, Measured: report.Spread{Value: value}}}
		require.NoError(t, report.Report{Judge: true, Rows: rows}.Write(&text))
		return text.String()
	}
	assert.Contains(t, row(report.AtLeast(0.95), 0.9484), "| 0.9484 ")
	assert.Contains(t, row(report.AtLeast(0.95), 0.9516), "| 0.95 ")
	assert.Contains(t, row(report.AtLeast(0.95), 0.94), "| 0.94 ")
	assert.Contains(t, row(report.AtMost(1.15), 1.1549), "| 1.155 ")
}
