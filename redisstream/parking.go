package redisstream

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/telemetry"
	"github.com/redisevents/restatestart/internal/text"
	"github.com/redisevents/restatestart/internal/wire"
)

// parkMalformed parks entries that cannot be decoded.
func (c *Consumer[T]) parkMalformed(ctx context.Context, partition int, malformed malformedEntries, at time.Time) error {
	parkings := make([]parked.Parking, len(malformed.entries))
	for i, entry := range malformed.entries {
		parkings[i] = parked.Parking{Entry: entry, Failure: parked.Failure{
			Reason: restatestart.ReasonMalformed.String(), Text: text.ErrorLine(malformed.causes[i]), At: at,
		}}
	}
	return c.park(ctx, partition, parkings)
}

// parkRejected parks those of the failed entries that will not be accepted, however often they are delivered. It
// returns those that are left, and what the error says of them: nil when none is left. When parking fails, all are left.
func (c *Consumer[T]) parkRejected(ctx context.Context, partition int, failed []wire.Entry, blocked *restatestart.BlockedError, previous []restatestart.FailedStart, at time.Time) ([]wire.Entry, *restatestart.BlockedError, error) {
	now, before := outcomes(blocked.Failed), outcomes(previous)
	var parkings []parked.Parking
	var left []wire.Entry
	for _, entry := range failed {
		id := entry.ID.String()
		outcome := now[id]
		if !outcome.repeats(before[id]) {
			left = append(left, entry)
			continue
		}
		parkings = append(parkings, parked.Parking{Entry: entry, Failure: parked.Failure{
			Reason: outcome.Reason.String(), Status: outcome.Status, Text: text.ErrorLine(outcome.Err),
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
	rest := &restatestart.BlockedError{Accepted: blocked.Accepted, Messages: blocked.Messages}
	for _, start := range blocked.Failed {
		if !now[start.EntryID].repeats(before[start.EntryID]) {
			rest.Failed = append(rest.Failed, start)
		}
	}
	return left, rest, nil
}

// outcome is what came of an entry in one delivery: its failed start, the first one where a handler made several.
type outcome struct {
	restatestart.FailedStart

	permanent bool // each of its failed starts is
}

func outcomes(failed []restatestart.FailedStart) map[string]outcome {
	outcomes := make(map[string]outcome, len(failed))
	for _, start := range failed {
		permanent := isPermanentFailure(start)
		if first, found := outcomes[start.EntryID]; found {
			start, permanent = first.FailedStart, permanent && first.permanent
		}
		outcomes[start.EntryID] = outcome{start, permanent}
	}
	return outcomes
}

// repeats reports that an entry failed permanently, and in the same way when it was delivered before: what is wrong for
// a moment only, as during a deployment, is not parked.
func (o outcome) repeats(previous outcome) bool {
	return o.permanent && previous.permanent && o.Reason == previous.Reason && o.Status == previous.Status
}

// isPermanentFailure reports what no waiting fixes, only a change of the message or the code. Everything else is held:
// it goes away by itself, or has to be fixed for all messages.
func isPermanentFailure(failed restatestart.FailedStart) bool {
	switch failed.Reason {
	case restatestart.ReasonMap, restatestart.ReasonInvalid, restatestart.ReasonEncode:
		return true // this message; a panic is a fault of the code, and may concern every message
	case restatestart.ReasonRejected:
		switch failed.Status {
		case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong,
			http.StatusUnprocessableEntity, http.StatusRequestHeaderFieldsTooLarge:
			return true // what the ingress answers to a request that it does not take
		}
		return false // 409 and redirects, which do not come from the ingress, and what nobody has seen yet
	default:
		return false // 404, 401, 403, 407, 429, 5xx, timeouts, no connection, a predecessor, a shutdown, a panic
	}
}

// park parks entries of a partition, each once. The position moves past them next, so it must not return nil before all
// of them are stored.
func (c *Consumer[T]) park(ctx context.Context, partition int, parkings []parked.Parking) error {
	ids, err := c.backend.parked.Park(ctx, partition, parkings)
	if err != nil {
		return err
	}
	for i, parking := range parkings {
		event := parked.EventParked
		if ids[i].IsZero() {
			event = parked.EventAlreadyParked // by a run that was killed before its position was written, or before a reset
		}
		c.parked.Record(ctx, event, parked.Entry{ID: ids[i], Partition: partition, EntryID: parking.Entry.ID, Failure: parking.Failure})
	}
	return nil
}

func (c *Consumer[T]) logParkingFailed(ctx context.Context, partition int, logged *telemetry.LogLimiter, err error) {
	if logged.Allow() {
		c.log.ErrorContext(ctx, "parking failed, position held", slog.Int("partition", partition), slog.Any("error", err))
	}
}
