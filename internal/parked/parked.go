// Package parked stores the entries that a consumer has parked: each as it was in its stream, with its failure, until an
// operator replays or discards it. Nothing here is ever trimmed.
//
// An entry is stored once, however often it is parked. The position moves past an entry only after it was parked, and a
// crash between the two redelivers it: the store recognises it then, even if it was replayed or discarded meanwhile.
package parked

import (
	"context"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Store keeps the parked entries of one consumer on one topic. Its methods may be called concurrently, by several
// processes too.
type Store interface {
	// Park stores entries of one partition and returns, in their order, the ids they got here: zero for one that is not
	// new. An entry is not new when it is stored here already, by another call than this one (which its time identifies),
	// or was removed from here and since then neither has the stored position passed it nor a reset been applied. On an
	// error some of them may have been parked; parking them again, with the same time, does no harm.
	Park(ctx context.Context, partition int, parkings []Parking) (ids []wire.ID, err error)

	// List returns the entries after an id, in the order in which they were parked, at most limit of them.
	List(ctx context.Context, after wire.ID, limit int) ([]Entry, error)

	// Find returns one entry.
	Find(ctx context.Context, id wire.ID) (entry Entry, found bool, err error)

	// Remove removes an entry and returns it without its fields.
	Remove(ctx context.Context, id wire.ID) (entry Entry, found bool, err error)
}

// Failure is why an entry was parked.
type Failure struct {
	Reason   string
	Status   int
	Text     string
	Workflow string
	Key      string
	At       time.Time // when it was parked
}

// Parking is an entry to be parked. The store copies the entry from its stream; Entry, which has only the fields of the
// layout, is used where it was trimmed meanwhile.
type Parking struct {
	Entry   wire.Entry
	Failure Failure
}

// Fields are the entry's fields, for one that was trimmed.
func (p Parking) Fields() []Field {
	all := p.Entry.Fields()
	fields := make([]Field, 0, len(all)/2)
	for i := 0; i < len(all); i += 2 {
		name, _ := all[i].(string)
		value, _ := all[i+1].(string)
		if name != wire.FieldBody || p.Entry.HasBody {
			fields = append(fields, Field{name, value})
		}
	}
	return fields
}

// Field is one field of an entry. A name may occur more than once.
type Field struct {
	Name  string
	Value string
}

// Entry is a parked entry.
type Entry struct {
	ID      wire.ID // in the parked stream
	Foreign bool    // not written by this package: only ID and Fields are set

	Stream    string // where it came from
	Partition int
	EntryID   wire.ID
	Failure   Failure
	Complete  bool // false where it was trimmed before it was parked: Fields are those of the layout only
	Fields    []Field
}

// Original returns the entry as it was read from its stream.
func (e Entry) Original() wire.Entry {
	fields := make(map[string]any, len(e.Fields))
	for _, field := range e.Fields {
		fields[field.Name] = field.Value
	}
	return wire.Decode(e.EntryID, fields)
}
