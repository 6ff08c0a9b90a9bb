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
	Body          string
	HasBody       bool // false when field b is missing, which makes the entry malformed
	Type          string
	Key           string // the producer's partition key
	CorrelationID string
	TraceParent   string
	Headers       Headers
}

// Decode reads the fields of an entry. Every field is optional and unknown fields are ignored. Where Redis
// holds a field twice, a client that hands out a map keeps the last one: that one counts.
func Decode(id ID, fields map[string]any) Entry {
	entry := Entry{
		ID:            id,
		Type:          text(fields, FieldType),
		Key:           text(fields, FieldKey),
		CorrelationID: text(fields, FieldCorrelation),
		TraceParent:   text(fields, FieldTraceParent),
		Headers:       Headers(text(fields, FieldHeaders)),
	}
	entry.Body, entry.HasBody = fields[FieldBody].(string)
	return entry
}

func text(fields map[string]any, name string) string {
	value, _ := fields[name].(string)
	return value
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
