package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/defaults"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/text"
	"github.com/redisevents/restatestart/internal/wire"
)

// DefaultParkedLimit is the default of ParkedPage.Limit.
const DefaultParkedLimit = 100

// ParkedEntry is an entry that a Consumer has parked, with MalformedPark or RejectedPark. As JSON it is without the
// entry's fields: a body does not belong in a log.
type ParkedEntry struct {
	// ID is the entry's id in the parked stream, `<ms>-<seq>`. Replay and Discard take it.
	ID string `json:"id"`
	// Stream, Partition and EntryID say where the entry came from.
	Stream    string `json:"stream"`
	Partition int    `json:"partition"`
	EntryID   string `json:"entryId"`
	// Reason is why it was parked: ReasonMalformed, or the reason of its failed start.
	Reason restatestart.Reason `json:"reason"`
	// Status is the HTTP status of the last answer, 0 when there was none.
	Status int `json:"status,omitempty"`
	// Text is the error in one line of at most 512 bytes, without input and credentials.
	Text string `json:"text,omitempty"`
	// Workflow and Key are what Map chose. They are empty when it chose nothing.
	Workflow string `json:"workflow,omitempty"`
	Key      string `json:"key,omitempty"`
	// ParkedAt is when it was parked, by the clock of the service that did.
	ParkedAt time.Time `json:"parkedAt"`
	// Trimmed says that the entry was no longer in its stream when it was parked. Only the fields of the RedisEvents layout
	// are kept then.
	Trimmed bool `json:"trimmed,omitempty"`
	// Foreign says that this library did not put the entry into the parked stream. Everything but ID and Fields is empty
	// then. It can be discarded, but not replayed.
	Foreign bool `json:"foreign,omitempty"`
	// Fields are the entry's own fields, in order, as the producer wrote them.
	Fields []Field `json:"-"`
}

// Field is one field of an entry. A name may occur more than once; the last one counts.
type Field struct {
	Name  string
	Value string
}

// Body is the body of the entry, field `b`, and whether there is one.
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
	fmt.Fprintf(&line, "%s: entry %s of %s: ", p.ID, p.EntryID, text.QuoteName(p.Stream))
	if p.Workflow != "" || p.Key != "" {
		fmt.Fprintf(&line, "start %s/%s: ", text.QuoteName(p.Workflow), text.QuoteName(p.Key))
	}
	line.WriteString(p.Reason.String())
	if p.Text != "" {
		line.WriteString(": " + p.Text)
	}
	return line.String()
}

func newParkedEntry(from parked.Entry) ParkedEntry {
	entry := ParkedEntry{ID: from.ID.String(), Foreign: from.Foreign, Fields: make([]Field, len(from.Fields))}
	for i, field := range from.Fields {
		entry.Fields[i] = Field(field)
	}
	if from.Foreign {
		return entry
	}
	// A reason of a newer version is unknown.
	_ = entry.Reason.UnmarshalText([]byte(from.Failure.Reason))
	entry.Stream, entry.Partition, entry.EntryID = from.Stream, from.Partition, from.EntryID.String()
	entry.Status, entry.Text = from.Failure.Status, from.Failure.Text
	entry.Workflow, entry.Key = from.Failure.Workflow, from.Failure.Key
	entry.ParkedAt, entry.Trimmed = from.Failure.At, !from.Complete
	return entry
}

// ParkedPage says which parked entries to list.
type ParkedPage struct {
	// After is the ID behind which the page begins: that of the last entry of the previous page. Defaults to the beginning.
	After string
	// Limit is the most entries of the page. Defaults to 100. A negative one is an error.
	Limit int
}

// Parked lists the entries that the consumer has parked, on all partitions and by all instances, oldest first. A page
// that is not full is the last one. It asks Redis once, for the bodies too. Consumer.Replay, in package redisstream,
// delivers parked entries again.
func (c *Client) Parked(ctx context.Context, page ParkedPage) ([]ParkedEntry, error) {
	var after wire.ID
	if page.After != "" {
		var err error
		if after, err = wire.ParseID(page.After); err != nil {
			return nil, fmt.Errorf("admin: ParkedPage.After: %w", err)
		}
	}
	if err := defaults.Set("Limit", &page.Limit, DefaultParkedLimit); err != nil {
		return nil, fmt.Errorf("admin: ParkedPage.%w", err)
	}
	entries, err := c.parked.List(ctx, after, page.Limit)
	if err != nil {
		return nil, c.wrap("list parked entries", err)
	}
	list := make([]ParkedEntry, len(entries))
	for i, entry := range entries {
		list[i] = newParkedEntry(entry)
	}
	return list, nil
}

// Discard removes parked entries permanently: their bodies are lost where their streams are trimmed, and their starts are
// never made. The position need not have passed them; they are not parked again when it reaches them. It returns nil when
// all are done, a *ParkedError that names the others, or an error about an id that is not valid, and then nothing was done.
//
// An error from Redis ends it: the entries behind it are not tried. So does the cancellation of ctx.
func (c *Client) Discard(ctx context.Context, ids ...string) error {
	failed, err := parked.Each(ctx, ids, c.discard)
	switch {
	case err != nil:
		return fmt.Errorf("admin: %w", err)
	case len(failed) == 0:
		return nil
	}
	left := &ParkedError{Action: "discarded", Total: len(ids)}
	for _, entry := range failed {
		left.Failed = append(left.Failed, FailedParked{ID: entry.ID.String(), Err: entry.Err})
	}
	return left
}

func (c *Client) discard(ctx context.Context, id wire.ID) error {
	entry, found, err := c.parked.Remove(ctx, id)
	switch {
	case err != nil:
		return parked.StoreError{Err: err}
	case !found:
		return ErrNotParked
	}
	c.recorder.Record(ctx, parked.EventDiscarded, entry)
	return nil
}

// ErrNotParked is why an entry cannot be replayed or discarded: no parked entry has this id. It was replayed or discarded
// already, by somebody else or by a call whose answer was lost, or it is misspelt.
var ErrNotParked = errors.New("no parked entry has this id")

// ErrForeign is why an entry of the parked stream cannot be replayed: this library did not put it there.
var ErrForeign = errors.New("not parked by this library")

// ParkedError names the parked entries that a Replay or a Discard failed for. They are still parked; all others are done.
// Errors.As finds the *restatestart.BlockedError of a start that was not accepted.
type ParkedError struct {
	// Failed are those entries, in the order in which they were given. There is at least one.
	Failed []FailedParked
	// Action is what could not be done with them: replayed or discarded.
	Action string
	// Total is how many ids were given.
	Total int
}

// FailedParked is one parked entry that could not be replayed or discarded.
type FailedParked struct {
	// ID is its id in the parked stream.
	ID string
	// Err is the cause: ErrNotParked, ErrForeign, redisstream.ErrMalformed, the handler's error (a
	// *restatestart.BlockedError when that is a Starter), an error from Redis, or that of the context.
	Err error
}

// Error is one line that names at most five entries.
func (e *ParkedError) Error() string {
	var line strings.Builder
	fmt.Fprintf(&line, "%d of %d parked entries not %s", len(e.Failed), e.Total, e.Action)
	const most = 5
	for i, failed := range e.Failed {
		if i == most {
			fmt.Fprintf(&line, "; and %d more", len(e.Failed)-most)
			break
		}
		line.WriteString("; " + failed.ID + ": " + text.ErrorLine(failed.Err))
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
