package admin_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/redisstream/admin"
)

func TestAResetDoesWhatItsPreviewSays(t *testing.T) {
	t.Parallel()
	at := func(ms int64) admin.ResetTarget { return admin.ToTime(time.UnixMilli(ms)) }
	for name, row := range map[string]struct {
		stored      string
		target      admin.ResetTarget
		to          string
		redelivered int64
		skipped     int64
	}{
		"back to an entry":              {"17-0", admin.ToID("13-0"), "13-0", 4, 0},
		"back to between entries":       {"17-0", admin.ToID("13-7"), "13-7", 4, 0},
		"over one message":              {"17-0", admin.ToID("18-0"), "18-0", 0, 1},
		"to the same position":          {"17-0", admin.ToID("17-0"), "17-0", 0, 0},
		"back to the beginning":         {"17-0", admin.ToBeginning(), "0-0", 7, 0},
		"before the first entry":        {"17-0", admin.ToID("3-0"), "3-0", 7, 0},
		"to the end":                    {"17-0", admin.ToEnd(), "20-0", 0, 3},
		"to the end from the end":       {"20-0", admin.ToEnd(), "20-0", 0, 0},
		"back to a time":                {"17-0", at(15), "14-9223372036854775807", 3, 0},
		"forward to a time":             {"17-0", at(20), "19-9223372036854775807", 0, 2},
		"to a time after the last":      {"17-0", at(21), "20-0", 0, 3},
		"to a time before 1970":         {"17-0", at(-5), "0-0", 7, 0},
		"forward from nothing stored":   {"", admin.ToID("12-0"), "12-0", 0, 2},
		"to the beginning from nothing": {"", admin.ToBeginning(), "0-0", 0, 0},
		"back from beyond the stream":   {"99-0", admin.ToID("18-0"), "18-0", 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, admin.Options{})
			e.add(0, 11, 20)
			if row.stored != "" {
				e.store(row.stored + "|" + svc0)
			}
			before := e.server.Dump()
			preview, err := e.client.PreviewReset(t.Context(), 0, row.target)
			require.NoError(t, err)
			preview.Trimmed = false // the double does not count added entries
			want := admin.ResetPreview{Stream: "s:{claims}:0", From: row.stored, To: row.to, Redelivered: row.redelivered, Skipped: row.skipped}
			assert.Equal(t, want, preview)
			assert.Equal(t, before, e.server.Dump(), "a preview writes nothing")

			done, err := e.client.Reset(t.Context(), 0, row.target)
			require.NoError(t, err)
			done.Trimmed = false
			assert.Equal(t, want, done)
			assert.Equal(t, row.to+"|"+admin.Writer, e.stored())
		})
	}
}

func TestAResetIsStoredAsRedisEventsStoresIt(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{KeyPrefix: "dev:re:"})
	_, err := e.server.XAdd("dev:re:s:{claims}:3", "5-1", []string{"b", "{}"})
	require.NoError(t, err)
	e.server.HSet("dev:re:m:{claims}", "partitions", "4")
	_, err = e.client.Reset(t.Context(), 3, admin.ToEnd())
	require.NoError(t, err)
	fields, err := e.redis.HGetAll(t.Context(), "dev:re:"+positions).Result()
	require.NoError(t, err)
	assert.Len(t, fields, 2)
	const writer = "6f72616e-6765-4164-6d69-6e5265736574"
	assert.Equal(t, "5-1|"+writer, fields["3"])
	assert.Regexp(t, `^5-1\|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}\+00:00$`, fields["__reset:3"])
	assert.Equal(t, writer, e.server.HGet("dev:re:"+metadata, "3:instanceId"))
	assert.Equal(t, fields["__reset:3"], "5-1|"+e.server.HGet("dev:re:"+metadata, "3:updatedUtc"))

	list, err := e.client.Positions(t.Context())
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), list[3].WrittenAt, time.Minute)
	assert.Equal(t, &admin.PendingReset{To: "5-1", Issued: list[3].WrittenAt}, list[3].Pending)
}

func TestAResetRefusesInvalidTargets(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	e.server.HSet("m:{claims}", "partitions", "2")
	e.add(0, 1, 5)
	e.store("5-0|" + svc0)
	e.server.SetTime(time.UnixMilli(1_000_000))
	before := e.server.Dump()
	for text, row := range map[string]struct {
		partition int
		target    admin.ResetTarget
	}{
		"partition: 2 is not one of the topic's, 0 to 1":                                     {2, admin.ToBeginning()},
		"partition: -1 is negative":                                                          {-1, admin.ToBeginning()},
		"there is no stream s:{claims}:1, and no position is stored":                         {1, admin.ToBeginning()},
		"target: none is given: ToID, ToTime, ToBeginning or ToEnd":                          {0, admin.ResetTarget{}},
		"target: the time is zero":                                                           {0, admin.ToTime(time.Time{})},
		`target: 5 is not an id of the form <ms>-<seq>`:                                      {0, admin.ToID("5")},
		`target: "5-1\n" is not an id of the form <ms>-<seq>`:                                {0, admin.ToID("5-1\n")},
		"target:  is not an id of the form <ms>-<seq>":                                       {0, admin.ToID("")},
		"target: 5-1 is beyond the stream's last id, 5-0":                                    {0, admin.ToID("5-1")},
		"target: 18446744073709551615-0 is beyond the stream's last id":                      {0, admin.ToID("18446744073709551615-0")},
		"1970-01-01T00:16:40.001Z is still to come by the server's clock, 1970-01-01T00:16:": {0, admin.ToTime(time.UnixMilli(1_000_001))},
	} {
		_, err := e.client.PreviewReset(t.Context(), row.partition, row.target)
		require.ErrorContains(t, err, text)
		_, err = e.client.Reset(t.Context(), row.partition, row.target)
		require.ErrorContains(t, err, text)
	}
	_, err := e.client.CancelReset(t.Context(), 2)
	require.ErrorContains(t, err, "partition: 2 is not one of the topic's")
	assert.Equal(t, before, e.server.Dump())

	e.redis.AddHook(&scripts{after: func() { e.server.Del("s:{claims}:0") }}) // between snapshot and write
	_, err = e.client.Reset(t.Context(), 0, admin.ToID("4-0"))
	require.ErrorContains(t, err, "reset partition 0 of consumer payout on topic claims: target: 4-0 is beyond the stream's last id, 0-0")
	assert.Equal(t, "5-0|"+svc0, e.stored())
}

