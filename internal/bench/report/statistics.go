package report

import "slices"

// Median is the middle one of values, or the mean of the two in the middle. It is 0 when there are none.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	default:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
}

// Spread is a figure and how far it went from round to round.
type Spread struct{ Value, Min, Max float64 }

// Of is the median of values, and their spread.
func Of(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Value: Median(values), Min: slices.Min(values), Max: slices.Max(values)}
}

// Ratio is the median of one contender's figures over the median of the other's. The spread is that of the ratios
// round by round: rounds alternate, so that the figures of one round saw the same machine.
func Ratio(these, those []float64) Spread {
	var each []float64
	for i := range min(len(these), len(those)) {
		if those[i] != 0 {
			each = append(each, these[i]/those[i])
		}
	}
	spread := Of(each)
	if median := Median(those); median != 0 {
		spread.Value = Median(these) / median
	}
	return spread
}
