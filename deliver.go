package restatestart

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// Causes of a hold, as Status and the log name them, beside those of the loop itself.
const (
	causeStarts    = "starts"
	causeMalformed = "malformed"
	causeHandler   = "handler"
	causeVanished  = "vanished" // of a loss only: see Gap
)

// blockedDetail is what a hold is about, for Status.
type blockedDetail struct {
	failed    []FailedStart
	malformed []string
	told      stream.Seldom // that parking fails
	parkAt    time.Time     // of the parking that failed: what of it was done is known by that
}

// log are the attributes that tell what a hold is about: the first start that was not accepted, or the first entry
// that cannot be decoded. Status has them all.
func (d blockedDetail) log() []slog.Attr {
	switch {
	case len(d.failed) > 0:
		first := d.failed[0]
		return []slog.Attr{
			slog.String("entry", first.EntryID), slog.String("workflow", printable(first.Workflow)), slog.String("key", printable(first.Key)),
			slog.String("reason", first.Reason.String()), slog.Int("status", first.Status), slog.Int("failed", len(d.failed)),
		}
	case len(d.malformed) > 0:
		return []slog.Attr{slog.String("entry", d.malformed[0]), slog.Int("failed", len(d.malformed))}
	default:
		return nil
	}
}

// deliver decodes entries, hands them to the handler, and says what that means for the position. It keeps nothing
// from one call to the next: what is handed over again is decoded again.
func (c *Consumer[T]) deliver(ctx context.Context, batch stream.Batch) stream.Verdict {
	partition, entries := batch.Partition, batch.Entries
	before, _ := batch.Before.(blockedDetail)
	messages, decoded, malformed := c.decodeAll(ctx, partition, entries)
	verdict := stream.Verdict{}
	var parking error
	parkAt := before.parkAt
	if parkAt.IsZero() {
		parkAt = time.Now()
	}
	switch {
	case c.options.OnMalformed == MalformedSkip:
		verdict.Skipped = len(malformed.entries)
		malformed = malformedEntries{}
	case c.options.OnMalformed == MalformedPark && len(malformed.entries) > 0 && !batch.Stopping():
		if parking = c.parkMalformed(ctx, partition, malformed, parkAt); parking == nil {
			verdict.Parked = len(malformed.entries)
			malformed = malformedEntries{}
		}
	}
	var err error
	if len(messages) > 0 {
		err = c.process(ctx, batch, messages)
	}
	blocked, alone := blockedIn(err)
	// A Starter's list is about what it was handed. That is the batch only when there is nothing else to the handler.
	failed, exact := decoded, false
	if blocked != nil && alone && (blocked.messages == 0 || c.starts) {
		failed, exact = named(decoded, blocked)
	}
	if exact && c.options.OnRejected == RejectedPark && !blocked.ShuttingDown && !batch.Stopping() {
		left, rest, refusal := c.parkRefused(ctx, partition, failed, blocked, before.failed, parkAt)
		if len(left) < len(failed) {
			verdict.Parked += len(failed) - len(left)
			if failed, blocked, err = left, rest, nil; rest != nil {
				err = rest
			}
		}
		parking = errors.Join(parking, refusal)
	}
	if err == nil && len(malformed.entries) == 0 {
		return verdict // Advance
	}

	detail := blockedDetail{malformed: malformed.ids, told: before.told}
	switch {
	case err == nil:
		verdict.Action, verdict.Cause = stream.Hold, causeMalformed
		verdict.Remaining = malformed.entries
	case blocked != nil:
		verdict.Action, verdict.Cause, verdict.RetryAfter = stream.Hold, causeStarts, blocked.RetryAfter()
		verdict.Remaining = inOrder(entries, failed, malformed.entries)
		detail.failed = blocked.Failed
	default:
		verdict.Action, verdict.Cause = onError(c.options.OnError), causeHandler
		verdict.Remaining = inOrder(entries, decoded, malformed.entries)
		if verdict.Action == stream.Skip && len(malformed.entries) > 0 {
			verdict.Action = stream.Hold // with the malformed ones, which the batch cannot leave behind
		}
	}
	if parking != nil {
		detail.parkAt = parkAt
		c.tellParkingFailed(ctx, partition, &detail.told, parking)
	}
	verdict.Err, verdict.Detail, verdict.Log = errors.Join(err, malformed.err(), parking), detail, detail.log()
	return verdict
}

// process hands messages to the handler, under a span and a stopwatch.
func (c *Consumer[T]) process(ctx context.Context, batch stream.Batch, messages []Message[T]) (err error) {
	ctx, span := c.beginProcess(ctx, batch, messages)
	began := time.Now()
	defer func() {
		c.metrics.handled(ctx, len(messages), time.Since(began))
		span.end(ctx, batch.Try, err)
	}()
	return c.handle(ctx, messages)
}

