package wire

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ID is the id of a stream entry: the millisecond it was added and a sequence number within it. The zero ID,
// 0-0, stands before every entry.
//
// Redis allows unsigned 64-bit halves, the .NET package only signed ones. Both are read; what this package
// makes up itself (see Before) stays within the signed range, so that a .NET consumer can take it over.
type ID struct {
	Ms  uint64
	Seq uint64
}

var errID = errors.New("not a stream id of the form <ms>-<seq>")

// ParseID reads `<ms>-<seq>`: two decimal numbers of digits only. A bare `<ms>`, which Redis itself would
// take, is refused, as it is by the .NET package.
func ParseID(text string) (ID, error) {
	ms, seq, found := strings.Cut(text, "-")
	if !found {
		return ID{}, fmt.Errorf("%q: %w", text, errID)
	}
	var id ID
	var err error
	if id.Ms, err = parseDigits(ms); err != nil {
		return ID{}, fmt.Errorf("%q: %w", text, errID)
	}
	if id.Seq, err = parseDigits(seq); err != nil {
		return ID{}, fmt.Errorf("%q: %w", text, errID)
	}
	return id, nil
}

// parseDigits is strconv.ParseUint without the leading plus sign that it lets pass.
func parseDigits(text string) (uint64, error) {
	if text == "" || text[0] < '0' || text[0] > '9' {
		return 0, errID
	}
	return strconv.ParseUint(text, 10, 64)
}

// String renders the id as Redis does.
func (id ID) String() string {
	buf := make([]byte, 0, 41)
	buf = strconv.AppendUint(buf, id.Ms, 10)
	buf = append(buf, '-')
	buf = strconv.AppendUint(buf, id.Seq, 10)
	return string(buf)
}

// IsZero tells whether the id is 0-0, the place before every entry.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders ids as Redis does: by millisecond, then by sequence number.
func (id ID) Compare(other ID) int {
	if c := cmp.Compare(id.Ms, other.Ms); c != 0 {
		return c
	}
	return cmp.Compare(id.Seq, other.Seq)
}

// Before is the greatest id below this one: reading strictly after it reads this one first. 0-0 stays 0-0.
func (id ID) Before() ID {
	switch {
	case id.Seq > 0:
		return ID{Ms: id.Ms, Seq: id.Seq - 1}
	case id.Ms > 0:
		return ID{Ms: id.Ms - 1, Seq: math.MaxInt64}
	default:
		return ID{}
	}
}

// FirstAt is the position from which reading begins with the first entry added at or after a time.
func FirstAt(t time.Time) ID {
	return ID{Ms: uint64(max(0, t.UnixMilli()))}.Before()
}

// maxTime is as late as JSON can say in any time zone.
const maxTime = 253370764800000 // 9999-01-01

// Time is when an entry of that id was added, if its id is a time.
func (id ID) Time() time.Time { return time.UnixMilli(int64(min(id.Ms, maxTime))) }
