package stream

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/wire"
)

// What was passed is not kept account of: neither its entries nor a place for them.
func TestALedgerForgetsWhatIsPassed(t *testing.T) {
	t.Parallel()
	var l ledger
	l.begin(wire.ID{}, "", false)
	page := func(ms uint64) Page {
		id := wire.ID{Ms: ms}
		return Page{Entries: []wire.Entry{{ID: id}}, Read: 1, Last: id}
	}
	for ms := uint64(1); ms <= 100; ms++ {
		l.took([]Page{page(2*ms - 1), page(2 * ms)})
		require.Len(t, l.undone, 2)
		first := &l.undone[0]
		l.advance(page(2*ms-1), func(wire.ID, string) {})
		assert.Zero(t, *first, "nothing refers to what it held")
		assert.Equal(t, []wire.ID{{Ms: 2 * ms}}, behind(l.undone, l.position))
		l.advance(page(2*ms), func(wire.ID, string) {})
		assert.Empty(t, l.undone)
	}
}
