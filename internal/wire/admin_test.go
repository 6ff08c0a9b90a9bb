package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redisevents/restatestart/internal/wire"
)

func TestTheWriterOfAPositionIsAUUIDOrNobody(t *testing.T) {
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

func TestTimesAreReadAsTheyAreWritten(t *testing.T) {
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

func TestFieldsOfThePositionsHashTellTheirPartition(t *testing.T) {
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