// blockedIn finds the BlockedError in an error, and tells whether it is all there is to it: beside others, as
// errors.Join puts them, it does not speak for the batch.
func blockedIn(err error) (blocked *BlockedError, alone bool) {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if found, is := inner.(*BlockedError); is { //nolint:errorlint // one step at a time
			return found, true
		}
	}
	blocked, _ = errors.AsType[*BlockedError](err)
	return blocked, false
}

func onError(policy ErrorPolicy) stream.Action {
	switch policy {
	case ErrorSkip:
		return stream.Skip
	case ErrorStop:
		return stream.Stop
	case ErrorFail:
		return stream.Fail
	default:
		return stream.Hold
	}
}

// decodeAll tells the entries that can be read from those that cannot.
func (c *Consumer[T]) decodeAll(ctx context.Context, partition int, entries []wire.Entry) (messages []Message[T], decoded []wire.Entry, malformed malformedEntries) {
	key := c.keys.Stream(partition)
	messages = make([]Message[T], len(entries))
	read := 0
	decoded = entries
	size := 0
	for i := range entries {
		size += len(entries[i].Body)
	}
	bodies := make([]byte, 0, size) // one for all: a body each is what most messages would allocate
	for i := range entries {
		entry := &entries[i]
		start := len(bodies)
		bodies = append(bodies, entry.Body...)
		err := messages[read].read(key, partition, entry, bodies[start:len(bodies):len(bodies)], c.decode)
		if err == nil {
			read++
			if len(malformed.entries) > 0 {
				decoded = append(decoded, *entry)
			}
			continue
		}
		if len(malformed.entries) == 0 {
			decoded = append(make([]wire.Entry, 0, len(entries)), entries[:i]...)
		}
		messages[read] = Message[T]{}
		malformed.add(*entry, err)
		if c.options.OnMalformed == MalformedSkip {
			c.log.ErrorContext(ctx, "malformed entry skipped", slog.Int("partition", partition), slog.String("entry", entry.Text()), slog.Any("error", err))
		}
	}
	return messages[:read], decoded, malformed
}

// errNilBlocked is what a nil *BlockedError in an error is taken for: somebody meant something by it.
var errNilBlocked = errors.New("the handler returned a nil *BlockedError as an error")

// handle calls the handler and makes an error of a panic.
func (c *Consumer[T]) handle(ctx context.Context, messages []Message[T]) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = newPanicError(reason)
		}
	}()
	err = c.handler.Handle(ctx, messages)
	switch blocked, _ := blockedIn(err); {
	case blocked != nil:
		return err // it holds, whatever its text is worth
	case errors.As(err, new(*BlockedError)):
		return &BlockedError{Failed: []FailedStart{{Err: errNilBlocked}}}
	default:
		return solid(err)
	}
}

// named are the entries that a BlockedError names. One that it names and that was not handed over, or none at
// all, says that its list is not to be relied on: all of them then, and not exactly those.
func named(entries []wire.Entry, blocked *BlockedError) (found []wire.Entry, exact bool) {
	failed := make(map[string]bool, len(blocked.Failed))
	for _, start := range blocked.Failed {
		failed[start.EntryID] = true
	}
	found = make([]wire.Entry, 0, len(failed))
	for _, entry := range entries {
		if failed[entry.ID.String()] {
			found = append(found, entry)
		}
	}
	if len(found) == 0 || len(found) < len(failed) {
		return entries, false
	}
	return found, true
}

// inOrder puts the two parts of a batch together again, in stream order.
func inOrder(batch, one, other []wire.Entry) []wire.Entry {
	if len(other) == 0 {
		return one
	}
	wanted := make(map[wire.ID]bool, len(one)+len(other))
	for _, part := range [...][]wire.Entry{one, other} {
		for _, entry := range part {
			wanted[entry.ID] = true
		}
	}
	together := make([]wire.Entry, 0, len(wanted))
	for _, entry := range batch {
		if wanted[entry.ID] {
			together = append(together, entry)
		}
	}
	return together
}

// malformedEntries are the entries of a batch that could not be decoded.
type malformedEntries struct {
	entries []wire.Entry
	ids     []string
	causes  []error
}

func (m *malformedEntries) add(entry wire.Entry, cause error) {
	m.entries = append(m.entries, entry)
	m.ids = append(m.ids, entry.ID.String())
	m.causes = append(m.causes, cause)
}

// err is one line that names at most five entries, and leads to each cause.
func (m *malformedEntries) err() error {
	if len(m.entries) == 0 {
		return nil
	}
	return &malformedError{*m}
}

type malformedError struct{ malformedEntries }

func (e *malformedError) Error() string {
	var line strings.Builder
	if len(e.ids) == 1 {
		line.WriteString("1 malformed entry")
	} else {
		fmt.Fprintf(&line, "%d malformed entries", len(e.ids))
	}
	for i, id := range e.ids {
		if i == maxNamed {
			fmt.Fprintf(&line, "; and %d more", len(e.ids)-maxNamed)
			break
		}
		fmt.Fprintf(&line, "; %s: %s", id, errorLine(e.causes[i]))
	}
	return line.String()
}

func (e *malformedError) Unwrap() []error { return e.causes }
