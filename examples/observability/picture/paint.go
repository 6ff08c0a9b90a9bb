package main

import (
	"errors"
	"fmt"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

const (
	dpi    = 96
	width  = 1200 * vg.Inch / dpi
	height = 1000 * vg.Inch / dpi
)

// The colours: of curves one after the other, told apart also by those who do not see red and green apart, and of what
// stands around them.
var ( //nolint:gochecknoglobals // constants
	curveColours = []color.Color{
		color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xd5, 0x7e, 0x00, 0xff}, color.RGBA{0x00, 0x8b, 0x66, 0xff}, color.RGBA{0xa0, 0x4a, 0x8a, 0xff},
	}
	ink       = color.RGBA{0x33, 0x33, 0x33, 0xff}
	soft      = color.RGBA{0x70, 0x70, 0x70, 0xff}
	faint     = color.RGBA{0xdd, 0xdd, 0xdd, 0xff}
	red       = color.RGBA{0xc6, 0x28, 0x28, 0xff}
	shades    = map[bool]color.Color{true: color.RGBA{0xfd, 0xea, 0xe3, 0xff}, false: color.RGBA{0xee, 0xf6, 0xee, 0xff}}
	lettering = font.Font{Typeface: "Liberation", Variant: "Sans"}
)

// paint writes the panels as a PNG.
func paint(path string, panels []panel, told story, alarms []alarm) (err error) {
	plot.DefaultFont = lettering
	grid := make([][]*plot.Plot, (len(panels)+columns-1)/columns)
	for row := range grid {
		grid[row] = make([]*plot.Plot, columns)
	}
	for at, panel := range panels {
		row, column := at/columns, at%columns
		if grid[row][column], err = plotOf(panel, told, alarms); err != nil {
			return fmt.Errorf("panel %s: %w", panel.title, err)
		}
		if row == len(grid)-1 {
			grid[row][column].X.Label.Text = "minutes"
		}
	}
	image := vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	tiles := draw.Tiles{
		Rows: len(grid), Cols: columns, PadX: vg.Points(16), PadY: vg.Points(14),
		PadTop: vg.Points(6), PadBottom: vg.Points(4), PadLeft: vg.Points(4), PadRight: vg.Points(8),
	}
	for row, parts := range plot.Align(grid, tiles, draw.New(image)) {
		for column, part := range parts {
			if grid[row][column] != nil {
				grid[row][column].Draw(part)
			}
		}
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = vgimg.PngCanvas{Canvas: image}.WriteTo(file)
	return err
}
