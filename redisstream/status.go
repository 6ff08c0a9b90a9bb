package redisstream

import (
	"time"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/text"
)

// State is what a Consumer or one of its partitions is doing. A blocked partition is alive: it holds its position and
// tries again.
type State = stream.State

// The states.
const (
	StateStarting State = stream.StateStarting // "starting": nothing has been read yet
	StateRunning  State = stream.StateRunning  // "running": there are messages to process
	StateIdle     State = stream.StateIdle     // "idle": everything there is has been processed
	StateBlocked  State = stream.StateBlocked  // "blocked": something holds it, and it tries again
	StateStopped  State = stream.StateStopped  // "stopped": it does not run
)

// Status is how a Consumer is doing, encodable as JSON.
type Status struct {
	Topic     string `json:"topic"`
	Consumer  string `json:"consumer"`
	KeyPrefix string `json:"keyPrefix,omitempty"`
	// State is starting before Run and until Run knows its partitions, running while it consumes, and stopped once Run has
	// returned.
	State State `json:"state"`
	// Error is an error of the consumer as a whole, or the one that Run returned. Empty when there is none.
	Error string `json:"error,omitempty"`
	// Connections is how many connections to Redis the consumer holds: one for each partition it reads and one more.
	Connections int `json:"connections"`
	// PositionsFailing says that positions cannot be written. Nil when they can.
	PositionsFailing *PositionsFailing `json:"positionsFailing,omitempty"`
	// Preflight is the result of Options.Preflight. Nil when there is none.
	Preflight *PreflightStatus `json:"preflight,omitempty"`
	// Partitions are those this instance owns, in order.
	Partitions []PartitionStatus `json:"partitions"`
}

// PositionsFailing says since when positions cannot be written, and why. Messages are processed meanwhile, and would be
// redelivered after a crash.
type PositionsFailing struct {
	Since time.Time `json:"since"`
	Error string    `json:"error"`
}

// PartitionStatus is how one partition is doing.
type PartitionStatus struct {
	Partition int `json:"partition"`
	// Stream is the Redis key it is read from.
	Stream string `json:"stream"`
	State  State  `json:"state"`
	// Started says that the stream has been read once, even if it was empty.
	Started bool `json:"started"`
	// Position is the id of the last entry that was processed, `0-0` before the first.
	Position string `json:"position"`
	// Missing says that there is no stream under the partition's key: nothing was published yet, or a name or the KeyPrefix
	// is wrong.
	Missing bool `json:"missing,omitempty"`
	// Blocked says what holds the partition. Nil when nothing does.
	Blocked *Blocked `json:"blocked,omitempty"`
	// Error is the error that stopped the partition, if one did.
	Error string `json:"error,omitempty"`
	// Lag is how many entries the stream held behind the position when it was last sampled, every 5 s. Nil when that is not
	// known: Redis does not count the entries behind a position in the middle of a stream, so it is known from the first
	// time that the position was at an end of it.
	Lag *int64 `json:"lag,omitempty"`
	// Length is how many entries the stream holds, including processed ones. Nil when it is not known, as during an outage.
	Length *int64 `json:"length,omitempty"`
	// Oldest is when the oldest message that was read and not yet processed was published. Nil when there is none.
	Oldest *time.Time `json:"oldest,omitempty"`
	// Processed counts the entries that the position moved past in this Run, Delivered those of them that the handler got,
	// Skipped those that a policy skipped, and Parked those that were parked, in this Run or before.
	Processed int64 `json:"processed"`
	Delivered int64 `json:"delivered"`
	Skipped   int64 `json:"skipped"`
	Parked    int64 `json:"parked"`
	// Gaps counts the gaps that were reported in this Run. LastGap is the last of them.
	Gaps    int64 `json:"gaps"`
	LastGap *Gap  `json:"lastGap,omitempty"`
	// TrimIn is the estimated number of seconds until trimming reaches the position, if the position does not move and
	// messages are added at the rate of the last minute. Nil when the position moves or nothing is behind it, when nothing
	// was trimmed in the last ten minutes, and while Lag is not known.
	TrimIn *int64 `json:"trimInSeconds,omitempty"`
}