// With GapHold, a reset to the stored position ends the hold.
func TestAPositionAheadOfItsStreamCanBeReset(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{0, 3} { // the stream is gone, or ends before the position
		end := fmt.Sprintf("%d-0", entries)
		for target, to := range map[admin.ResetTarget]string{
			admin.ToBeginning(): "0-0", admin.ToTime(time.UnixMilli(-5)): "0-0", admin.ToEnd(): end, admin.ToID("500-0"): "500-0",
		} {
			e := newEnv(t, admin.Options{})
			e.add(0, 1, entries)
			e.store("500-0|" + svc0)
			preview, err := e.client.Reset(t.Context(), 0, target)
			require.NoError(t, err, target.String())
			assert.Equal(t, to, preview.To, target.String())
			assert.Equal(t, to+"|"+admin.Writer, e.stored())
		}
	}
}

func TestAPendingResetIsShownAndReplaced(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	e.add(0, 1, 9)
	e.server.HSet(positions, "0", "9-0|"+svc0, "__reset:0", "2-0|by hand")
	preview, err := e.client.Reset(t.Context(), 0, admin.ToID("4-0"))
	require.NoError(t, err)
	assert.Equal(t, &admin.PendingReset{To: "2-0"}, preview.Pending)
	assert.Equal(t, "2-0", preview.From, "where it would continue without this one")
	assert.EqualValues(t, 2, preview.Skipped)
	assert.Regexp(t, `^4-0\|`, e.server.HGet(positions, "__reset:0"))
}

func TestACancelledResetLeavesNoTrace(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{"", "9-0|" + svc0, "7-0", "no position | at all", "6-0|" + admin.Writer} {
		e := newEnv(t, admin.Options{})
		e.add(0, 1, 9)
		e.store(stored)
		cancelled, err := e.client.CancelReset(t.Context(), 0)
		require.NoError(t, err)
		assert.False(t, cancelled, "nothing is pending")

		before := e.server.Dump()
		for _, id := range []string{"2-0", "3-0", "2-0"} { // each replaces the one before
			_, err = e.client.Reset(t.Context(), 0, admin.ToID(id))
			require.NoError(t, err)
		}
		cancelled, err = e.client.CancelReset(t.Context(), 0)
		require.NoError(t, err)
		assert.True(t, cancelled)
		assert.Equal(t, before, e.server.Dump(), stored)
	}
}

// A consumer in .NET writes its position while a reset is pending.
func TestAPositionWrittenSinceTheResetOutlastsItsCancellation(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	e.add(0, 1, 9)
	reset := func(id string) {
		_, err := e.client.Reset(t.Context(), 0, admin.ToID(id))
		require.NoError(t, err)
	}
	cancel := func() {
		cancelled, err := e.client.CancelReset(t.Context(), 0)
		require.NoError(t, err)
		assert.True(t, cancelled)
	}
	e.store("5-0|" + svc0)
	reset("2-0")
	e.store("6-0|" + svc0)
	reset("1-0")
	cancel()
	assert.Equal(t, "6-0|"+svc0, e.stored(), "the position that the last reset replaced")

	reset("2-0")
	e.store("7-0|" + svc0)
	cancel()
	assert.Equal(t, "7-0|"+svc0, e.stored())
	fields, err := e.server.HKeys(positions)
	require.NoError(t, err)
	assert.Equal(t, []string{"0"}, fields)
}

func TestAForeignResetIsCancelledOnlyWhereThePositionIsKnown(t *testing.T) {
	t.Parallel()
	e := newEnv(t, admin.Options{})
	e.add(0, 1, 9)
	// By RedisEvents' own tool: the position before it is not known.
	e.server.HSet(positions, "0", "2-0|"+admin.Writer, "__reset:0", "2-0|"+updatedAt)
	e.server.HSet(metadata, "0:resetFrom", "2-0|of an earlier reset 9-0|"+svc0)
	before := e.server.Dump()
	_, err := e.client.CancelReset(t.Context(), 0)
	require.ErrorIs(t, err, admin.ErrForeignReset)
	assert.Equal(t, before, e.server.Dump())
	// By hand: the position is still stored.
	e.server.HSet(positions, "0", "9-0|"+svc0, "__reset:0", "2-0|")
	cancelled, err := e.client.CancelReset(t.Context(), 0)
	require.NoError(t, err)
	assert.True(t, cancelled)
	assert.Equal(t, "9-0|"+svc0, e.stored())
	assert.Empty(t, e.server.HGet(positions, "__reset:0"))
}

func TestATargetIsAWordAnIDOrATime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 9, 6, 13, 22, 33, 444_000_000, time.FixedZone("CEST", 7200))
	for want, target := range map[string]admin.ResetTarget{
		"none": {}, "17-3": admin.ToID("17-3"), "beginning": admin.ToBeginning(), "end": admin.ToEnd(),
		"2026-09-06T11:22:33.444Z": admin.ToTime(at),
	} {
		assert.Equal(t, want, target.String())
	}
}
