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

// Entry is one stream entry, decoded as far as the layout goes: the body stays the producer's bytes.
type Entry struct {
	ID            ID
	Name          string // the id as the server wrote it; empty where nobody read it from one
	Body          string
	HasBody       bool // false when field b is missing, which makes the entry malformed
	Type          string
	Key           string // the producer's partition key
	CorrelationID string
	TraceParent   string
	Headers       Headers
}

// SetField sets what a field of that name stands for, and nothing for a name that is not known.
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

// Decode reads the fields of an entry. Every field is optional and unknown fields are ignored. Where Redis
// holds a field twice, a client that hands out a map keeps the last one: that one counts.
func Decode(id ID, fields map[string]any) Entry {
	entry := Entry{ID: id}
	for _, name := range [...]string{FieldBody, FieldType, FieldKey, FieldCorrelation, FieldTraceParent, FieldHeaders} {
		if value, is := fields[name].(string); is {
			SetField(&entry, name, value)
		}
	}
	return entry
}

// Text is the id as text.
func (e Entry) Text() string {
	if e.Name == "" {
		return e.ID.String()
	}
	return e.Name
}

// Fields renders the entry as the field and value pairs that a producer adds, in the order in which the .NET
// publisher writes them: b, t and k always, the others only when they hold something.
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
