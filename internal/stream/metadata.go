package stream

import (
	"strconv"
	"strings"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

const (
	unknownNumber = "?"
	holdsMark     = "held"
)

// metadata is what is stored with a position: how many entries are accounted for up to it, of which so many were
// processed since begin, and the standing gap, which a restart must not report again:
//
//	<entries or ?>[|<kind>|<position>|<first>|<lost or ?>|<unix ms>[|held]]
//
// It is empty, which says that nothing is known, as long as the reader was never within the stream.
func (s gapState) metadata(processed int64) string {
	if !s.within {
		return ""
	}
	text := formatNumber(s.base+processed, s.counted)
	if gap := s.standing; gap != nil {
		text += "|" + gap.Kind.String() + "|" + gap.Position.String() + "|" + gap.First.String() + "|" +
			formatNumber(gap.Lost, gap.LostKnown) + "|" + strconv.FormatInt(gap.At.UnixMilli(), 10)
		if s.holds {
			text += "|" + holdsMark
		}
	}
	return text
}

// parseMetadata reads metadata. Anything else says that nothing is known.
func parseMetadata(text string) gapState {
	fields := strings.Split(text, "|")
	state := gapState{within: true}
	ok := true
	state.base, state.counted = parseNumber(fields[0], &ok)
	switch fields = fields[1:]; {
	case !ok:
		return gapState{}
	case len(fields) == 0:
		return state
	case len(fields) == 6 && fields[5] == holdsMark:
		state.holds = true
	case len(fields) != 5:
		return gapState{}
	}
	var gap Gap
	ok = ok && gap.Kind.UnmarshalText([]byte(fields[0])) == nil
	gap.Lost, gap.LostKnown = parseNumber(fields[3], &ok)
	ms, timed := parseNumber(fields[4], &ok)
	gap.At = time.UnixMilli(ms)
	var errPosition, errFirst error
	gap.Position, errPosition = wire.ParseID(fields[1])
	gap.First, errFirst = wire.ParseID(fields[2])
	if !ok || !timed || gap.Kind == GapUnknown || errPosition != nil || errFirst != nil {
		return gapState{}
	}
	state.standing = &gap
	return state
}

func formatNumber(n int64, known bool) string {
	if !known {
		return unknownNumber
	}
	return strconv.FormatInt(n, 10)
}

func parseNumber(text string, ok *bool) (n int64, known bool) {
	if text == unknownNumber {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	*ok = *ok && err == nil
	return n, err == nil
}
