package conformance

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAnExcusedCasePassesOnlyWithAMismatch(t *testing.T) {
	t.Parallel()
	mismatch := &MismatchError{Differences: []string{"status: want 202, got 501", "body: …"}}
	broken := errors.New("dial: refused")
	for name, test := range map[string]struct {
		err     error
		excused bool
		message string
		passed  bool
	}{
		"right":             {nil, false, "", true},
		"wrong":             {mismatch, false, mismatch.Error(), false},
		"no answer":         {broken, false, "dial: refused", false},
		"excused":           {mismatch, true, "not imitated: r: status: want 202, got 501; body: …", true},
		"excused, but not":  {broken, true, "dial: refused", false},
		"excused no longer": {nil, true, `the case says "not imitated: r", but the answer is as expected: remove the reason`, false},
	} {
		message, passed := verdict(test.err, "not imitated: r", test.excused)
		assert.Equal(t, test.message, message, name)
		assert.Equal(t, test.passed, passed, name)
	}
}
