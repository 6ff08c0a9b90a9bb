// Package defaults fills in the zero fields of options and refuses negative ones, with the same errors for all options.
package defaults

import (
	"fmt"
	"time"
)

// Set replaces zero by a default and refuses a negative value. The error begins with the field's name.
func Set[N int | time.Duration](field string, value *N, fallback N) error {
	if *value < 0 {
		return fmt.Errorf("%s: %v is negative", field, *value)
	}
	if *value == 0 {
		*value = fallback
	}
	return nil
}

// SetDuration is Set for a duration, and refuses one below a millisecond: 10 was meant to be 10 * time.Second.
func SetDuration(field string, value *time.Duration, fallback time.Duration) error {
	if *value > 0 && *value < time.Millisecond {
		return fmt.Errorf("%s: %s is below a millisecond; is the unit missing?", field, *value)
	}
	return Set(field, value, fallback)
}
