package restatestart

import (
	"time"

	"github.com/redisevents/restatestart/internal/stream"
)

// State is what a Consumer or one of its partitions is doing.
type State string

// The states. A blocked partition is not a dead one: it holds its position and tries again.
const (
	StateStarting State = "starting" // nothing was read yet
	StateRunning  State = "running"  // it has messages in hand
	StateIdle     State = "idle"     // it has read everything there is
	StateBlocked  State = "blocked"  // something holds it, and it tries again
	StateStopped  State = "stopped"  // it does not run any more
)

// Status is how a Consumer is doing, encodable as JSON.
type Status struct {
	Topic     string `json:"topic"`
	Consumer  string `json:"consumer"`
	KeyPrefix string `json:"keyPrefix,omitempty"`
	// State is starting until Run knows its partitions, before Run is called too, running while it consumes, and stopped
	// once Run has returned.
	State State `json:"state"`
	// Error is what troubles the consumer as a whole, or made Run return. Empty when nothing does.
	Error string `json:"error,omitempty"`
	// Connections is how many connections to Redis the consumer holds: one for each partition it reads and one more.
	Connections int `json:"connections"`
	// PositionsFailing tells that positions cannot be written. Nil when they can.
	PositionsFailing *PositionsFailing `json:"positionsFailing,omitempty"`
	// Preflight tells what came of ConsumerOptions.Preflight. Nil when there is none.
	Preflight *PreflightStatus `json:"preflight,omitempty"`
	// Partitions are those this instance owns, in order.
	Partitions []PartitionStatus `json:"partitions"`
}

// PositionsFailing tells since when positions cannot be written, and why. Messages are processed meanwhile; a
// crash hands them over again.
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
	// Started tells that the stream has been read once, if only to find it empty.
	Started bool `json:"started"`
	// Position is the id of the last entry that is done, `0-0` before the first.
	Position string `json:"position"`
	// Missing tells that there is no stream under the partition's key: nothing was published yet, or a name or the
	// KeyPrefix is wrong.
	Missing bool `json:"missing,omitempty"`
	// Blocked tells what holds the partition. Nil when nothing does.
	Blocked *Blocked `json:"blocked,omitempty"`
	// Error is why the partition stopped, if an error made it.
	Error string `json:"error,omitempty"`
	// Lag is how many entries the stream held behind the position when it was last looked at, at most some seconds
	// ago. Nil when that is not known: Redis does not count the entries before a position in the middle of a stream,
	// so that it is known from the first time the position was at an end of it.
	Lag *int64 `json:"lag,omitempty"`
	// Length is how many entries the stream holds, done ones included. Nil when it is not known, as during an outage.
	Length *int64 `json:"length,omitempty"`
	// Oldest is when the oldest message that is read and not done was published. Nil when there is none.
	Oldest *time.Time `json:"oldest,omitempty"`
	// Passed counts the entries that the position moved over in this Run, Handed those of them that were handed to the
	// handler, Skipped those that were given up on, and Parked those that were put aside, or had been before.
	Passed  int64 `json:"passed"`
	Handed  int64 `json:"handed"`
	Skipped int64 `json:"skipped"`
	Parked  int64 `json:"parked"`
	// Gaps counts the holes that were reported in this Run: entries that vanished before they were read. LastGap is the
	// last of them.
	Gaps    int64 `json:"gaps"`
	LastGap *Gap  `json:"lastGap,omitempty"`
	// TrimIn is how many seconds it takes until trimming reaches the position, if that goes on to stand and messages go
	// on to come as in the last minute. Nil when the position moves or nothing is behind it, when nothing was trimmed in
	// the last ten minutes, and as long as Lag is not known.
	TrimIn *int64 `json:"trimInSeconds,omitempty"`
}

// Blocked is what holds a partition.
type Blocked struct {
	// Since is when the hold began, Attempts how often it was tried so far, and Next when it is tried again: zero when
	// that takes a reset.
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
	Failed []FailedStart `json:"failed,omitempty"`
	// Malformed are the ids of the entries that cannot be decoded.
	Malformed []string `json:"malformed,omitempty"`
	// Gap is the hole, when the cause is gap.
	Gap *Gap `json:"gap,omitempty"`
}

// runStatus is what Status shows of a run.
type runStatus struct {
	state State
	group *stream.Group // nil before there is one
	err   error
}

func (c *Consumer[T]) show(run runStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run = run
}

// trouble notes an error that the consumer lives on with.
func (c *Consumer[T]) trouble(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run.err = err
}

// end notes how a run ended, and leaves what its partitions had come to.
func (c *Consumer[T]) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run.state, c.run.err = StateStopped, err
}

// Status tells how the consumer is doing at this moment. It is cheap, needs no Redis, and may be called at any
// time, before and after Run too.
func (c *Consumer[T]) Status() Status {
	c.mu.Lock()
	run := c.run
	c.mu.Unlock()
	status := Status{
		Topic: c.topic, Consumer: c.options.Consumer, KeyPrefix: c.options.KeyPrefix,
		State: run.state, Preflight: c.checks.now(), Partitions: []PartitionStatus{},
	}
	if run.state == "" {
		status.State = StateStarting
	}
	if run.err != nil {
		status.Error = errorLine(run.err)
	}
	if run.group == nil {
		return status
	}
	partitions, since, failing := run.group.Status()
	if failing != nil {
		status.PositionsFailing = &PositionsFailing{Since: since, Error: errorLine(failing)}
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
		Partition: from.Partition, Stream: from.Stream, State: stateOf(from.State), Position: from.Position.String(),
		Started: from.Read, Missing: from.Missing, Passed: from.Passed, Handed: from.Handed, Skipped: from.Skipped,
		Parked: from.Parked,
		Gaps:   from.Gaps,
	}
	if from.Err != nil {
		status.Error = errorLine(from.Err)
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
		detail, _ := held.Detail.(blockedDetail)
		status.Blocked = &Blocked{
			Since: held.Since, Attempts: held.Attempts, Next: held.Next, Cause: held.Cause, Error: errorLine(held.Err),
			Failed: detail.failed, Malformed: detail.malformed,
		}
		if gap, found := held.Detail.(stream.Gap); found {
			gap := c.gapOf(from.Partition, gap)
			status.Blocked.Gap = &gap
		}
	}
	return status
}

func stateOf(state stream.State) State {
	switch state {
	case stream.Running:
		return StateRunning
	case stream.Idle:
		return StateIdle
	case stream.Holding:
		return StateBlocked
	case stream.Stopped:
		return StateStopped
	default:
		return StateStarting
	}
}
