package admin

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

var errDuration = errors.New("not a duration such as 1d 12h")

// units of a duration as Restate writes it, the greatest first. It takes more, such as 1 day, PT36H and 2w, and reads
// them back as these; months and years it refuses.
var units = map[string]time.Duration{
	"w": 7 * 24 * time.Hour, "d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "s": time.Second,
	"ms": time.Millisecond, "µs": time.Microsecond, "us": time.Microsecond, "ns": time.Nanosecond,
}

// ParseDuration reads a duration as Restate 1.6 and 1.7 write it: whole numbers with their units, from days down to
// nanoseconds, between blanks. One that is too long to hold is the longest there is.
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
			total = math.MaxInt64 // too long, and whatever follows does not make it shorter
			continue
		}
		total += time.Duration(count) * unit
	}
	return total, nil
}
