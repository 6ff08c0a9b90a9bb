package restatestart

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// parkMalformed puts entries aside that cannot be decoded.
func (c *Consumer[T]) parkMalformed(ctx context.Context, partition int, malformed malformedEntries, at time.Time) error {
	parkings := make([]parked.Parking, len(malformed.entries))
	for i, entry := range malformed.entries {
		parkings[i] = parked.Parking{Entry: entry, Failure: parked.Failure{
			Reason: ReasonMalformed.String(), Text: errorLine(malformed.causes[i]), At: at,
		}}
	}
	return c.park(ctx, partition, parkings)
}

// parkRefused puts those of the failed entries aside that will not be accepted, however often they are handed over. It
// returns those that are left, and what the error says of them: nil when none is left. When the parking fails, all of them
// are.
func (c *Consumer[T]) parkRefused(ctx context.Context, partition int, failed []wire.Entry, blocked *BlockedError, before []FailedStart, at time.Time) ([]wire.Entry, *BlockedError, error) {
	now, then := outcomes(blocked.Failed), outcomes(before)
	var parkings []parked.Parking
	var left []wire.Entry
	for _, entry := range failed {
		id := entry.ID.String()
		outcome := now[id]
		if !outcome.repeats(then[id]) {
			left = append(left, entry)
			continue
		}
		parkings = append(parkings, parked.Parking{Entry: entry, Failure: parked.Failure{
			Reason: outcome.Reason.String(), Status: outcome.Status, Text: errorLine(outcome.Err),
			Workflow: outcome.Workflow, Key: outcome.Key, At: at,
		}})
	}
	if len(parkings) == 0 {
		return failed, blocked, nil
	}
	if err := c.park(ctx, partition, parkings); err != nil {
		return failed, blocked, err
	}
	if len(left) == 0 {
		return nil, nil, nil
	}
	rest := &BlockedError{Accepted: blocked.Accepted, messages: blocked.messages}
	for _, start := range blocked.Failed {
		if !now[start.EntryID].repeats(then[start.EntryID]) {
			rest.Failed = append(rest.Failed, start)
		}
	}
	return left, rest, nil
}

// outcome is what came of an entry in one hand-over: its failed start, the first one where a handler made several.
type outcome struct {
	FailedStart

	forGood bool // each of its failed starts is refused for good
}

func outcomes(failed []FailedStart) map[string]outcome {
	outcomes := make(map[string]outcome, len(failed))
	for _, start := range failed {
		forGood := isRefusedForGood(start)
		if first, found := outcomes[start.EntryID]; found {
			start, forGood = first.FailedStart, forGood && first.forGood
		}
		outcomes[start.EntryID] = outcome{start, forGood}
	}
	return outcomes
}

// repeats tells that an entry is refused for good, and was refused in the same way when it was handed over before: what is
// wrong for a moment only, as while a deployment is under way, is not parked.
func (o outcome) repeats(before outcome) bool {
	return o.forGood && before.forGood && o.Reason == before.Reason && o.Status == before.Status
}

// isRefusedForGood tells what no waiting mends, only a change of the message, or of the code. Everything else is held: it
// goes away by itself, or somebody has to mend it for all messages.
func isRefusedForGood(failed FailedStart) bool {
	switch failed.Reason {
	case ReasonMap, ReasonInvalid, ReasonEncode:
		return true // of this message; a panic is of the code, and may be of every message
	case ReasonRejected:
		switch failed.Status {
		case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
			http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge:
			return true // what the ingress answers to a request that it does not take
		}
		return false // 409 and redirects, which are not from the ingress, and what nobody has seen yet
	default:
		return false // 404, 401, 403, 407, 429, 5xx, timeouts, no connection, a predecessor, a shutdown, a panic
	}
}

// park puts entries of a partition aside, each once. Nothing else moves the position past an entry that failed, so that it
// must not return nil before all of them are there.
func (c *Consumer[T]) park(ctx context.Context, partition int, parkings []parked.Parking) error {
	ids, err := c.backend.parked.Park(ctx, partition, parkings)
	if err != nil {
		return err
	}
	for i, parking := range parkings {
		event := entryParked
		if ids[i].IsZero() {
			event = entryParkedBefore // by a run that was killed before its position was written, or before a reset
		}
		c.tellParked(ctx, event, parked.Entry{
			ID: ids[i], Partition: partition, EntryID: parking.Entry.ID, Failure: parking.Failure,
		})
	}
	return nil
}

// tellParkingFailed tells the log, seldom: the hold that follows may last.
func (c *Consumer[T]) tellParkingFailed(ctx context.Context, partition int, told *stream.Seldom, err error) {
	if told.Now() {
		c.log.ErrorContext(ctx, "parking failed, position held", slog.Int("partition", partition), slog.Any("error", err))
	}
}

// parkedEvent is what happened to an entry, as the log calls it.
type parkedEvent string

const (
	entryParked       parkedEvent = "entry parked"
	entryParkedBefore parkedEvent = "entry parked before"
	entryReplayed     parkedEvent = "parked entry replayed"
	entryDiscarded    parkedEvent = "parked entry discarded"
)

// kind is the event in a metric, empty when it is not for one.
func (e parkedEvent) kind() string {
	switch e {
	case entryParked:
		return "parked"
	case entryReplayed:
		return "replayed"
	case entryDiscarded:
		return "discarded"
	default:
		return ""
	}
}

// tellParked is called once for each entry that is parked, replayed or discarded, when that is done.
func (c *Consumer[T]) tellParked(ctx context.Context, event parkedEvent, entry parked.Entry) {
	var level slog.Level
	switch event {
	case entryParked:
		level = slog.LevelError // as one that is skipped: somebody has to look at it
	case entryDiscarded:
		level = slog.LevelWarn // a start that will never be
	default:
		level = slog.LevelInfo
	}
	c.metrics.parked(entry.Partition, event)
	c.log.LogAttrs(ctx, level, string(event), slog.Int("partition", entry.Partition), slog.String("entry", entry.EntryID.String()),
		slog.String("parked", entry.ID.String()), slog.String("reason", entry.Failure.Reason), slog.Int("status", entry.Failure.Status),
		slog.String("workflow", printable(entry.Failure.Workflow)), slog.String("key", printable(entry.Failure.Key)),
		slog.String("error", entry.Failure.Text))
}
