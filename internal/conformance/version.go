package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Range is a range of server versions. Its zero value is all of them.
type Range struct {
	Since  string `json:"since"`  // inclusive, such as 1.7.4; empty is no bound
	Before string `json:"before"` // exclusive; empty is no bound
}

// Covers reports whether a version, such as 1.7.12, is in the range.
func (r Range) Covers(version string) bool {
	return (r.Since == "" || compareVersions(version, r.Since) >= 0) && (r.Before == "" || compareVersions(version, r.Before) < 0)
}

func (r Range) check() error {
	for _, bound := range []string{r.Since, r.Before} {
		if _, err := parseVersion(bound); bound != "" && err != nil {
			return err
		}
	}
	if r.Since != "" && r.Before != "" && compareVersions(r.Since, r.Before) >= 0 {
		return fmt.Errorf("no version is from %s and before %s", r.Since, r.Before)
	}
	return nil
}

// parseVersion parses a version of three numbers. It ignores a suffix after a hyphen.
func parseVersion(version string) ([]int, error) {
	numbers, _, _ := strings.Cut(version, "-")
	parts := strings.Split(numbers, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("version %q is not three numbers", version)
	}
	parsed := make([]int, len(parts))
	for i, part := range parts {
		number, err := strconv.Atoi(part)
		if err != nil || number < 0 {
			return nil, fmt.Errorf("version %q is not three numbers", version)
		}
		parsed[i] = number
	}
	return parsed, nil
}

// compareVersions compares two versions. An invalid one comes before all others.
func compareVersions(a, b string) int {
	left, _ := parseVersion(a)
	right, _ := parseVersion(b)
	return slices.Compare(left, right)
}
