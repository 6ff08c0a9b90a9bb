package restatestart_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

func TestAResetIsPreviewedExactly(t *testing.T) {
	t.Parallel()
	at := func(ms int64) restatestart.ResetTarget { return restatestart.ToTime(time.UnixMilli(ms)) }
	for name, row := range map[string]struct {
		stored  string
		target  restatestart.ResetTarget
		to      string
		again   int64
		skipped int64
	}{
		"back to an entry":              {"17-0", restatestart.ToID("13-0"), "13-0", 4, 0},
		"back to between entries":       {"17-0", restatestart.ToID("13-7"), "13-7", 4, 0},
		"over one message":              {"17-0", restatestart.ToID("18-0"), "18-0", 0, 1},
		"to where it is":                {"17-0", restatestart.ToID("17-0"), "17-0", 0, 0},
		"back to the beginning":         {"17-0", restatestart.ToBeginning(), "0-0", 7, 0},
		"back to before all":            {"17-0", restatestart.ToID("3-0"), "3-0", 7, 0},
		"on to the end":                 {"17-0", restatestart.ToEnd(), "20-0", 0, 3},
		"to the end from there":         {"20-0", restatestart.ToEnd(), "20-0", 0, 0},
		"back to a time":                {"17-0", at(15), "14-9223372036854775807", 3, 0},
		"on to a time":                  {"17-0", at(20), "19-9223372036854775807", 0, 2},
		"to a time after the last":      {"17-0", at(21), "20-0", 0, 3},
		"to a time before 1970":         {"17-0", at(-5), "0-0", 7, 0},
		"on from nothing stored":        {"", restatestart.ToID("12-0"), "12-0", 0, 2},
		"to the beginning from nothing": {"", restatestart.ToBeginning(), "0-0", 0, 0},
		"back from beyond the stream":   {"99-0", restatestart.ToID("18-0"), "18-0", 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, _, positions := positionsOn(t)
			addEntries(t, server, 0, 11, 20)
			if row.stored != "" {
				server.HSet("p:{claims}:payout", "0", row.stored+"|"+svc0)
			}
			before := server.Dump()
			preview, err := positions.Preview(t.Context(), 0, row.target)
			require.NoError(t, err)
			preview.Trimmed = false // the double does not count what was added
			want := restatestart.ResetPreview{Stream: "s:{claims}:0", From: row.stored, To: row.to, Again: row.again, Skipped: row.skipped}
			assert.Equal(t, want, preview)
			assert.Equal(t, before, server.Dump(), "a preview writes nothing")

			done, err := positions.Reset(t.Context(), 0, row.target)
			require.NoError(t, err)
			done.Trimmed = false
			assert.Equal(t, want, done)
			assert.Equal(t, row.to+"|"+restatestart.PositionsAdmin, server.HGet("p:{claims}:payout", "0"))
		})
	}
}

// As the original's admin does: the position, the marker, and who wrote it and when.
func TestAResetIsWrittenAsTheOriginalReadsIt(t *testing.T) {
	t.Parallel()
	server, client, _ := positionsOn(t)
	_, err := server.XAdd("dev:re:s:{claims}:3", "5-1", []string{"b", "{}"})
	require.NoError(t, err)
	server.HSet("dev:re:m:{claims}", "partitions", "4")
	positions, err := restatestart.NewPositions(client, "claims", restatestart.PositionsOptions{Consumer: "payout", KeyPrefix: "dev:re:"})
	require.NoError(t, err)
	_, err = positions.Reset(t.Context(), 3, restatestart.ToEnd())
	require.NoError(t, err)
	fields, err := client.HGetAll(t.Context(), "dev:re:p:{claims}:payout").Result()
	require.NoError(t, err)
	assert.Len(t, fields, 2)
	assert.Equal(t, "5-1|6f72616e-6765-4164-6d69-6e5265736574", fields["3"])
	assert.Regexp(t, `^5-1\|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}\+00:00$`, fields["__reset:3"])
	assert.Equal(t, "6f72616e-6765-4164-6d69-6e5265736574", server.HGet("dev:re:p:{claims}:payout:meta", "3:instanceId"))
	assert.Equal(t, fields["__reset:3"], "5-1|"+server.HGet("dev:re:p:{claims}:payout:meta", "3:updatedUtc"))

	list, err := positions.List(t.Context())
	require.NoError(t, err)
	pending := list[3].Pending
	require.NotNil(t, pending)
	assert.Equal(t, "5-1", pending.To)
	assert.WithinDuration(t, time.Now(), pending.Issued, time.Minute)
	assert.Equal(t, list[3].WrittenAt, pending.Issued)
}

