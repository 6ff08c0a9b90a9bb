package stream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redisevents/restatestart/internal/wire"
)

func TestMetadataIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	gap := &Gap{Kind: GapTrimmed, Position: wire.ID{Ms: 5, Seq: 1}, First: wire.ID{Ms: 9}, Lost: 3, LostKnown: true, At: time.UnixMilli(1726000000007)}
	gone := &Gap{Kind: GapGone, Position: wire.ID{Ms: 5}, At: time.UnixMilli(7)}
	for text, a := range map[string]gapState{
		"":                        {},
		"?":                       {within: true},
		"12":                      {within: true, counted: true, base: 12},
		"-3|gone|5-0|0-0|?|7":     {within: true, counted: true, base: -3, standing: gone},
		"?|gone|5-0|0-0|?|7|held": {within: true, standing: gone, holds: true},
		"12|trimmed|5-1|9-0|3|1726000000007|held": {within: true, counted: true, base: 12, standing: gap, holds: true},
	} {
		assert.Equal(t, text, a.metadata(0))
		assert.Equal(t, a, parseMetadata(text))
	}
	assert.Equal(t, "15", gapState{within: true, counted: true, base: 12}.metadata(3))
}

// No text makes parsing panic, and malformed metadata says that nothing is known.
func FuzzMetadata(f *testing.F) {
	for _, seed := range []string{
		"", "?", "12", "-1", "x", "12|", "12|gone|5-0|0-0|?|7", "12|gone|5-0|0-0|?|?", "12|lost|5-0|0-0|1|7", "12||5-0|0-0|1|7",
		"12|gone|5|0-0|?|7", "12|gone|5-0|x|?|7|held", "12|gone|5-0|0-0|?|7|hold", "12|ahead|5-0|0-0|3|7|held|more", "9223372036854775808",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a := parseMetadata(text)
		if a == (gapState{}) {
			return
		}
		assert.Equal(t, a, parseMetadata(a.metadata(0)))
	})
}
