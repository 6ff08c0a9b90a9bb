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

// ID is the id of a stream entry: the millisecond it was added in and a sequence number within it. The zero ID,
// 0-0, is before every entry.
//
// Redis allows unsigned 64-bit halves, the .NET package only signed ones. Both are read; an id that this package
// makes itself (see Before) stays within the signed range, so that a .NET consumer can read it.
type ID struct {
	Ms  uint64
	Seq uint64
}

var errID = errors.New("not a stream id of the form <ms>-<seq>")

// ParseID reads `<ms>-<seq>`: two decimal numbers of digits only. A bare `<ms>`, which Redis accepts, is an error, as in
// the .NET package.
func ParseID(text string) (ID, error) {
	ms, seq, _ := strings.Cut(text, "-")
	var id ID
	var errs [2]error
	id.Ms, errs[0] = strconv.ParseUint(ms, 10, 64)
	id.Seq, errs[1] = strconv.ParseUint(seq, 10, 64)
	if errs != [2]error{} {
		return ID{}, fmt.Errorf("%q: %w", text, errID)
	}
	return id, nil
}

// String renders the id as Redis does.
func (id ID) String() string {
	buf := make([]byte, 0, 41)
	buf = strconv.AppendUint(buf, id.Ms, 10)
	buf = append(buf, '-')
	buf = strconv.AppendUint(buf, id.Seq, 10)
	return string(buf)
}

// IsZero reports whether the id is 0-0.
func (id ID) IsZero() bool { return id == ID{} }

// Compare orders ids as Redis does: by millisecond, then by sequence number.
func (id ID) Compare(other ID) int {
	if c := cmp.Compare(id.Ms, other.Ms); c != 0 {
		return c
	}
	return cmp.Compare(id.Seq, other.Seq)
}

// Before returns the position that is read from to get this entry first: the greatest id below it. 0-0 stays 0-0.
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

// FirstAt returns the position that is read from to get the first entry added at or after t first.
func FirstAt(t time.Time) ID {
	return ID{Ms: uint64(max(0, t.UnixMilli()))}.Before()
}

// maxTime is the latest time that JSON can represent in every time zone.
const maxTime = 253370764800000 // 9999-01-01

// Time returns when the entry was added, if Redis generated its id.
func (id ID) Time() time.Time { return time.UnixMilli(int64(min(id.Ms, maxTime))) }
