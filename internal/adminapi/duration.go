package adminapi

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

var errDuration = errors.New("not a duration such as 1d 12h")

// units are those in which Restate writes a duration. It accepts more forms, such as 1 day, PT36H and 2w, and rewrites
// them to these; it refuses months and years.
var units = map[string]time.Duration{
	"w": 7 * 24 * time.Hour, "d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second,
	"ms": time.Millisecond, "µs": time.Microsecond, "us": time.Microsecond, "ns": time.Nanosecond,
}

// ParseDuration reads a duration as Restate 1.6 and 1.7 write it: whole numbers with their units, from days down to
// nanoseconds, separated by spaces. One that overflows is the longest time.Duration.
func ParseDuration(text string) (time.Duration, error) {
	var total time.Duration
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return 0, errDuration
	}
	for _, field := range fields {
		digits := field[:len(field)-len(strings.TrimLeft(field, "0123456789"))]
		unit, known := units[field[len(digits):]]
		if !known || digits == "" {
			return 0, errDuration
		}
		count, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || count > int64((math.MaxInt64-total)/unit) {
			total = math.MaxInt64 // stays so: no unit is negative
			continue
		}
		total += time.Duration(count) * unit
	}
	return total, nil
}
