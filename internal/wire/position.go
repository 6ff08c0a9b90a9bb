package wire

import (
	"strconv"
	"strings"
	"time"
)

// TimeLayout is .NET's round-trip format of a UTC time, as RedisEvents writes times.
const TimeLayout = "2006-01-02T15:04:05.0000000-07:00"

// resetPrefix marks the field of the positions hash that asks a consumer to move.
const resetPrefix = "__reset:"

// FormatTime renders a time as RedisEvents does.
func FormatTime(t time.Time) string { return t.UTC().Format(TimeLayout) }

// FormatPosition renders a position: the id of the last entry that was processed, and who wrote it.
func FormatPosition(id ID, writer InstanceID) string {
	return id.String() + "|" + writer.String()
}

// ParsePosition reads the value of a position field. Only the id counts, the part before the first bar:
// whatever stands behind it is the writer's business.
func ParsePosition(value string) (ID, error) {
	id, _, _ := strings.Cut(value, "|")
	return ParseID(id)
}

// NoteField is the field of the positions' meta hash that holds what a consumer notes along with a partition's position.
// The .NET package has no such field and reads none of that hash.
func NoteField(partition int) string { return strconv.Itoa(partition) + ":read" }

// ParseNote reads the value of a note field: the position that the note is about, and the note.
func ParseNote(value string) (ID, string, error) {
	id, note, _ := strings.Cut(value, "|")
	at, err := ParseID(id)
	return at, note, err
}

// PositionField is the field that holds a partition's position.
func PositionField(partition int) string { return strconv.Itoa(partition) }

// ResetField is the field that asks the consumer of a partition to move to another position.
func ResetField(partition int) string { return resetPrefix + strconv.Itoa(partition) }

// FormatReset renders the value of a reset field: where to resume after, and when that was asked for.
func FormatReset(target ID, issued time.Time) string {
	return target.String() + "|" + FormatTime(issued)
}

// ParseReset reads the value of a reset field. A time that is missing or unreadable leaves the reset valid.
func ParseReset(value string) (target ID, err error) {
	return ParsePosition(value)
}
