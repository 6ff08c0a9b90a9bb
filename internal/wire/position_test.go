package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/wire"
)

func TestPositionsAndResetsAreParsedTolerantly(t *testing.T) {
	t.Parallel()
	writer := wire.DeriveInstanceID("svc-0")
	id := wire.ID{Ms: 1726000000000, Seq: 7}
	assert.Equal(t, "1726000000000-7|1b3a45ca-59c5-d080-8e1c-02429c2efc50", wire.FormatPosition(id, writer))
	for value, want := range map[string]wire.ID{
		"1726000000000-7|1b3a45ca-59c5-d080-8e1c-02429c2efc50": id,
		"5-1|junk":   {Ms: 5, Seq: 1},
		"5-1":        {Ms: 5, Seq: 1},
		"5-1|a|b":    {Ms: 5, Seq: 1},
		"00005-01|x": {Ms: 5, Seq: 1},
	} {
		got, err := wire.ParsePosition(value)
		require.NoError(t, err, value)
		assert.Equal(t, want, got, value)
	}
	for _, value := range []string{"", "5|x", "|x", "junk"} {
		_, err := wire.ParsePosition(value)
		require.Error(t, err, value)
	}
	issued := time.Date(2026, 9, 6, 11, 22, 33, 444e6, time.UTC)
	target := wire.ID{Ms: 1726000000000}.Before()
	assert.Equal(t, "1725999999999-9223372036854775807|2026-09-06T11:22:33.4440000+00:00", wire.FormatReset(target, issued))
	back, err := wire.ParseReset("1725999999999-9223372036854775807|someday")
	require.NoError(t, err)
	assert.Equal(t, target, back)
	assert.Equal(t, "__reset:3", wire.ResetField(3))
	assert.Equal(t, "3", wire.PositionField(3))
}

func TestTheWriterOfAPositionIsAUUIDOrUnknown(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"5-1|" + wire.AdminWriter:                  wire.AdminWriter,
		"5-1|1B3A45CA-59C5-D080-8E1C-02429C2EFC50": "1b3a45ca-59c5-d080-8e1c-02429c2efc50",
		"5-1":      "",
		"5-1|":     "",
		"5-1|junk": "",
		"5-1|1b3a45ca-59c5-d080-8e1c-02429c2efc50|": "",
		"5-1|1b3a45ca-59c5-d080-8e1c-02429c2efc5g":  "",
		"5-1|1b3a45ca059c5-d080-8e1c-02429c2efc50":  "",
		"5-1|1b3a45ca-59c5-d080-8e1c-02429c2efc5-":  "",
	} {
		assert.Equal(t, want, wire.ParseWriter(value), value)
	}
}

func TestTimesRoundTrip(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 9, 6, 11, 22, 33, 444_000_100, time.UTC)
	assert.Equal(t, at, wire.ParseTime(wire.FormatTime(at)))
	assert.Equal(t, at, wire.ParseTime(wire.FormatTime(at.In(time.FixedZone("CEST", 7200)))))
	assert.Equal(t, at, wire.ParseIssued(wire.FormatReset(wire.ID{Ms: 5}, at)))
	for _, text := range []string{"", "yesterday", "2026-09-06"} {
		assert.True(t, wire.ParseTime(text).IsZero(), text)
		assert.True(t, wire.ParseIssued("5-1|"+text).IsZero(), text)
	}
	assert.True(t, wire.ParseIssued("5-1").IsZero())
}

func TestFieldPartitionAcceptsOnlyFieldsOfThePositionsHash(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]int{"0": 0, "17": 17, "__reset:3": 3, "2147483647": 2147483647} {
		partition, is := wire.FieldPartition(field)
		assert.True(t, is, field)
		assert.Equal(t, want, partition)
	}
	for _, field := range []string{"", "03", "-1", "+1", "x", "1 ", "__reset:", "__reset:__reset:1", "2147483648", "99999999999999999999"} {
		_, is := wire.FieldPartition(field)
		assert.False(t, is, field)
	}
}
