package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/redisstream/admin"
)

func TestParkedEntriesAreListedInPages(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	ids := e.park(testkit.Keys(admin.DefaultParkedLimit + 5)...)
	page := func(page admin.ParkedPage) []admin.ParkedEntry {
		entries, err := e.client.Parked(t.Context(), page)
		require.NoError(t, err)
		return entries
	}
	first := page(admin.ParkedPage{})
	require.Len(t, first, admin.DefaultParkedLimit)
	assert.Equal(t, admin.ParkedEntry{
		ID: ids[0], Stream: "s:{claims}:0", EntryID: "1-0", Reason: restatestart.ReasonRejected, Status: 400, Text: "400: no",
		Workflow: "Payout", Key: "k1", ParkedAt: time.UnixMilli(20).UTC(), Trimmed: true, Fields: first[0].Fields,
	}, first[0])
	body, found := first[0].Body()
	assert.True(t, found)
	assert.JSONEq(t, `{"key":"k1"}`, string(body))
	rest := page(admin.ParkedPage{After: first[len(first)-1].ID})
	require.Len(t, rest, 5)
	assert.Equal(t, ids[len(ids)-1], rest[4].ID)
	few := page(admin.ParkedPage{After: ids[1], Limit: 2})
	assert.Equal(t, []string{ids[2], ids[3]}, []string{few[0].ID, few[1].ID})
}

func TestADiscardedEntryIsGone(t *testing.T) {
	t.Parallel()
	telemetry := testkit.Record()
	e := newEnv(t, admin.Options{MeterProvider: telemetry.Meters})
	ids := e.park("a", "b", "c")
	require.NoError(t, e.client.Discard(t.Context(), ids[0], ids[2], ids[0]))
	assert.Equal(t, 2, e.log.Count(`level=WARN msg="parked entry discarded" topic=claims consumer=payout partition=0`))
	assert.Contains(t, telemetry.Metrics(t), "streams.parked{consumer=payout,event=discarded,partition=0,topic=claims} total 2")
	left, err := e.client.Parked(t.Context(), admin.ParkedPage{})
	require.NoError(t, err)
	require.Len(t, left, 1)
	assert.Equal(t, ids[1], left[0].ID)

	err = e.client.Discard(t.Context(), ids...)
	require.ErrorIs(t, err, admin.ErrNotParked)
	require.EqualError(t, err, fmt.Sprintf("2 of 3 parked entries not discarded; %s: %s; %s: %s", ids[0], admin.ErrNotParked, ids[2], admin.ErrNotParked))
	left, err = e.client.Parked(t.Context(), admin.ParkedPage{})
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestAForeignEntryIsShownAndCanBeDiscarded(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	id, err := e.server.XAdd("parked:{claims}:payout", "*", []string{"b", "{}"})
	require.NoError(t, err)
	entries, err := e.client.Parked(t.Context(), admin.ParkedPage{})
	require.NoError(t, err)
	assert.Equal(t, []admin.ParkedEntry{{ID: id, Foreign: true, Fields: []admin.Field{{Name: "b", Value: "{}"}}}}, entries)
	require.NoError(t, e.client.Discard(t.Context(), id))
}

func TestInvalidIDsAndPagesAreRefusedBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	ids := e.park("a")
	for _, bad := range []string{"", "17", "*", "+", "-", "17-x", "17-0 ", "s:{claims}:0"} {
		require.EqualError(t, e.client.Discard(t.Context(), ids[0], bad),
			"admin: id of a parked entry: "+strconv.Quote(bad)+": not a stream id of the form <ms>-<seq>")
	}
	require.NoError(t, e.client.Discard(t.Context()))
	_, err := e.client.Parked(t.Context(), admin.ParkedPage{After: "17"})
	require.ErrorContains(t, err, `admin: ParkedPage.After: "17": not a stream id`)
	_, err = e.client.Parked(t.Context(), admin.ParkedPage{Limit: -1})
	require.ErrorContains(t, err, "admin: ParkedPage.Limit: -1 is negative")
	entries, err := e.client.Parked(t.Context(), admin.ParkedPage{})
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestADiscardEndsWithItsContextAndWithAnErrorOfRedis(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	ids := e.park("a", "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, e.client.Discard(ctx, ids...), context.Canceled)
	e.server.SetError("LOADING Redis is loading the dataset in memory")
	err := e.client.Discard(t.Context(), ids...)
	e.server.SetError("")
	require.ErrorContains(t, err, "2 of 2 parked entries not discarded; "+ids[0]+": ")
	require.ErrorContains(t, err, "LOADING")
	entries, err := e.client.Parked(t.Context(), admin.ParkedPage{})
	require.NoError(t, err)
	assert.Len(t, entries, 2)
}

func TestS14AParkedEntryShowsItsBodyOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	entry := admin.ParkedEntry{
		ID: "20-0", Stream: "s:{claims}:3", Partition: 3, EntryID: "17-3", Reason: restatestart.ReasonRejected, Status: 400,
		Text: "400: no", Workflow: "Payout", Key: "c\n1", ParkedAt: time.UnixMilli(20).UTC(),
		Fields: []admin.Field{{Name: "b", Value: "secret 1"}, {Name: "t", Value: "secret 2"}, {Name: "b", Value: "secret 3"}},
	}
	encoded, err := json.Marshal(entry)
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"20-0","stream":"s:{claims}:3","partition":3,"entryId":"17-3","reason":"rejected","status":400,"text":"400: no",
		"workflow":"Payout","key":"c\n1","parkedAt":"1970-01-01T00:00:00.02Z"}`, string(encoded))
	assert.Equal(t, `20-0: entry 17-3 of s:{claims}:3: start Payout/"c\n1": rejected: 400: no`, entry.String())
	assert.NotContains(t, fmt.Sprintf("%v %+v %s", entry, entry, entry), "secret")
	body, found := entry.Body()
	assert.True(t, found)
	assert.Equal(t, "secret 3", string(body))
	assert.Equal(t, "22-0: entry 1-0 of s: malformed",
		admin.ParkedEntry{ID: "22-0", EntryID: "1-0", Stream: "s", Reason: restatestart.ReasonMalformed}.String())
	foreign := admin.ParkedEntry{ID: "21-0", Foreign: true}
	assert.Regexp(t, "^21-0: not parked by this ", foreign.String())
	_, found = foreign.Body()
	assert.False(t, found)
}

func TestAParkedErrorNamesAtMostFiveEntries(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	err := e.client.Discard(t.Context(), "1-0", "2-0", "3-0", "4-0", "5-0", "6-0", "7-0")
	require.ErrorContains(t, err, "7 of 7 parked entries not discarded; 1-0: no parked entry has this id; 2-0: ")
	require.ErrorContains(t, err, "5-0: no parked entry has this id; and 2 more")
	assert.NotContains(t, err.Error(), "6-0")
}
