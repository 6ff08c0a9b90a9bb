package main

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// labelled is how far up an axis of values has marks: one at the very top would reach beyond the plot, and push it down.
const labelled = 0.95

// everyOther marks every second minute.
func everyOther(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	for at := low; at <= high; at += 2 {
		ticks = append(ticks, plot.Tick{Value: at, Label: fmt.Sprintf("%.0f", at)})
	}
	return ticks
}

// round marks three to six values of one digit.
func round(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/3)))
	for _, times := range []float64{5, 2} {
		if (high-low)/(times*step) >= 3 {
			step *= times
			break
		}
	}
	var ticks []plot.Tick
	for at := low; at < low+labelled*(high-low); at += step {
		ticks = append(ticks, plot.Tick{Value: at, Label: strconv.FormatFloat(at, 'g', 6, 64)})
	}
	return ticks
}

// powers marks, on an axis of logarithms, 0 and the values 1, 3, 10, 30 and so on.
func powers(low, high float64) []plot.Tick {
	ticks := []plot.Tick{{Value: low, Label: "0"}}
	for power := 1.0; math.Log1p(power) <= high; power *= 10 {
		for _, value := range []float64{power, 3 * power} {
			if at := math.Log1p(value); at < low+labelled*(high-low) {
				ticks = append(ticks, plot.Tick{Value: at, Label: strconv.FormatFloat(value, 'g', 6, 64)})
			}
		}
	}
	return ticks
}
