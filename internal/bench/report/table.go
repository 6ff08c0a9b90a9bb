package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Row is one line of the table of targets.
type Row struct {
	Name     string // what -row selects it by
	What     string
	Target   Target
	Measured Spread
	Unit     string // behind the numbers
}

// Target is what a row is held against. The zero value is none: the row informs.
type Target struct {
	Bound float64
	Above bool // the bound is the least that is allowed; otherwise it is the most
}

// AtLeast is met by a value of bound or more.
func AtLeast(bound float64) Target { return Target{bound, true} }

// AtMost is met by a value of bound or less.
func AtMost(bound float64) Target { return Target{bound, false} }

func (t Target) none() bool { return t == Target{} }

// Met reports whether a value reaches the target.
func (t Target) Met(value float64) bool {
	if t.Above {
		return value >= t.Bound
	}
	return value <= t.Bound
}

func (t Target) text(unit string) string {
	switch {
	case t.none():
		return "–"
	case t.Above:
		return "≥ " + number(t.Bound) + unit
	default:
		return "≤ " + number(t.Bound) + unit
	}
}

// Line is one contender's medians in one case.
type Line struct {
	Case      string
	Contender string
	Rate      Spread  // messages a second
	CPU       float64 // µs a message
	Allocs    float64 // a message
	Bytes     float64 // allocated, a message
}

// Report is all of it.
type Report struct {
	Head  []string // what was measured on, a line each
	Rows  []Row
	Lines []Line
	Judge bool // say whether targets are met
}

// Write renders the report as Markdown.
func (r Report) Write(to io.Writer) error {
	var text strings.Builder
	for _, line := range r.Head {
		fmt.Fprintf(&text, "- %s\n", line)
	}
	rows := [][]string{{"row", "what", "target", "measured", "rounds", "verdict"}}
	for _, row := range r.Rows {
		rows = append(rows, []string{
			row.Name, row.What, row.Target.text(row.Unit), row.measured() + row.Unit,
			number(row.Measured.Min) + " to " + number(row.Measured.Max), r.verdict(row),
		})
	}
	writeTable(&text, rows)
	if len(r.Lines) > 0 {
		lines := [][]string{{"case", "contender", "messages/s", "rounds", "CPU µs/message", "allocations/message", "bytes/message"}}
		for _, line := range r.Lines {
			lines = append(lines, []string{
				line.Case, line.Contender, number(line.Rate.Value), number(line.Rate.Min) + " to " + number(line.Rate.Max),
				number(line.CPU), number(line.Allocs), number(line.Bytes),
			})
		}
		writeTable(&text, lines)
	}
	_, err := io.WriteString(to, text.String())
	return err
}

func (r Report) verdict(row Row) string {
	switch {
	case !r.Judge || row.Target.none():
		return "–"
	case row.Target.Met(row.Measured.Value):
		return "met"
	default:
		return "not met"
	}
}

// measured is the number, with the digits that its verdict takes.
func (r Row) measured() string {
	text := number(r.Measured.Value)
	if !r.Target.none() && !r.Target.Met(r.Measured.Value) && text == number(r.Target.Bound) {
		return strconv.FormatFloat(r.Measured.Value, 'g', 4, 64)
	}
	return text
}

// number has the digits that mean something.
func number(value float64) string {
	switch {
	case value >= 100 || value == float64(int64(value)):
		return fmt.Sprintf("%.0f", value)
	case value >= 10:
		return fmt.Sprintf("%.1f", value)
	default:
		return fmt.Sprintf("%.2f", value)
	}
}

// writeTable writes a table whose columns are as wide as they have to be, so that it reads as text too.
func writeTable(to *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	to.WriteByte('\n')
	for at, row := range rows {
		for i, cell := range row {
			to.WriteString("| " + cell + strings.Repeat(" ", widths[i]-len([]rune(cell))) + " ")
		}
		to.WriteString("|\n")
		if at == 0 {
			for _, width := range widths {
				to.WriteString("|" + strings.Repeat("-", width+2))
			}
			to.WriteString("|\n")
		}
	}
}
