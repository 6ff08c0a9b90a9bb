package parked_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/parked/parkedtest"
	"github.com/redisevents/restatestart/internal/wire"
)

// openStore returns a store on a Redis double.
func openStore(t *testing.T, options redis.Options) (*miniredis.Miniredis, *redis.Client, *parked.Redis) {
	t.Helper()
	server := miniredis.RunT(t)
	options.Addr = server.Addr()
	client := redis.NewClient(&options)
	t.Cleanup(func() { _ = client.Close() })
	return server, client, parked.NewRedis(client, wire.Keys{Topic: "claims"}, "payout")
}

func TestRedisConformsToTheSuite(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]redis.Options{"RESP2": {Protocol: 2}, "RESP3": {Protocol: 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parkedtest.Run(t, func(t *testing.T) parkedtest.Harness {
				t.Helper()
				_, client, store := openStore(t, options)
				keys := wire.Keys{Topic: "claims"}
				return parkedtest.OnRedis(t, client, keys, "payout", store)
			})
		})
	}
}

func TestMetadataFollowsTheEntrysOwnFields(t *testing.T) {
	t.Parallel()
	server, _, store := openStore(t, redis.Options{})
	_, err := server.XAdd("s:{claims}:2", "5-0", []string{"b", "{}", "x", "1"})
	require.NoError(t, err)
	_, err = store.Park(t.Context(), 2, []parked.Parking{{
		Entry: wire.Entry{ID: wire.ID{Ms: 5}}, Failure: parked.Failure{Reason: "map", Text: "no account", Key: "c-1"},
	}})
	require.NoError(t, err)
	entries, err := server.Stream("parked:{claims}:payout")
	require.NoError(t, err)
	require.Len(t, entries, 1)
	assert.Equal(t, []string{
		"b", "{}", "x", "1", "parked:stream", "s:{claims}:2", "parked:partition", "2", "parked:entry", "5-0", "parked:reason", "map",
		"parked:status", "0", "parked:text", "no account", "parked:workflow", "", "parked:key", "c-1",
		"parked:time", "0001-01-01T00:00:00.0000000+00:00", "parked:whole", "1",
	}, entries[0].Values)
	fields, err := server.HKeys("parked-index:{claims}:payout")
	require.NoError(t, err)
	assert.Equal(t, []string{"2/5-0"}, fields)
	assert.ElementsMatch(t, []string{"s:{claims}:2", "parked:{claims}:payout", "parked-index:{claims}:payout"}, server.Keys())
}

func TestEntriesThatSomethingElseAddedAreForeignAndCanBeRemoved(t *testing.T) {
	t.Parallel()
	server, _, store := openStore(t, redis.Options{})
	names := []string{
		"parked:stream", "parked:partition", "parked:entry", "parked:reason", "parked:status", "parked:text", "parked:workflow",
		"parked:key", "parked:time", "parked:whole",
	}
	like := func(change map[string]string) []string {
		values := map[string]string{"parked:partition": "0", "parked:entry": "1-0", "parked:status": "0", "parked:time": wire.TimeLayout}
		maps.Copy(values, change)
		var fields []string
		for _, name := range names {
			fields = append(fields, name, values[name])
		}
		return fields
	}
	foreign := [][]string{
		{"b", "{}"},
		append(like(nil), "b", "{}"),
		like(map[string]string{"parked:partition": "one"}),
		like(map[string]string{"parked:entry": "1"}),
		like(map[string]string{"parked:status": ""}),
		like(map[string]string{"parked:time": "today"}),
	}
	for _, fields := range foreign {
		_, err := server.XAdd("parked:{claims}:payout", "*", fields)
		require.NoError(t, err)
	}
	entries, err := store.List(t.Context(), wire.ID{}, 100)
	require.NoError(t, err)
	require.Len(t, entries, len(foreign))
	for _, entry := range entries {
		assert.Equal(t, parked.Entry{ID: entry.ID, Foreign: true, Fields: entry.Fields}, entry)
		_, found, err := store.Remove(t.Context(), entry.ID)
		require.NoError(t, err)
		assert.True(t, found)
	}
	assert.False(t, server.Exists("parked-gone:{claims}:payout"))
}

