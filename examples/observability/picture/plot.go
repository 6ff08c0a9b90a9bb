package main

import (
	"fmt"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const (
	titleSize = 12
	textSize  = 9
)

// plotOf is one panel, ready to be placed.
func plotOf(panel panel, told story, alarms []alarm) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = panel.title
	p.Title.TextStyle.Font.Size = titleSize
	p.Title.TextStyle.Color = ink
	p.Title.Padding = vg.Points(5)
	p.Y.Label.Text = panel.unit.label
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, told.end().Sub(told.begin()).Minutes(), 0, highest(panel)/(1-headroom(panel))
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Size, axis.Tick.Label.Font.Size = textSize, textSize
		axis.Label.TextStyle.Color, axis.Tick.Label.Color = ink, ink
		axis.Color, axis.Tick.Color = soft, soft
		axis.Padding = 0
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(everyOther), plot.TickerFunc(round)
	if panel.unit.log {
		p.Y.Tick.Marker = plot.TickerFunc(powers)
	}
	var names legend
	p.Add(phases{told}, horizontals{})
	for i, curve := range panel.curves {
		for n, piece := range pieces(curve.points, panel.unit) {
			line, err := plotter.NewLine(piece)
			if err != nil {
				return nil, fmt.Errorf("draw %s: %w", curve.legend, err)
			}
			line.Width, line.Color = vg.Points(1.6), curveColours[i%len(curveColours)]
			if i >= len(curveColours) {
				line.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
			}
			p.Add(line)
			if n == 0 {
				names = append(names, named{curve.legend, line.LineStyle})
			}
		}
	}
	p.Add(limits{panel.threshold, alarms}, names)
	return p, nil
}

// headroom is what phases and legend take of a plot's height, so that no curve runs through a name.
func headroom(panel panel) float64 { return 0.16 + 0.055*float64(len(panel.curves)) }

func highest(panel panel) float64 {
	high := panel.threshold
	for _, curve := range panel.curves {
		for _, point := range curve.points {
			high = max(high, panel.unit.on(point.value))
		}
	}
	return max(high, 1)
}

// pieces splits a curve where points are missing, for a gap is to be seen, and has it as it stands on the axes.
func pieces(points []point, axis unit) []plotter.XYs {
	var split []plotter.XYs
	for i, point := range points {
		if i == 0 || point.at-points[i-1].at > 1.5*scrapeInterval.Seconds() {
			split = append(split, nil)
		}
		last := &split[len(split)-1]
		*last = append(*last, plotter.XY{X: point.at / 60, Y: axis.on(point.value)})
	}
	return split
}

// phases shades what Restate was like, and names it at the top.
type phases struct{ told story }

// Plot implements plot.Plotter, as do those below.
func (s phases) Plot(canvas draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&canvas)
	minutes := func(at time.Time) vg.Length { return x(at.Sub(s.told.begin()).Minutes()) }
	for i, phase := range s.told {
		from, to, low, high := minutes(phase.from), minutes(phase.to), y(p.Y.Min), y(p.Y.Max)
		canvas.FillPolygon(shades[phase.trouble], []vg.Point{{X: from, Y: low}, {X: to, Y: low}, {X: to, Y: high}, {X: from, Y: high}})
		if i > 0 {
			canvas.StrokeLine2(draw.LineStyle{Color: faint, Width: vg.Points(1)}, from, low, from, high)
		}
		style := lettersOf(p)
		style.Color, style.XAlign, style.YAlign = soft, text.XCenter, text.YTop
		canvas.FillText(style, vg.Point{X: (from + to) / 2, Y: high - vg.Points(4)}, phase.name)
	}
}

// horizontals are the lines of a grid, across only.
type horizontals struct{}

func (horizontals) Plot(canvas draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&canvas)
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if tick.Value > p.Y.Min {
			canvas.StrokeLine2(draw.LineStyle{Color: faint, Width: vg.Points(0.5)}, canvas.Min.X, y(tick.Value), canvas.Max.X, y(tick.Value))
		}
	}
}

// legend names the curves, at the left below the phases. The plot's own stands outside of what is drawn by data.
type legend []named

type named struct {
	name string
	line draw.LineStyle
}

func (l legend) Plot(canvas draw.Canvas, p *plot.Plot) {
	style := lettersOf(p)
	style.YAlign = text.YCenter
	for i, entry := range l {
		left, at := canvas.Min.X+vg.Points(6), canvas.Max.Y-vg.Points(24)-vg.Points(11)*vg.Length(i)
		canvas.StrokeLine2(entry.line, left, at, left+vg.Points(14), at)
		canvas.FillText(style, vg.Point{X: left + vg.Points(18), Y: at}, entry.name)
	}
}

// lettersOf is how everything in a plot is written.
func lettersOf(p *plot.Plot) text.Style {
	style := p.Legend.TextStyle
	style.Font.Size, style.Color = textSize, ink
	return style
}

// limits are a panel's threshold, and below the curves when an alert was firing.
type limits struct {
	threshold float64
	alarms    []alarm
}

func (l limits) Plot(canvas draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&canvas)
	style := lettersOf(p)
	style.Color, style.YAlign = red, text.YBottom
	if l.threshold > 0 {
		line := draw.LineStyle{Color: red, Width: vg.Points(1), Dashes: []vg.Length{vg.Points(5), vg.Points(3)}}
		canvas.StrokeLine2(line, canvas.Min.X, y(l.threshold), canvas.Max.X, y(l.threshold))
	}
	for _, alarm := range l.alarms {
		from, to := x(alarm.from/60), x(alarm.to/60)
		canvas.StrokeLine2(draw.LineStyle{Color: red, Width: vg.Points(4)}, from, canvas.Min.Y+vg.Points(2), to, canvas.Min.Y+vg.Points(2))
		style.XAlign = text.XRight
		canvas.FillText(style, vg.Point{X: to - vg.Points(10), Y: canvas.Min.Y + vg.Points(5)}, "alert "+strings.TrimPrefix(alarm.name, "Restatestart"))
	}
}
