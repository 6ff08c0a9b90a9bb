package redisstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/text"
	"github.com/redisevents/restatestart/internal/wire"
)

// Causes of a hold, as Status and the log name them, besides those of the loop itself.
const (
	causeStarts    = "starts"
	causeMalformed = "malformed"
	causeHandler   = "handler"
	causeVanished  = "vanished" // of lost messages only: see Gap
)

// holdDetail is what a hold is about: what Status shows of it, and what the next delivery of the batch has to know.
type holdDetail struct {
	failed        []restatestart.FailedStart
	malformed     []string
	parkingLogged telemetry.LogLimiter // that parking fails
	parkAt        time.Time            // of the parking that failed, by which the store recognises what it had done of it
}

// log are the attributes of a log line about the hold: the first start that was not accepted, or the first malformed
// entry. Status has them all.
func (d holdDetail) log() []slog.Attr {
	switch {
	case len(d.failed) > 0:
		first := d.failed[0]
		return []slog.Attr{
			slog.String("entry", first.EntryID), slog.String("workflow", text.QuoteName(first.Workflow)), slog.String("key", text.QuoteName(first.Key)),
			slog.String("reason", first.Reason.String()), slog.Int("status", first.Status), slog.Int("failed", len(d.failed)),
		}
	case len(d.malformed) > 0:
		return []slog.Attr{slog.String("entry", d.malformed[0]), slog.Int("failed", len(d.malformed))}
	default:
		return nil
	}
}

// deliver decodes entries, calls the handler, parks what the options say, and decides what that means for the position.
func (c *Consumer[T]) deliver(ctx context.Context, batch stream.Batch) stream.Verdict {
	partition, entries := batch.Partition, batch.Entries
	previous, _ := batch.Previous.(holdDetail)
	messages, decoded, malformed := c.decodeAll(ctx, partition, entries)
	verdict := stream.Verdict{}
	var parkingErr error
	parkAt := previous.parkAt
	if parkAt.IsZero() {
		parkAt = time.Now()
	}
	switch {
	case c.options.OnMalformed == MalformedSkip:
		verdict.Skipped = len(malformed.entries)
		malformed = malformedEntries{}
	case c.options.OnMalformed == MalformedPark && len(malformed.entries) > 0 && !batch.Stopping():
		if parkingErr = c.parkMalformed(ctx, partition, malformed, parkAt); parkingErr == nil {
			verdict.Parked = len(malformed.entries)
			malformed = malformedEntries{}
		}
	}
	var err error
	if len(messages) > 0 {
		err = c.process(ctx, batch, messages)
	}
	blocked, alone := blockedIn(err)
	// The list of a Starter is about the messages that it was given. These are the batch only when the handler is nothing
	// but a Starter.
	failed, exact := decoded, false
	if blocked != nil && alone && (blocked.Messages == 0 || c.isStarter) {
		failed, exact = failedEntries(decoded, blocked)
	}
	if exact && c.options.OnRejected == RejectedPark && !blocked.ShuttingDown && !batch.Stopping() {
		left, rest, refusal := c.parkRejected(ctx, partition, failed, blocked, previous.failed, parkAt)
		if len(left) < len(failed) {
			verdict.Parked += len(failed) - len(left)
			if failed, blocked, err = left, rest, nil; rest != nil {
				err = rest
			}
		}
		parkingErr = errors.Join(parkingErr, refusal)
	}
	if err == nil && len(malformed.entries) == 0 {
		return verdict
	}

	detail := holdDetail{malformed: malformed.ids, parkingLogged: previous.parkingLogged}
	switch {
	case err == nil:
		verdict.Policy, verdict.Cause = ErrorHold, causeMalformed
		verdict.Remaining = malformed.entries
	case blocked != nil:
		verdict.Policy, verdict.Cause, verdict.RetryAfter = ErrorHold, causeStarts, blocked.RetryAfter()
		verdict.Remaining = mergeInStreamOrder(entries, failed, malformed.entries)
		detail.failed = blocked.Failed
	default:
		verdict.Policy, verdict.Cause = c.options.OnError, causeHandler
		verdict.Remaining = mergeInStreamOrder(entries, decoded, malformed.entries)
		if verdict.Policy == ErrorSkip && len(malformed.entries) > 0 {
			verdict.Policy = ErrorHold // the malformed ones hold the batch
		}
	}
	if parkingErr != nil {
		detail.parkAt = parkAt
		c.logParkingFailed(ctx, partition, &detail.parkingLogged, parkingErr)
	}
	verdict.Err, verdict.Detail, verdict.Log = errors.Join(err, malformed.err(), parkingErr), detail, detail.log()
	return verdict
}

