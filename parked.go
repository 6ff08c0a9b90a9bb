package restatestart

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/wire"
)

// DefaultParkedLimit is how many parked entries a page holds at most when it does not say.
const DefaultParkedLimit = 100

// ParkedEntry is an entry that a Consumer has put aside, with MalformedPark or RejectedPark. As JSON it is without the
// entry's fields: a body is nothing for a log.
type ParkedEntry struct {
	// ID is the entry's id in the parked stream, `<ms>-<seq>`. Replay and Discard take it.
	ID string `json:"id"`
	// Stream, Partition and EntryID tell where the entry came from.
	Stream    string `json:"stream"`
	Partition int    `json:"partition"`
	EntryID   string `json:"entryId"`
	// Reason is why it was parked: ReasonMalformed, or the reason of its failed start.
	Reason Reason `json:"reason"`
	// Status is the HTTP status of the last answer, 0 when there was none.
	Status int `json:"status,omitempty"`
	// Text is the error in one line of at most 512 bytes, without input and credentials.
	Text string `json:"text,omitempty"`
	// Workflow and Key are what Map chose. They are empty when it chose nothing.
	Workflow string `json:"workflow,omitempty"`
	Key      string `json:"key,omitempty"`
	// ParkedAt is when it was parked, by the clock of the service that did.
	ParkedAt time.Time `json:"parkedAt"`
	// Trimmed tells that the entry was not in its stream any more when it was parked. What is kept then is what was in
	// memory: the fields of the wire layout, without any others.
	Trimmed bool `json:"trimmed,omitempty"`
	// Foreign tells that somebody else put the entry into the parked stream. All but ID and Fields is empty then; it can be
	// discarded, and not replayed.
	Foreign bool `json:"foreign,omitempty"`
	// Fields are the entry's own fields, in order, as the producer wrote them.
	Fields []EntryField `json:"-"`
}

// EntryField is one field of an entry. A name may occur more than once; the last one counts.
type EntryField struct {
	Name  string
	Value string
}

// Body is the body of the entry, field `b`. It tells when there is none.
func (p ParkedEntry) Body() (body []byte, found bool) {
	for _, field := range p.Fields {
		if field.Name == wire.FieldBody {
			body, found = []byte(field.Value), true
		}
	}
	return body, found
}

// String is the entry in one line, without its fields, such as
//
//	1726000123456-0: entry 1726000000000-7 of s:{bets}:3: start BonusPayout/c-17: rejected: 400: input validation error
func (p ParkedEntry) String() string {
	if p.Foreign {
		return p.ID + ": not parked by this package"
	}
	var line strings.Builder
	fmt.Fprintf(&line, "%s: entry %s of %s: ", p.ID, p.EntryID, printable(p.Stream))
	if p.Workflow != "" || p.Key != "" {
		fmt.Fprintf(&line, "start %s/%s: ", printable(p.Workflow), printable(p.Key))
	}
	line.WriteString(p.Reason.String())
	if p.Text != "" {
		line.WriteString(": " + p.Text)
	}
	return line.String()
}

func newParkedEntry(from parked.Entry) ParkedEntry {
	entry := ParkedEntry{ID: from.ID.String(), Foreign: from.Foreign, Fields: make([]EntryField, len(from.Fields))}
	for i, field := range from.Fields {
		entry.Fields[i] = EntryField(field)
	}
	if from.Foreign {
		return entry
	}
	// A reason that this version does not know, of a newer one, stays unknown.
	_ = entry.Reason.UnmarshalText([]byte(from.Failure.Reason))
	entry.Stream, entry.Partition, entry.EntryID = from.Stream, from.Partition, from.EntryID.String()
	entry.Status, entry.Text = from.Failure.Status, from.Failure.Text
	entry.Workflow, entry.Key = from.Failure.Workflow, from.Failure.Key
	entry.ParkedAt, entry.Trimmed = from.Failure.At, !from.Whole
	return entry
}

// ParkedPage says which parked entries to list.
type ParkedPage struct {
	// After is the ID behind which the page begins: that of the last entry of the page before. Defaults to none, which is
	// the beginning.
	After string
	// Limit is how many entries the page holds at most. Defaults to 100. A negative one is an error.
	Limit int
}

// Parked lists the entries that this consumer has put aside, on all partitions and by all instances, oldest first. A page
// that is not full is the last one. It asks Redis once, for the bodies too, needs no Run and may be called at any time.
func (c *Consumer[T]) Parked(ctx context.Context, page ParkedPage) ([]ParkedEntry, error) {
	var after wire.ID
	if page.After != "" {
		var err error
		if after, err = wire.ParseID(page.After); err != nil {
			return nil, fmt.Errorf("restatestart: ParkedPage.After: %w", err)
		}
	}
	if err := orDefault("Limit", &page.Limit, DefaultParkedLimit); err != nil {
		return nil, fmt.Errorf("restatestart: ParkedPage.%w", err)
	}
	entries, err := c.backend.parked.List(ctx, after, page.Limit)
	if err != nil {
		return nil, fmt.Errorf("restatestart: list parked entries: %w", err)
	}
	list := make([]ParkedEntry, len(entries))
	for i, entry := range entries {
		list[i] = newParkedEntry(entry)
	}
	return list, nil
}

// ErrNotParked is why an id cannot be replayed or discarded that no parked entry has: it was replayed or discarded by
// now, by somebody else or by a call whose answer was lost, or it is misspelt.
var ErrNotParked = errors.New("no parked entry has this id")

// ErrForeign is why an entry of the parked stream cannot be replayed that this package has not put there.
var ErrForeign = errors.New("not parked by this package")

// ParkedError tells which of the parked entries that a Replay or a Discard was given are there still, and why. All the
// others are done. Errors.As finds the *BlockedError of a start that was not accepted.
type ParkedError struct {
	// Failed are those entries, in the order in which they were given. There is at least one.
	Failed []FailedParked

	done string // what could not be done with them
	of   int    // how many there were
}

// FailedParked is one parked entry that could not be replayed or discarded.
type FailedParked struct {
	// ID is its id in the parked stream.
	ID string
	// Err is the cause: ErrNotParked, ErrForeign, an error wrapping ErrMalformed, the handler's error, which is a
	// *BlockedError when that is a Starter, an error of Redis, or that of the context.
	Err error
}

// Error is one line that names at most five entries.
func (e *ParkedError) Error() string {
	var line strings.Builder
	fmt.Fprintf(&line, "%d of %d parked entries not %s", len(e.Failed), e.of, e.done)
	for i, failed := range e.Failed {
		if i == maxNamed {
			fmt.Fprintf(&line, "; and %d more", len(e.Failed)-maxNamed)
			break
		}
		line.WriteString("; " + failed.ID + ": " + errorLine(failed.Err))
	}
	return line.String()
}

// Unwrap reaches the cause of each.
func (e *ParkedError) Unwrap() []error {
	causes := make([]error, len(e.Failed))
	for i, failed := range e.Failed {
		causes[i] = failed.Err
	}
	return causes
}
