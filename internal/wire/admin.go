package wire

import (
	"strings"
	"time"
)

// AdminWriter is who a reset writes positions as, in the .NET package and here. Consumers never take it for a rival.
const AdminWriter = "6f72616e-6765-4164-6d69-6e5265736574"

// ParseWriter is who wrote a position, empty where the value does not say. Only the usual text form of a UUID counts,
// as in the .NET package.
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

// ParseTime reads a time as RedisEvents writes it; the zero time where it cannot be read.
func ParseTime(text string) time.Time {
	t, err := time.Parse(TimeLayout, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// ParseIssued is when a reset was asked for, the zero time where its value does not say.
func ParseIssued(reset string) time.Time {
	_, issued, _ := strings.Cut(reset, "|")
	return ParseTime(issued)
}

// FieldPartition is the partition that a field of the positions hash is about, its position or its reset.
func FieldPartition(field string) (int, bool) {
	number := strings.TrimPrefix(field, resetPrefix)
	value, err := parseDigits(number)
	if err != nil || value > maxPartition || PositionField(int(value)) != number {
		return 0, false
	}
	return int(value), true
}

// maxPartition is the greatest number that the .NET package can hold.
const maxPartition = 1<<31 - 1
