package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redisevents/restatestart/internal/wire"
)

// What is noted with a position comes back as it was.
func TestANoteIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	gap := &Gap{Kind: GapTrimmed, Position: wire.ID{Ms: 5, Seq: 1}, First: wire.ID{Ms: 9}, Lost: 3, LostKnown: true, At: time.UnixMilli(1726000000007)}
	gone := &Gap{Kind: GapGone, Position: wire.ID{Ms: 5}, At: time.UnixMilli(7)}
	for text, a := range map[string]audit{
		"":                        {},
		"?":                       {inside: true},
		"12":                      {inside: true, counted: true, base: 12},
		"-3|gone|5-0|0-0|?|7":     {inside: true, counted: true, base: -3, standing: gone},
		"?|gone|5-0|0-0|?|7|held": {inside: true, standing: gone, holds: true},
		"12|trimmed|5-1|9-0|3|1726000000007|held": {inside: true, counted: true, base: 12, standing: gap, holds: true},
	} {
		assert.Equal(t, text, a.note(0))
		assert.Equal(t, a, parseAudit(text))
	}
	assert.Equal(t, "15", audit{inside: true, counted: true, base: 12}.note(3))
}

// Whatever stands there is read without a panic, and what is no note says nothing.
func FuzzNote(f *testing.F) {
	for _, seed := range []string{
		"", "?", "12", "-1", "x", "12|", "12|gone|5-0|0-0|?|7", "12|gone|5-0|0-0|?|?", "12|lost|5-0|0-0|1|7", "12||5-0|0-0|1|7",
		"12|gone|5|0-0|?|7", "12|gone|5-0|x|?|7|held", "12|gone|5-0|0-0|?|7|hold", "12|ahead|5-0|0-0|3|7|held|more", "9223372036854775808",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := parseAudit(text)
		if a == (audit{}) {
			return
		}
		assert.Equal(t, a, parseAudit(a.note(0)))
	})
}