func TestAResetRefusesNonsense(t *testing.T) {
	t.Parallel()
	server, client, positions := positionsOn(t)
	server.HSet("m:{claims}", "partitions", "2")
	addEntries(t, server, 0, 1, 5)
	server.HSet("p:{claims}:payout", "0", "5-0|"+svc0)
	server.SetTime(time.UnixMilli(1_000_000))
	before := server.Dump()
	for text, row := range map[string]struct {
		partition int
		target    restatestart.ResetTarget
	}{
		"partition: 2 is not one of the topic's, 0 to 1":                                     {2, restatestart.ToBeginning()},
		"partition: -1 is negative":                                                          {-1, restatestart.ToBeginning()},
		"there is no stream s:{claims}:1, and no position is stored":                         {1, restatestart.ToBeginning()},
		"target: none is given: ToID, ToTime, ToBeginning or ToEnd":                          {0, restatestart.ResetTarget{}},
		"target: the time is zero":                                                           {0, restatestart.ToTime(time.Time{})},
		`target: 5 is not an id of the form <ms>-<seq>`:                                      {0, restatestart.ToID("5")},
		`target: "5-1\n" is not an id of the form <ms>-<seq>`:                                {0, restatestart.ToID("5-1\n")},
		"target:  is not an id of the form <ms>-<seq>":                                       {0, restatestart.ToID("")},
		"target: 5-1 is beyond the stream's last id, 5-0":                                    {0, restatestart.ToID("5-1")},
		"target: 18446744073709551615-0 is beyond the stream's last id":                      {0, restatestart.ToID("18446744073709551615-0")},
		"1970-01-01T00:16:40.001Z is still to come by the server's clock, 1970-01-01T00:16:": {0, restatestart.ToTime(time.UnixMilli(1_000_001))},
	} {
		_, err := positions.Preview(t.Context(), row.partition, row.target)
		require.ErrorContains(t, err, text)
		_, err = positions.Reset(t.Context(), row.partition, row.target)
		require.ErrorContains(t, err, text)
	}
	_, err := positions.Withdraw(t.Context(), 2)
	require.ErrorContains(t, err, "partition: 2 is not one of the topic's")
	assert.Equal(t, before, server.Dump())

	// The stream is recreated between the look and the write.
	client.AddHook(&scriptCounter{after: func() { server.Del("s:{claims}:0") }})
	_, err = positions.Reset(t.Context(), 0, restatestart.ToID("4-0"))
	require.ErrorContains(t, err, "reset partition 0 of consumer payout on topic claims: target: 4-0 is beyond the stream's last id, 0-0")
	assert.Equal(t, "5-0|"+svc0, server.HGet("p:{claims}:payout", "0"))
}

// A stream that is gone can be read from its beginning again once it is back.
func TestAPositionWithoutAStreamCanBeReset(t *testing.T) {
	t.Parallel()
	server, _, positions := positionsOn(t)
	server.HSet("p:{claims}:payout", "0", "99-0|"+svc0)
	for _, target := range []restatestart.ResetTarget{restatestart.ToBeginning(), restatestart.ToEnd(), restatestart.ToTime(time.UnixMilli(5))} {
		preview, err := positions.Reset(t.Context(), 0, target)
		require.NoError(t, err)
		assert.Equal(t, "0-0", preview.To, target.String())
	}
	assert.Equal(t, "0-0|"+restatestart.PositionsAdmin, server.HGet("p:{claims}:payout", "0"))
}

func TestAPendingResetIsShownAndReplaced(t *testing.T) {
	t.Parallel()
	server, _, positions := positionsOn(t)
	addEntries(t, server, 0, 1, 9)
	server.HSet("p:{claims}:payout", "0", "9-0|"+svc0, "__reset:0", "2-0|by hand")
	preview, err := positions.Reset(t.Context(), 0, restatestart.ToID("4-0"))
	require.NoError(t, err)
	assert.Equal(t, &restatestart.PendingReset{To: "2-0"}, preview.Pending)
	assert.Equal(t, "2-0", preview.From, "where it would go on without this one")
	assert.EqualValues(t, 2, preview.Skipped)
	assert.Regexp(t, `^4-0\|`, server.HGet("p:{claims}:payout", "__reset:0"))
}

func TestAWithdrawnResetLeavesEverythingAsItWas(t *testing.T) {
	t.Parallel()
	for _, stored := range []string{"", "9-0|" + svc0, "7-0", "no position | at all", "6-0|" + restatestart.PositionsAdmin} {
		server, _, positions := positionsOn(t)
		addEntries(t, server, 0, 1, 9)
		if stored != "" {
			server.HSet("p:{claims}:payout", "0", stored)
		}
		withdrawn, err := positions.Withdraw(t.Context(), 0)
		require.NoError(t, err)
		assert.False(t, withdrawn, "nothing is pending")

		before := server.Dump()
		for _, id := range []string{"2-0", "3-0", "2-0"} { // the later replace the earlier
			_, err = positions.Reset(t.Context(), 0, restatestart.ToID(id))
			require.NoError(t, err)
		}
		withdrawn, err = positions.Withdraw(t.Context(), 0)
		require.NoError(t, err)
		assert.True(t, withdrawn)
		assert.Equal(t, before, server.Dump(), stored)
	}
}

