package wire

// Field names of a stream entry.
const (
	FieldBody        = "b"
	FieldType        = "t"
	FieldKey         = "k"
	FieldCorrelation = "c"
	FieldTraceParent = "p"
	FieldHeaders     = "h"
)

// Entry is one stream entry. Its body is the producer's bytes, not decoded.
type Entry struct {
	ID            ID
	Name          string // the id as the server sent it; empty for an entry that was not read from one
	Body          string
	HasBody       bool // false when field b is missing: the entry is malformed
	Type          string
	Key           string // the producer's partition key
	CorrelationID string
	TraceParent   string
	Headers       Headers
}

// SetField sets the part of the entry that a field holds. Unknown names are ignored.
func SetField(e *Entry, name, value string) {
	switch name {
	case FieldBody:
		e.Body, e.HasBody = value, true
	case FieldType:
		e.Type = value
	case FieldKey:
		e.Key = value
	case FieldCorrelation:
		e.CorrelationID = value
	case FieldTraceParent:
		e.TraceParent = value
	case FieldHeaders:
		e.Headers = Headers(value)
	}
}

// Decode reads the fields of an entry. Every field is optional and unknown fields are ignored. Of a field that occurs
// twice the last one counts, as it is the one in a client's map.
func Decode(id ID, fields map[string]any) Entry {
	entry := Entry{ID: id}
	for _, name := range [...]string{FieldBody, FieldType, FieldKey, FieldCorrelation, FieldTraceParent, FieldHeaders} {
		if value, is := fields[name].(string); is {
			SetField(&entry, name, value)
		}
	}
	return entry
}

// Text returns the id as text: as the server sent it, where it did.
func (e Entry) Text() string {
	if e.Name == "" {
		return e.ID.String()
	}
	return e.Name
}

// Fields returns the entry as the alternating field names and values of an XADD, in the order of the .NET publisher:
// b, t and k always, the others only when they are not empty.
func (e Entry) Fields() []any {
	fields := make([]any, 0, 12)
	fields = append(fields, FieldBody, e.Body, FieldType, e.Type, FieldKey, e.Key)
	if e.CorrelationID != "" {
		fields = append(fields, FieldCorrelation, e.CorrelationID)
	}
	if e.TraceParent != "" {
		fields = append(fields, FieldTraceParent, e.TraceParent)
	}
	if e.Headers != "" {
		fields = append(fields, FieldHeaders, string(e.Headers))
	}
	return fields
}
