// Package parked keeps the entries that a consumer has put aside: each as it stood in its stream, with what was wrong
// with it, until an operator has it replayed or discards it. Nothing here is ever trimmed.
//
// An entry stands here once, however often it is parked. The position moves past an entry only after it was parked, and
// a crash between the two hands it over again: the store knows it by then, even when it was replayed or discarded
// meanwhile.
package parked

import (
	"context"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Store keeps the parked entries of one consumer on one topic. Its methods may be called concurrently, by several
// processes too.
type Store interface {
	// Park puts entries of one partition aside and returns, in their order, the id that each has got here: zero for one that
	// is not new. It is not new when the entry stands here already, from another parking than this one, which its time
	// tells, and when it stood here and neither has the stored position passed it since nor a reset been applied. On an error some of
	// them may have been parked; parking them again, at the same time, does no harm.
	Park(ctx context.Context, partition int, parkings []Parking) (ids []wire.ID, err error)

	// List returns the entries behind an id, in the order in which they were parked, at most limit of them.
	List(ctx context.Context, after wire.ID, limit int) ([]Entry, error)

	// Find returns one entry. It tells when there is none of that id.
	Find(ctx context.Context, id wire.ID) (entry Entry, found bool, err error)

	// Remove takes an entry out, and tells when there is none of that id. What it returns is without the fields.
	Remove(ctx context.Context, id wire.ID) (entry Entry, found bool, err error)
}

// Failure is what is wrong with an entry.
type Failure struct {
	Reason   string
	Status   int
	Text     string
	Workflow string
	Key      string
	At       time.Time // of the parking
}

// Parking is an entry to be parked. What goes to the store is the entry as it stands in its stream; this one, which has
// only the fields that are known, stands in for it when it was trimmed meanwhile.
type Parking struct {
	Entry   wire.Entry
	Failure Failure
}

// Field is one field of an entry. An entry is a list: a name may stand in it twice.
type Field struct {
	Name  string
	Value string
}

// Entry is a parked entry.
type Entry struct {
	ID wire.ID // in the parked stream
	// Foreign tells that somebody else put it there: all else but ID and Fields is zero.
	Foreign bool

	Stream    string // where it came from
	Partition int
	EntryID   wire.ID
	Failure   Failure
	// Whole tells that Fields are all that the entry had. It is false where it was trimmed before it was parked, so that
	// only the fields that are known were left.
	Whole  bool
	Fields []Field
}

// Original is the entry as a read of its stream would bring it.
func (e Entry) Original() wire.Entry {
	fields := make(map[string]any, len(e.Fields))
	for _, field := range e.Fields {
		fields[field.Name] = field.Value
	}
	return wire.Decode(e.EntryID, fields)
}

// known are the fields of an entry that this package knows, for one that is not in its stream any more.
func known(entry wire.Entry) []Field {
	pairs := entry.Fields()
	fields := make([]Field, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		name, _ := pairs[i].(string)
		value, _ := pairs[i+1].(string)
		if name == wire.FieldBody && !entry.HasBody {
			continue
		}
		fields = append(fields, Field{name, value})
	}
	return fields
}
