package stream

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/wire"
)

// Neither their entries nor their places in the slice are kept.
func TestTheGapDetectorDropsProcessedPages(t *testing.T) {
	t.Parallel()
	var d gapDetector
	d.begin(wire.ID{}, "", false)
	page := func(ms uint64) Page {
		id := wire.ID{Ms: ms}
		return Page{Entries: []wire.Entry{{ID: id}}, Read: 1, Last: id}
	}
	for ms := uint64(1); ms <= 100; ms++ {
		d.addRead([]Page{page(2*ms - 1), page(2 * ms)})
		require.Len(t, d.unprocessed, 2)
		first := &d.unprocessed[0]
		d.commit(page(2*ms-1), func(wire.ID, string) {})
		assert.Zero(t, *first, "nothing refers to what it held")
		assert.Equal(t, []wire.ID{{Ms: 2 * ms}}, idsBehind(d.unprocessed, d.position))
		d.commit(page(2*ms), func(wire.ID, string) {})
		assert.Empty(t, d.unprocessed)
	}
}
