// Package positiontest has the conformance suite of position.Store, and an in-memory store for tests.
package positiontest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

// Harness is a store under test.
type Harness struct {
	Store position.Store
	// Other is a second writer on the same positions.
	Other position.Store
	// RequestReset writes a reset as an operator's tool does.
	RequestReset func(partition int, value string)
}

// Run runs the suite. Each call of open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	load := func(t *testing.T, store position.Store, partition int) position.Stored {
		t.Helper()
		stored, err := store.Load(t.Context(), []int{partition})
		require.NoError(t, err)
		require.Len(t, stored, 1)
		return stored[0]
	}
	save := func(t *testing.T, store position.Store, id wire.ID) *position.Reset {
		t.Helper()
		resets, err := store.Save(t.Context(), []position.Write{{Partition: 3, ID: id}})
		require.NoError(t, err)
		require.Len(t, resets, 1)
		return resets[0]
	}

	t.Run("nothing is stored at first", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		assert.Equal(t, position.Stored{}, load(t, h.Store, 3))
		none, err := h.Store.Load(t.Context(), nil)
		require.NoError(t, err)
		assert.Empty(t, none)
		asked, err := h.Store.Save(t.Context(), []position.Write{{Partition: 3}})
		require.NoError(t, err)
		assert.Equal(t, []*position.Reset{nil}, asked)
		assert.Equal(t, position.Stored{}, load(t, h.Store, 3), "asking for a reset stores nothing")
	})

	t.Run("C1 a late or second writer never moves a position backwards", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		ascending := []wire.ID{
			{Seq: 1},
			{Ms: 9, Seq: 9},
			{Ms: 9, Seq: 10},
			{Ms: 10, Seq: 1},
			{Ms: 99, Seq: 100},
			{Ms: 1726000000000, Seq: 7},
			{Ms: 1 << 53, Seq: 0},
			{Ms: 1<<53 + 1, Seq: 0},
			{Ms: 1<<53 + 1, Seq: 1},
			{Ms: math.MaxUint64, Seq: math.MaxUint64},
		}
		for i, id := range ascending {
			assert.Nil(t, save(t, h.Store, id))
			assert.Equal(t, position.Stored{ID: id, Found: true}, load(t, h.Other, 3))
			for _, late := range ascending[:i+1] {
				save(t, h.Other, late)
				assert.Equal(t, id, load(t, h.Store, 3).ID, "after a late write of %s", late)
			}
		}
	})

	saveMetadata := func(t *testing.T, store position.Store, id wire.ID, metadata string) {
		t.Helper()
		_, err := store.Save(t.Context(), []position.Write{{Partition: 3, ID: id, Metadata: metadata}})
		require.NoError(t, err)
	}

	t.Run("C9 metadata belongs to the position that it was written with", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		saveMetadata(t, h.Store, wire.ID{Ms: 5}, "five")
		assert.Equal(t, position.Stored{ID: wire.ID{Ms: 5}, Found: true, Metadata: "five"}, load(t, h.Other, 3))
		saveMetadata(t, h.Store, wire.ID{Ms: 5}, "five again|with more")
		assert.Equal(t, "five again|with more", load(t, h.Store, 3).Metadata, "though the position did not move")
		saveMetadata(t, h.Store, wire.ID{Ms: 5}, "")
		assert.Equal(t, "five again|with more", load(t, h.Store, 3).Metadata, "empty metadata is not stored")
		saveMetadata(t, h.Other, wire.ID{Ms: 4}, "four")
		assert.Equal(t, position.Stored{ID: wire.ID{Ms: 5}, Found: true, Metadata: "five again|with more"}, load(t, h.Store, 3), "not that of a late writer")
		save(t, h.Other, wire.ID{Ms: 6})
		assert.Equal(t, position.Stored{ID: wire.ID{Ms: 6}, Found: true}, load(t, h.Store, 3), "moved without metadata")
		saveMetadata(t, h.Store, wire.ID{Ms: math.MaxUint64, Seq: math.MaxUint64}, "last")
		assert.Equal(t, "last", load(t, h.Store, 3).Metadata)
	})

	t.Run("C9 metadata is stored without a position too", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		saveMetadata(t, h.Store, wire.ID{}, "none")
		assert.Equal(t, position.Stored{Metadata: "none"}, load(t, h.Other, 3))
		saveMetadata(t, h.Store, wire.ID{Ms: 5}, "five")
		saveMetadata(t, h.Other, wire.ID{}, "none again")
		assert.Equal(t, position.Stored{ID: wire.ID{Ms: 5}, Found: true, Metadata: "five"}, load(t, h.Store, 3))
	})

	t.Run("C9 a reset removes the metadata, even one to the same position", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		saveMetadata(t, h.Store, wire.ID{Ms: 5}, "five")
		h.RequestReset(3, "5-0|")
		saveMetadata(t, h.Store, wire.ID{Ms: 5}, "not while a reset is pending")
		reset := load(t, h.Store, 3).Reset
		require.NotNil(t, reset)
		assert.Equal(t, "five", load(t, h.Store, 3).Metadata)
		applied, err := h.Store.ApplyReset(t.Context(), 3, *reset)
		require.NoError(t, err)
		require.True(t, applied)
		assert.Equal(t, position.Stored{ID: wire.ID{Ms: 5}, Found: true}, load(t, h.Store, 3))
	})

	t.Run("partitions are independent", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		_, err := h.Store.Save(t.Context(), []position.Write{{Partition: 0, ID: wire.ID{Ms: 5}}, {Partition: 1}, {Partition: 2, ID: wire.ID{Ms: 7}}})
		require.NoError(t, err)
		stored, err := h.Store.Load(t.Context(), []int{2, 1, 0})
		require.NoError(t, err)
		assert.Equal(t, []position.Stored{{ID: wire.ID{Ms: 7}, Found: true}, {}, {ID: wire.ID{Ms: 5}, Found: true}}, stored)
	})

	t.Run("no position is written while a reset is pending", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		save(t, h.Store, wire.ID{Ms: 50})
		h.RequestReset(3, "5-1|2026-09-06T11:22:33.4440000+00:00")
		reset := save(t, h.Store, wire.ID{Ms: 60})
		require.NotNil(t, reset)
		assert.Equal(t, wire.ID{Ms: 5, Seq: 1}, reset.Target)
		assert.Equal(t, wire.ID{Ms: 50}, load(t, h.Store, 3).ID)
		assert.Equal(t, reset, load(t, h.Store, 3).Reset)

		applied, err := h.Store.ApplyReset(t.Context(), 3, *reset)
		require.NoError(t, err)
		assert.True(t, applied)
		assert.Equal(t, position.Stored{ID: wire.ID{Ms: 5, Seq: 1}, Found: true}, load(t, h.Other, 3))
		assert.Nil(t, save(t, h.Store, wire.ID{Ms: 6}))
		assert.Equal(t, wire.ID{Ms: 6}, load(t, h.Store, 3).ID)
	})

	t.Run("a newer reset is not removed with an older one", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		h.RequestReset(3, "5-1|first")
		first := load(t, h.Store, 3).Reset
		require.NotNil(t, first)
		h.RequestReset(3, "9-1|second")
		applied, err := h.Store.ApplyReset(t.Context(), 3, *first)
		require.NoError(t, err)
		assert.False(t, applied)
		second := load(t, h.Store, 3).Reset
		require.NotNil(t, second)
		assert.Equal(t, wire.ID{Ms: 9, Seq: 1}, second.Target)
	})

	t.Run("a value that is not a reset is ignored", func(t *testing.T) {
		t.Parallel()
		h := open(t)
		for i, value := range []string{"whenever", "", "5", "5-x", "17260000000001726000000000-0|ids run together", "18446744073709551616-0", "5-18446744073709551616"} {
			h.RequestReset(3, value)
			id := wire.ID{Ms: uint64(60 + i)}
			assert.Nil(t, load(t, h.Store, 3).Reset, value)
			assert.Nil(t, save(t, h.Store, id), value)
			assert.Equal(t, id, load(t, h.Store, 3).ID, value)
		}
	})
}