func TestAnEntryThatSomethingElseTrimmedCanBeParkedAgain(t *testing.T) {
	t.Parallel()
	server, client, store := openStore(t, redis.Options{})
	parkings := []parked.Parking{{Entry: wire.Entry{ID: wire.ID{Ms: 1}, Body: "1", HasBody: true}}, {Entry: wire.Entry{ID: wire.ID{Ms: 2}}}}
	tries := 0
	park := func() (fresh []bool) {
		tries++
		for i := range parkings {
			parkings[i].Failure.At = time.UnixMilli(int64(tries))
		}
		ids, err := store.Park(t.Context(), 0, parkings)
		require.NoError(t, err)
		for _, id := range ids {
			fresh = append(fresh, !id.IsZero())
		}
		return fresh
	}
	park()
	first, err := store.List(t.Context(), wire.ID{}, 1)
	require.NoError(t, err)
	require.NoError(t, client.XDel(t.Context(), "parked:{claims}:payout", first[0].ID.String()).Err())
	assert.Equal(t, []bool{true, false}, park())
	server.Del("parked:{claims}:payout")
	parkings = parkings[:1]
	assert.Equal(t, []bool{true}, park())
	fields, err := server.HKeys("parked-index:{claims}:payout")
	require.NoError(t, err)
	assert.Equal(t, []string{"0/1-0"}, fields, "the index of an empty stream is cleared")
}

func TestRemovedEntriesAreForgottenOnceThePositionPassesThem(t *testing.T) {
	t.Parallel()
	server, _, store := openStore(t, redis.Options{})
	remove := func() {
		entries, err := store.List(t.Context(), wire.ID{}, 100)
		require.NoError(t, err)
		for _, entry := range entries {
			_, _, err := store.Remove(t.Context(), entry.ID)
			require.NoError(t, err)
		}
	}
	removed := func() []string {
		fields, err := server.HKeys("parked-gone:{claims}:payout")
		if err != nil {
			return nil
		}
		return slices.Sorted(slices.Values(fields))
	}
	park := func(partition int, ms ...uint64) {
		for _, one := range ms {
			_, err := store.Park(t.Context(), partition, []parked.Parking{{Entry: wire.Entry{ID: wire.ID{Ms: one}}}})
			require.NoError(t, err)
		}
	}
	park(0, 8, 9, 10)
	park(1, 9)
	remove()
	assert.Equal(t, []string{"0/10-0", "0/8-0", "0/9-0", "1/9-0"}, removed())
	server.HSet("p:{claims}:payout", "0", "9-0|writer")
	park(0, 11)
	assert.Equal(t, []string{"0/10-0", "1/9-0"}, removed())
	server.HSet("p:{claims}:payout", "0", "11-0|writer")
	remove()
	assert.Equal(t, []string{"1/9-0"}, removed())
}

func TestErrorsNameTheStreamAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	parking := []parked.Parking{{Entry: wire.Entry{ID: wire.ID{Ms: 1}, Body: "secret", HasBody: true}}}
	for _, key := range []string{
		"s:{claims}:0", "parked:{claims}:payout", "parked-index:{claims}:payout", "parked-gone:{claims}:payout", "p:{claims}:payout",
	} {
		server, _, store := openStore(t, redis.Options{MaxRetries: -1})
		require.NoError(t, server.Set(key, "a string"))
		_, err := store.Park(t.Context(), 0, parking)
		require.ErrorContains(t, err, "park entries of s:{claims}:0 in parked:{claims}:payout", key)
		assert.NotContains(t, err.Error(), "secret")
		assert.Equal(t, []string{key}, server.Keys(), "nothing was written")
	}
	server, _, store := openStore(t, redis.Options{MaxRetries: -1})
	require.NoError(t, server.Set("parked:{claims}:payout", "a string"))
	_, err := store.List(t.Context(), wire.ID{}, 1)
	require.ErrorContains(t, err, "read parked:{claims}:payout")
	_, _, err = store.Find(t.Context(), wire.ID{Ms: 1})
	require.ErrorContains(t, err, "read parked:{claims}:payout")
	_, _, err = store.Remove(t.Context(), wire.ID{Ms: 1})
	require.ErrorContains(t, err, "remove 1-0 from parked:{claims}:payout")
}
