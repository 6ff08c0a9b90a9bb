package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheDashboardHasWhatIsDrawn(t *testing.T) {
	t.Parallel()
	board, err := readBoard("../dashboard.json")
	require.NoError(t, err)
	chosen, err := board.choose(panels[:])
	require.NoError(t, err)
	for i := range chosen {
		for _, target := range chosen[i].targets {
			assert.NotContains(t, target.expr, "$", chosen[i].title)
		}
		chosen[i].curves = []curve{{legend: "a curve with a gap", points: []point{{0, 1}, {5, 2}, {30, 1}, {35, 0}}}}
	}
	begin := time.Now()
	told := story{{name: "healthy", from: begin, to: begin.Add(time.Minute)}, {name: "refuses", trouble: true, from: begin.Add(time.Minute), to: begin.Add(2 * time.Minute)}}
	file := filepath.Join(t.TempDir(), "panels.png")
	require.NoError(t, paint(file, chosen, told, []alarm{{name: "RestatestartPartitionBlocked", from: 60, to: 90}}))
	assert.FileExists(t, file)

	_, err = board.choose([]string{"No such panel"})
	require.ErrorContains(t, err, "No such panel")
}