// process calls the handler, with a span and a duration.
func (c *Consumer[T]) process(ctx context.Context, batch stream.Batch, messages []restatestart.Message[T]) (err error) {
	ctx, span := c.beginProcess(ctx, batch, messages)
	began := time.Now()
	defer func() {
		c.metrics.handled(ctx, len(messages), time.Since(began))
		span.end(ctx, batch.Attempt, err)
	}()
	return c.handle(ctx, messages)
}

// blockedIn finds the BlockedError in an error, and whether it is all there is to that error: next to others, as
// errors.Join puts them, it does not speak for the batch.
func blockedIn(err error) (blocked *restatestart.BlockedError, alone bool) {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if found, is := inner.(*restatestart.BlockedError); is { //nolint:errorlint // one step at a time
			return found, true
		}
	}
	blocked, _ = errors.AsType[*restatestart.BlockedError](err)
	return blocked, false
}

// decodeAll separates the entries that can be decoded from those that cannot.
func (c *Consumer[T]) decodeAll(ctx context.Context, partition int, entries []wire.Entry) (messages []restatestart.Message[T], decoded []wire.Entry, malformed malformedEntries) {
	key := c.keys.Stream(partition)
	messages = make([]restatestart.Message[T], len(entries))
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
		err := decodeInto(&messages[read], key, partition, entry, bodies[start:len(bodies):len(bodies)], c.decode)
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
		messages[read] = restatestart.Message[T]{}
		malformed.add(*entry, err)
		if c.options.OnMalformed == MalformedSkip {
			c.log.ErrorContext(ctx, "malformed entry skipped", slog.Int("partition", partition), slog.String("entry", entry.Text()), slog.Any("error", err))
		}
	}
	return messages[:read], decoded, malformed
}

// errNilBlocked stands for a nil *BlockedError in an error: it was meant to hold the batch.
var errNilBlocked = errors.New("the handler returned a nil *BlockedError as an error")

// handle calls the handler and turns a panic into an error.
func (c *Consumer[T]) handle(ctx context.Context, messages []restatestart.Message[T]) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = newPanicError(reason)
		}
	}()
	err = c.handler.Handle(ctx, messages)
	switch blocked, _ := blockedIn(err); {
	case blocked != nil:
		return err // it holds, even if its text panics
	case errors.As(err, new(*restatestart.BlockedError)):
		return &restatestart.BlockedError{Failed: []restatestart.FailedStart{{Err: errNilBlocked}}}
	default:
		return text.SafeError(err)
	}
}

// failedEntries are the entries that a BlockedError names. When it names one that was not delivered, or none at all, its
// list cannot be relied on: then they are all of them, and not exact.
func failedEntries(entries []wire.Entry, blocked *restatestart.BlockedError) (found []wire.Entry, exact bool) {
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

// mergeInStreamOrder joins two parts of a batch in the order of the batch.
func mergeInStreamOrder(batch, one, other []wire.Entry) []wire.Entry {
	if len(other) == 0 {
		return one
	}
	wanted := make(map[wire.ID]bool, len(one)+len(other))
	for _, part := range [...][]wire.Entry{one, other} {
		for _, entry := range part {
			wanted[entry.ID] = true
		}
	}
	merged := make([]wire.Entry, 0, len(wanted))
	for _, entry := range batch {
		if wanted[entry.ID] {
			merged = append(merged, entry)
		}
	}
	return merged
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

// err is nil when there are none.
func (m *malformedEntries) err() error {
	if len(m.entries) == 0 {
		return nil
	}
	return &malformedError{*m}
}

// malformedError names at most five entries in its text, and unwraps to all causes.
type malformedError struct{ malformedEntries }

func (e *malformedError) Error() string {
	var line strings.Builder
	if len(e.ids) == 1 {
		line.WriteString("1 malformed entry")
	} else {
		fmt.Fprintf(&line, "%d malformed entries", len(e.ids))
	}
	const most = 5
	for i, id := range e.ids {
		if i == most {
			fmt.Fprintf(&line, "; and %d more", len(e.ids)-most)
			break
		}
		fmt.Fprintf(&line, "; %s: %s", id, text.ErrorLine(e.causes[i]))
	}
	return line.String()
}

func (e *malformedError) Unwrap() []error { return e.causes }
