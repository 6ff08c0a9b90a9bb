package restatetest

import (
	"errors"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// The real server's messages for delays that it cannot read.
var (
	errDelayEmpty    = errors.New(`an empty string is not a valid duration in either the ISO 8601 format or Jiff's "friendly" format`)
	errDelayNumber   = errors.New(`failed to parse input in the "friendly" duration format: expected duration to start with a unit value (a decimal integer) after an optional sign, but no integer was found`)
	errDelayUnit     = errors.New(`failed to parse input in the "friendly" duration format: expected to find unit designator suffix (e.g., ` + "`years` or `secs`" + `) after parsing integer`)
	errDelayNegative = errors.New("negative signed durations cannot be converted to an unsigned duration")
	errDelayTooLarge = errors.New("please use units of days or smaller")
	errDelayISO      = errors.New("failed to parse input as an ISO 8601 duration")
	errDelayRange    = errors.New("the duration is out of range")
)

// longerThanDays marks the units that have no fixed length.
const longerThanDays = -1

// queryDelay finds the delay in a raw query. The parameter's name may have any case, and the first one counts.
func queryDelay(query string) (delay time.Duration, given bool, err error) {
	for parameter := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(name, "delay") {
			continue
		}
		if unescaped, err := url.QueryUnescape(value); err == nil {
			value = unescaped
		}
		delay, err = parseDelay(value)
		return delay, true, err
	}
	return 0, false, nil
}

// parseDelay reads "1500ms", "1h 30m", "2 min" and the like, and the ISO 8601 form "PT10S".
func parseDelay(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	switch text {
	case "":
		return 0, errDelayEmpty
	case "0":
		return 0, nil
	}
	sign, magnitude := text[0], strings.TrimLeft(text, "+-")
	parse := parseFriendly
	if magnitude != "" && (magnitude[0] == 'P' || magnitude[0] == 'p') {
		magnitude, parse = magnitude[1:], parseISO
	}
	delay, err := parse(magnitude)
	if err == nil && sign == '-' && delay > 0 {
		return 0, errDelayNegative
	}
	return delay, err
}

func parseFriendly(text string) (time.Duration, error) {
	var total time.Duration
	for rest := text; rest != ""; {
		number, after := leadingNumber(rest)
		if number == "" {
			return 0, errDelayNumber
		}
		after = strings.TrimLeft(after, " \t")
		end := strings.IndexFunc(after, func(r rune) bool { return strings.ContainsRune(" \t,+-.0123456789", r) })
		if end < 0 {
			end = len(after)
		}
		unit, known := friendlyUnit(after[:end])
		if !known {
			return 0, errDelayUnit
		}
		var err error
		if total, err = addUnits(total, number, unit); err != nil {
			return 0, err
		}
		rest = strings.TrimLeft(strings.TrimPrefix(strings.TrimLeft(after[end:], " \t"), ","), " \t")
	}
	if text == "" {
		return 0, errDelayNumber
	}
	return total, nil
}

func friendlyUnit(name string) (time.Duration, bool) {
	switch strings.ToLower(name) {
	case "y", "yr", "yrs", "year", "years", "mo", "mos", "month", "months":
		return longerThanDays, true
	case "w", "wk", "wks", "week", "weeks":
		return 7 * 24 * time.Hour, true
	case "d", "day", "days":
		return 24 * time.Hour, true
	case "h", "hr", "hrs", "hour", "hours":
		return time.Hour, true
	case "m", "min", "mins", "minute", "minutes":
		return time.Minute, true
	case "s", "sec", "secs", "second", "seconds":
		return time.Second, true
	case "ms", "msec", "msecs", "milli", "millis", "millisecond", "milliseconds":
		return time.Millisecond, true
	case "us", "µs", "usec", "usecs", "micro", "micros", "microsecond", "microseconds":
		return time.Microsecond, true
	case "ns", "nsec", "nsecs", "nano", "nanos", "nanosecond", "nanoseconds":
		return time.Nanosecond, true
	}
	return 0, false
}

// parseISO reads what follows the P.
func parseISO(text string) (time.Duration, error) {
	var total time.Duration
	var clock bool
	if text == "" || strings.HasSuffix(strings.ToUpper(text), "T") {
		return 0, errDelayISO
	}
	for rest := strings.ToUpper(text); rest != ""; {
		if rest[0] == 'T' && !clock {
			clock, rest = true, rest[1:]
			continue
		}
		number, after := leadingNumber(rest)
		if number == "" || after == "" {
			return 0, errDelayISO
		}
		var unit time.Duration
		switch designator := after[0]; {
		case !clock && (designator == 'Y' || designator == 'M'):
			unit = longerThanDays
		case !clock && designator == 'W':
			unit = 7 * 24 * time.Hour
		case !clock && designator == 'D':
			unit = 24 * time.Hour
		case clock && designator == 'H':
			unit = time.Hour
		case clock && designator == 'M':
			unit = time.Minute
		case clock && designator == 'S':
			unit = time.Second
		default:
			return 0, errDelayISO
		}
		var err error
		if total, err = addUnits(total, number, unit); err != nil {
			return 0, err
		}
		rest = after[1:]
	}
	return total, nil
}

// leadingNumber cuts a decimal number, with or without a fraction, off the front of text.
func leadingNumber(text string) (number, rest string) {
	end := 0
	for end < len(text) && ('0' <= text[end] && text[end] <= '9' || end > 0 && text[end] == '.') {
		end++
	}
	return text[:end], text[end:]
}

func addUnits(total time.Duration, number string, unit time.Duration) (time.Duration, error) {
	if unit == longerThanDays {
		return 0, errDelayTooLarge
	}
	count, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, errDelayNumber
	}
	sum := float64(total) + count*float64(unit)
	if sum >= math.MaxInt64 {
		return 0, errDelayRange
	}
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil {
		return total + time.Duration(whole)*unit, nil
	}
	return time.Duration(math.Round(sum)), nil
}
