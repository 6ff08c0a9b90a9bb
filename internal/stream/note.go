package stream

import (
	"strconv"
	"strings"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// unknown stands for a number that is not known.
const unknown = "?"

// holdsMark says that what stands before it holds the partition.
const holdsMark = "held"

// note is what is stored along with a position that so many entries lie behind: how many entries are accounted for up to
// it, and what was reported and lasts, for no restart to report it again:
//
//	<entries or ?>[|<kind>|<position>|<first>|<lost or ?>|<unix ms>[|held]]
//
// It is empty where the reader was never within the stream: then nothing is known.
func (a audit) note(passed int64) string {
	if !a.inside {
		return ""
	}
	text := number(a.base+passed, a.counted)
	if gap := a.standing; gap != nil {
		text += "|" + gap.Kind.String() + "|" + gap.Position.String() + "|" + gap.First.String() + "|" +
			number(gap.Lost, gap.LostKnown) + "|" + strconv.FormatInt(gap.At.UnixMilli(), 10)
		if a.holds {
			text += "|" + holdsMark
		}
	}
	return text
}

// parseAudit reads a note. Of one that it cannot read, nothing is known.
func parseAudit(note string) audit {
	fields := strings.Split(note, "|")
	a := audit{inside: true}
	ok := true
	a.base, a.counted = parseNumber(fields[0], &ok)
	switch fields = fields[1:]; {
	case !ok:
		return audit{}
	case len(fields) == 0:
		return a
	case len(fields) == 6 && fields[5] == holdsMark:
		a.holds = true
	case len(fields) != 5:
		return audit{}
	}
	gap := Gap{Kind: kindOf(fields[0])}
	gap.Lost, gap.LostKnown = parseNumber(fields[3], &ok)
	ms, timed := parseNumber(fields[4], &ok)
	gap.At = time.UnixMilli(ms)
	var errPosition, errFirst error
	gap.Position, errPosition = wire.ParseID(fields[1])
	gap.First, errFirst = wire.ParseID(fields[2])
	if !ok || !timed || gap.Kind == 0 || errPosition != nil || errFirst != nil {
		return audit{}
	}
	a.standing = &gap
	return a
}

func number(n int64, known bool) string {
	if !known {
		return unknown
	}
	return strconv.FormatInt(n, 10)
}

func parseNumber(text string, ok *bool) (n int64, known bool) {
	if text == unknown {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	*ok = *ok && err == nil
	return n, err == nil
}