// Blocked is what holds a partition.
type Blocked struct {
	// Since is when the hold began, Attempts how many attempts failed so far, and Next when the next one is due: zero when
	// only a reset ends the hold.
	Since    time.Time `json:"since"`
	Attempts int       `json:"attempts"`
	Next     time.Time `json:"next,omitzero"`
	// Cause is one of starts (a *BlockedError), malformed (entries that cannot be decoded), handler (another error of
	// the handler), read (the stream cannot be read), positions (they cannot be read or written) and gap (entries
	// vanished unread, with GapHold).
	Cause string `json:"cause"`
	// Error is the last error in one line.
	Error string `json:"error"`
	// Failed are the starts that were not accepted, when the cause is starts.
	Failed []restatestart.FailedStart `json:"failed,omitempty"`
	// Malformed are the ids of the entries that cannot be decoded.
	Malformed []string `json:"malformed,omitempty"`
	// Gap is the gap, when the cause is gap.
	Gap *Gap `json:"gap,omitempty"`
}

// runStatus is what Status shows of a run.
type runStatus struct {
	state State
	loop  *stream.Loop // nil before there is one
	err   error
}

func (c *Consumer[T]) show(run runStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = run
}

// setError shows an error that does not end the Run, or none.
func (c *Consumer[T]) setError(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run.err = err
}

// end shows how a run ended, and its partitions as they were then.
func (c *Consumer[T]) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run.state, c.run.err = StateStopped, err
}

// Status returns how the consumer is doing. It is cheap, does no I/O, and may be called at any time, also before and
// after Run.
func (c *Consumer[T]) Status() Status {
	c.mu.Lock()
	run := c.run
	c.mu.Unlock()
	status := Status{
		Topic: c.topic, Consumer: c.options.Consumer, KeyPrefix: c.options.KeyPrefix,
		State: run.state, Preflight: c.preflight.snapshot(), Partitions: []PartitionStatus{},
	}
	if run.state == "" {
		status.State = StateStarting
	}
	if run.err != nil {
		status.Error = text.ErrorLine(run.err)
	}
	if run.loop == nil {
		return status
	}
	partitions, since, failing := run.loop.Status()
	if failing != nil {
		status.PositionsFailing = &PositionsFailing{Since: since, Error: text.ErrorLine(failing)}
	}
	owned := make([]int, 0, len(partitions))
	for _, partition := range partitions {
		owned = append(owned, partition.Partition)
		status.Partitions = append(status.Partitions, c.partitionStatus(partition))
	}
	status.Connections = connections(owned)
	return status
}

func (c *Consumer[T]) partitionStatus(from stream.Status) PartitionStatus {
	status := PartitionStatus{
		Partition: from.Partition, Stream: from.Stream, State: from.State, Position: from.Position.String(),
		Started: from.Read, Missing: from.Missing, Processed: from.Processed, Delivered: from.Delivered, Skipped: from.Skipped,
		Parked: from.Parked,
		Gaps:   from.Gaps,
	}
	if from.Err != nil {
		status.Error = text.ErrorLine(from.Err)
	}
	if from.LagKnown {
		status.Lag = &from.Lag
	}
	if from.Sampled {
		status.Length = &from.Length
	}
	if !from.Oldest.IsZero() {
		status.Oldest = &from.Oldest
	}
	if from.LastGap != nil {
		gap := c.gapOf(from.Partition, *from.LastGap)
		status.LastGap = &gap
	}
	if from.TrimIn != nil {
		seconds := int64(*from.TrimIn / time.Second)
		status.TrimIn = &seconds
	}
	if held := from.Blocked; held != nil {
		detail, _ := held.Detail.(holdDetail)
		status.Blocked = &Blocked{
			Since: held.Since, Attempts: held.Attempts, Next: held.Next, Cause: held.Cause, Error: text.ErrorLine(held.Err),
			Failed: detail.failed, Malformed: detail.malformed,
		}
		if gap, found := held.Detail.(stream.Gap); found {
			gap := c.gapOf(from.Partition, gap)
			status.Blocked.Gap = &gap
		}
	}
	return status
}
