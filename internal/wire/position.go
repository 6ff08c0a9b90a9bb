package wire

import (
	"strconv"
	"strings"
	"time"
)

// resetPrefix begins the name of a field of the positions hash that requests a reset.
const resetPrefix = "__reset:"

// maxPartition is the greatest number that the .NET package can hold.
const maxPartition = 1<<31 - 1

// PositionField is the field of the positions hash that holds a partition's position.
func PositionField(partition int) string { return strconv.Itoa(partition) }

// ResetField is the field of the positions hash that requests a reset of a partition.
func ResetField(partition int) string { return resetPrefix + strconv.Itoa(partition) }

// FieldPartition returns the partition of a field of the positions hash, whether it holds the position or a reset.
func FieldPartition(field string) (int, bool) {
	number := strings.TrimPrefix(field, resetPrefix)
	value, err := strconv.ParseUint(number, 10, 64)
	if err != nil || value > maxPartition || PositionField(int(value)) != number {
		return 0, false
	}
	return int(value), true
}

// FormatPosition renders a position: the id of the last entry that was processed, and who wrote it.
func FormatPosition(id ID, writer InstanceID) string {
	return id.String() + "|" + writer.String()
}

// ParsePosition reads the id of a position, the part before the first bar. The rest may be anything.
func ParsePosition(value string) (ID, error) {
	id, _, _ := strings.Cut(value, "|")
	return ParseID(id)
}

// AdminWriter is the writer id of positions that come from a reset, in the .NET package and here. Consumers never take
// it for a rival.
const AdminWriter = "6f72616e-6765-4164-6d69-6e5265736574"

// ParseWriter reads the writer of a position, empty where there is none. Only the usual text form of a UUID counts, as in
// the .NET package.
func ParseWriter(value string) string {
	_, writer, _ := strings.Cut(value, "|")
	if len(writer) != len(AdminWriter) {
		return ""
	}
	for i := range len(writer) {
		if c := writer[i]; AdminWriter[i] == '-' && c != '-' || AdminWriter[i] != '-' && !isHex(c) {
			return ""
		}
	}
	return strings.ToLower(writer)
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }

// FormatReset renders the value of a reset field: where to resume after, and when that was requested.
func FormatReset(target ID, issued time.Time) string {
	return target.String() + "|" + FormatTime(issued)
}

// ParseReset reads the target of a reset. A time that is missing or unreadable leaves the reset valid.
func ParseReset(value string) (target ID, err error) {
	return ParsePosition(value)
}

// ParseIssued reads when a reset was requested, the zero time where its value does not say.
func ParseIssued(reset string) time.Time {
	_, issued, _ := strings.Cut(reset, "|")
	return ParseTime(issued)
}

// MetadataField is the field of the positions' meta hash that holds the metadata of a partition's position. The .NET
// package has no such field and reads nothing of that hash.
func MetadataField(partition int) string { return strconv.Itoa(partition) + ":read" }

// ParseMetadata reads the value of a metadata field: the position that it belongs to, and the metadata.
func ParseMetadata(value string) (at ID, metadata string, err error) {
	id, metadata, _ := strings.Cut(value, "|")
	at, err = ParseID(id)
	return at, metadata, err
}

// TimeLayout is .NET's round-trip format of a UTC time, in which RedisEvents writes times.
const TimeLayout = "2006-01-02T15:04:05.0000000-07:00"

// FormatTime renders a time as RedisEvents does.
func FormatTime(t time.Time) string { return t.UTC().Format(TimeLayout) }

// ParseTime reads a time as RedisEvents writes it; the zero time where it cannot be read.
func ParseTime(text string) time.Time {
	t, err := time.Parse(TimeLayout, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