// A consumer in .NET writes its position although a reset is pending, and that is the truth then.
func TestAPositionWrittenSinceTheResetOutlastsItsWithdrawal(t *testing.T) {
	t.Parallel()
	server, _, positions := positionsOn(t)
	addEntries(t, server, 0, 1, 9)
	server.HSet("p:{claims}:payout", "0", "5-0|"+svc0)
	_, err := positions.Reset(t.Context(), 0, restatestart.ToID("2-0"))
	require.NoError(t, err)
	server.HSet("p:{claims}:payout", "0", "6-0|"+svc0)
	_, err = positions.Reset(t.Context(), 0, restatestart.ToID("1-0"))
	require.NoError(t, err)
	withdrawn, err := positions.Withdraw(t.Context(), 0)
	require.NoError(t, err)
	assert.True(t, withdrawn)
	assert.Equal(t, "6-0|"+svc0, server.HGet("p:{claims}:payout", "0"), "the one that the last reset replaced")

	_, err = positions.Reset(t.Context(), 0, restatestart.ToID("2-0"))
	require.NoError(t, err)
	server.HSet("p:{claims}:payout", "0", "7-0|"+svc0)
	withdrawn, err = positions.Withdraw(t.Context(), 0)
	require.NoError(t, err)
	assert.True(t, withdrawn)
	assert.Equal(t, "7-0|"+svc0, server.HGet("p:{claims}:payout", "0"))
	fields, err := server.HKeys("p:{claims}:payout")
	require.NoError(t, err)
	assert.Equal(t, []string{"0"}, fields)
}

func TestAResetOfAnotherToolIsWithdrawnOnlyWhereThatIsKnownToBeRight(t *testing.T) {
	t.Parallel()
	server, _, positions := positionsOn(t)
	addEntries(t, server, 0, 1, 9)
	// The original's admin: nobody knows where the position stood.
	server.HSet("p:{claims}:payout", "0", "2-0|"+restatestart.PositionsAdmin, "__reset:0", "2-0|"+written)
	server.HSet("p:{claims}:payout:meta", "0:resetFrom", "2-0|of an earlier reset 9-0|"+svc0)
	before := server.Dump()
	_, err := positions.Withdraw(t.Context(), 0)
	require.ErrorIs(t, err, restatestart.ErrForeignReset)
	assert.Equal(t, before, server.Dump())
	// By hand: the position is still there.
	server.HSet("p:{claims}:payout", "0", "9-0|"+svc0, "__reset:0", "2-0|")
	withdrawn, err := positions.Withdraw(t.Context(), 0)
	require.NoError(t, err)
	assert.True(t, withdrawn)
	assert.Equal(t, "9-0|"+svc0, server.HGet("p:{claims}:payout", "0"))
	assert.Empty(t, server.HGet("p:{claims}:payout", "__reset:0"))
}

func TestTargetsSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 9, 6, 13, 22, 33, 444_000_000, time.FixedZone("CEST", 7200))
	for want, target := range map[string]restatestart.ResetTarget{
		"none": {}, "17-3": restatestart.ToID("17-3"), "beginning": restatestart.ToBeginning(), "end": restatestart.ToEnd(),
		"2026-09-06T11:22:33.444Z": restatestart.ToTime(at),
	} {
		assert.Equal(t, want, target.String())
	}
}

// A consumer that starts goes where the reset says, whatever it was told to start from.
func TestAResetIsTakenAtTheStart(t *testing.T) {
	t.Parallel()
	server, client := redisWorld(t, &redis.Options{})
	addEntries(t, server, 0, 1, 5)
	positions, err := restatestart.NewPositions(client, "claims", restatestart.PositionsOptions{Consumer: "payout"})
	require.NoError(t, err)
	preview, err := positions.Reset(t.Context(), 0, restatestart.ToID("3-0"))
	require.NoError(t, err)
	assert.EqualValues(t, 3, preview.Skipped)
	seen := consume(t, client, 2, restatestart.ConsumerOptions{StartFrom: restatestart.FromBeginning()})
	assert.Equal(t, "4-0", seen[0].ID)
	list, err := positions.List(t.Context())
	require.NoError(t, err)
	assert.Nil(t, list[0].Pending)
	assert.Equal(t, "5-0", list[0].Position)
	assert.NotEqual(t, restatestart.PositionsAdmin, list[0].Writer)
}
