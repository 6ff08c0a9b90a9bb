// Package stream is the loop over the partitions of a topic: it reads ahead, delivers batches, holds and redelivers
// those that fail, advances positions, and drains. What a batch means is the caller's business; this package moves a
// position only once the caller reports that everything up to it is done.
//
// Each partition has two goroutines and shares nothing with the others: a reader, which fills up to ReadAhead slots
// with batches, and a worker, which delivers them one by one. One more goroutine commits the positions of all of
// them, and one samples the tails of the streams for the lag.
package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/redisevents/restatestart/internal/backoff"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

// Config is what to run. All fields are required unless they say otherwise.
type Config struct {
	Partitions []int                      // to begin with
	Name       func(partition int) string // of its stream, for the log and Status
	Source     Source
	Store      position.Store
	// Deliver delivers a batch and decides what happens next. Calls for different partitions run concurrently. It
	// should return soon after its context is cancelled; only a verdict without an error moves the position then.
	Deliver  func(ctx context.Context, batch Batch) Verdict
	Logger   *slog.Logger // already has the topic and the consumer
	Observer Observer

	// Start decides where a partition begins, given what is stored. It may ask the source. Late says that the partition
	// was assigned while the loop was running.
	Start func(ctx context.Context, partition int, stored position.Stored, late bool) (wire.ID, error)

	// OnGap reports a gap, before it is stored that it was reported. It is called on a goroutine of the partition, and
	// blocks its reads. Optional.
	OnGap   func(ctx context.Context, partition int, gap Gap)
	GapHold bool // a gap holds the partition until its position is reset

	BatchSize       int
	Block           time.Duration
	ReadAhead       int // batches in memory per partition, including the one being delivered
	PersistInterval time.Duration
	PersistEach     bool // commit each position before the next batch is delivered
	DrainTimeout    time.Duration
	HoldMin         time.Duration
	HoldMax         time.Duration
}

const (
	// maxBlock bounds one blocking read. A client cannot cancel a read that waits on the server, so this is also how long
	// a reader can take to end. A longer Block becomes several reads.
	maxBlock = time.Second
	// maxRetryAfter bounds how long a verdict can delay the next delivery.
	maxRetryAfter = 30 * time.Second
	// sampleInterval is the time between two samples of a stream's tail.
	sampleInterval = 5 * time.Second
	// StopMargin is the most that Run takes beyond DrainTimeout.
	StopMargin = 950 * time.Millisecond
	// flushMargin is the part of StopMargin reserved for the last commit.
	flushMargin = 450 * time.Millisecond
)

// backoff doubles from HoldMin to HoldMax, without jitter and without end, as in RedisEvents.
func (c *Config) backoff() backoff.Backoff { return backoff.New(c.HoldMin, c.HoldMax, 0) }
