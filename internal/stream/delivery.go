package stream

import (
	"log/slog"
	"time"

	"github.com/redisevents/restatestart/internal/wire"
)

// Batch is what one call of Config.Deliver gets.
type Batch struct {
	Partition int
	Entries   []wire.Entry
	Last      wire.ID // last entry of the page; entries of other types may follow the last of Entries
	Attempt   int     // from 1: how often entries of this page have been delivered

	// Previous is the Detail of the verdict that held these entries, nil on the first attempt.
	Previous any
	// Stopping reports whether the session is ending, which may be why something fails now.
	Stopping func() bool
}

// Verdict is the outcome of a delivery. With a nil Err everything is done, and the position advances.
type Verdict struct {
	Skipped int // entries given up on in this delivery, under any policy
	Parked  int // entries parked in this delivery, under any policy

	Err error

	// The rest describes the error.

	Policy     ErrorPolicy   // what to do; ErrorSkip does nothing while stopping, which may have caused the error
	Remaining  []wire.Entry  // what to redeliver, for ErrorHold; what is given up on, for ErrorSkip
	RetryAfter time.Duration // minimum wait before the redelivery, up to maxRetryAfter
	Cause      string        // one word: what holds the position
	Detail     any           // for Status, and for the next delivery
	Log        []slog.Attr   // for the log
}

// ErrorPolicy is what an error from the handler other than a *BlockedError does.
type ErrorPolicy int

// The policies.
const (
	// ErrorHold holds the position and redelivers the batch, as a *BlockedError does.
	ErrorHold ErrorPolicy = iota
	// ErrorSkip logs the error, counts the batch as skipped and moves on: RedisEvents calls that BestEffort. It loses
	// messages. An error while Run is stopping skips nothing.
	ErrorSkip
	// ErrorStop stops the partition and keeps its position. The others continue. Only a reset of its position, or another
	// Run, makes it continue.
	ErrorStop
	// ErrorFail stops every partition, keeps the position, and returns the error from Run.
	ErrorFail
)

// Unprocessed counts the entries of a page that the position moved past although they were not processed.
type Unprocessed struct {
	Skipped int // given up on within a delivery, as its verdict says
	Dropped int // given up on with the batch, by ErrorSkip
	Parked  int
}

// Observer counts what happens. Its methods must not block, and are called concurrently.
type Observer interface {
	// Read is called after every successful read, also one that returned nothing.
	Read(partition int)
	// ReadFailed is called once when reads begin to fail.
	ReadFailed(partition int)
	// DeliveryFailed is called after each delivery with an error, except while stopping.
	DeliveryFailed(partition int, verdict Verdict)
	// Processed is called after the position moved past a page.
	Processed(partition int, page Page, unprocessed Unprocessed)
	// CommitFailed is called after each write of positions that failed.
	CommitFailed()
}
