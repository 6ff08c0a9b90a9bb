package position_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestCountStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	server, client := startServer(t)
	body := strings.Repeat("x", 50_000) // a step is thirty of these
	for n := 1; n <= 120; n++ {
		_, err := server.XAdd("s:{bets}:0", fmt.Sprintf("%d-0", n), []string{"b", body})
		require.NoError(t, err)
	}
	admin := position.NewAdmin(client, keys, "payout")
	for _, row := range []struct {
		after, last uint64
		limit       int64
		counted     int64
		more        bool
	}{
		{0, 120, 0, 120, false},
		{0, 120, 60, 60, true},
		{0, 120, 61, 90, true},   // a step is not cut short
		{0, 120, 120, 120, true}, // there may be more
		{1, 120, 120, 119, false},
		{120, 120, 0, 0, false},
		{120, 110, 0, 0, false},
		{5, 999, 0, 115, false},
	} {
		counted, more, err := admin.Count(t.Context(), 0, wire.ID{Ms: row.after}, wire.ID{Ms: row.last}, row.limit)
		require.NoError(t, err)
		assert.Equal(t, row.counted, counted, row)
		assert.Equal(t, row.more, more, row)
	}
	counted, more, err := admin.Count(t.Context(), 1, wire.ID{}, wire.ID{Ms: 9}, 0)
	require.NoError(t, err)
	assert.Zero(t, counted)
	assert.False(t, more)
	require.NoError(t, server.Set("s:{bets}:2", "a string"))
	_, _, err = admin.Count(t.Context(), 2, wire.ID{}, wire.ID{Ms: 9}, 0)
	require.ErrorContains(t, err, "count entries of s:{bets}:2: ")
}
