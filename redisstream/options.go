package redisstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/redisevents/restatestart/internal/defaults"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/topic"
	"github.com/redisevents/restatestart/preflight"
)

// Defaults of Options. Where RedisEvents has the same option, it has the same default.
const (
	DefaultBatchSize       = 100
	DefaultBlock           = time.Second
	DefaultReadAhead       = 4
	DefaultPersistInterval = time.Second
	DefaultDrainTimeout    = 10 * time.Second
	DefaultHoldMin         = time.Second
	DefaultHoldMax         = 30 * time.Second
)

// Options configure a Consumer. Only Consumer is required; the zero value of every other field is its default, and a
// negative or contradictory one is an error from NewConsumer.
type Options struct {
	// Consumer is the name that positions are stored under. Instances that share the partitions use the same name, and
	// are told apart by InstanceIndex; services that each want every message need different names. Required.
	Consumer string

	// Partitions is how many partitions the topic has. Defaults to what the topic's meta hash says, which is checked every
	// 5 s: partitions that are added are read from their first message on. Where the hash says nothing, it is 1. A number
	// below what the hash says is an error from Run.
	Partitions int

	// KeyPrefix is put in front of every Redis key, as it is. The .NET package derives one from its environment, such as
	// "production:re:"; this one does not. Defaults to none.
	KeyPrefix string

	// BatchSize is the most messages of a batch. Defaults to 100. A read asks for as many entries; a reader that is behind
	// asks for as many batches as ReadAhead has room for, up to 1000 entries and about 256 KiB.
	BatchSize int

	// Block is how long a read waits on the server for the first entry. It delays no message: an entry ends the wait.
	// go-redis cannot abort a read that waits, so Run waits for it when it stops; a Block of more than a second is split
	// into reads of a second. Whole milliseconds, at least one. Defaults to 1 s.
	Block time.Duration

	// ReadAhead is the most batches of one partition in memory, including the one being processed. Defaults to 4.
	ReadAhead int

	// StartFrom is where a Run begins. Defaults to FromStored.
	StartFrom StartFrom

	// Types selects messages by their type, compared case-sensitively before the body is decoded. The others count as
	// processed, so a misspelt name skips every message permanently: Status then shows Delivered 0, and the log says so
	// once per partition. Defaults to all messages.
	Types []string

	// Persist is when positions are written. Defaults to PersistBackground.
	Persist Persist

	// PersistInterval is how often PersistBackground writes positions, and how often resets are looked for, whichever
	// Persist is used. Defaults to 1 s.
	PersistInterval time.Duration

	// DrainTimeout is how long the batch being processed may take to finish once Run's context is cancelled. Then the
	// handler's context is cancelled. Defaults to 10 s.
	DrainTimeout time.Duration

	// HoldMin is the wait before a failed batch is delivered again, and before Redis is asked again after an error. It
	// doubles with each attempt, up to HoldMax. Defaults to 1 s.
	HoldMin time.Duration

	// HoldMax is the longest such wait. A start's Retry-After may raise it to at most 30 s. Defaults to 30 s.
	HoldMax time.Duration

	// OnError says what an error from the handler other than a *BlockedError does. Defaults to ErrorHold.
	OnError ErrorPolicy

	// OnMalformed says what an entry that cannot be decoded does. Defaults to MalformedHold.
	OnMalformed MalformedPolicy

	// OnRejected says what a start does that will never be accepted as it is. Defaults to RejectedHold.
	OnRejected RejectedPolicy

	// Gaps says what a gap does to its partition: entries that vanished before they were read. Defaults to GapContinue.
	Gaps GapPolicy

	// OnGap is called for each gap. Every entry is reported once, across restarts too, except after a crash between the
	// call and the next write of positions. A gap that grows is reported at most every 30 s, with what was added. It is
	// called on the partition's reader, one call at a time for a partition: no entry of the partition is read meanwhile,
	// so long work belongs elsewhere. It may call Status. A panic is logged. Its context ends when Run stops, or the
	// position is reset. Entries count whatever their type: Redis does not say. Defaults to none; gaps are in the log and
	// in Status in any case.
	OnGap func(ctx context.Context, gap Gap)

	// InstanceCount is how many instances share the partitions, each a contiguous part of them. Defaults to the
	// environment's STREAMS_INSTANCE_COUNT, else to 1.
	InstanceCount int

	// InstanceIndex is which of them this one is, from 0. Defaults to the environment's STREAMS_INSTANCE_INDEX, else to
	// the number behind the last dash of POD_NAME, as a StatefulSet gives it, else to 0. An index of InstanceCount or
	// above owns nothing, which the log and Status say.
	InstanceIndex *int

	// Preflight asks Restate's admin API when Run begins whether the workflows are registered and can take the starts. It
	// delays no message; its findings are in the log and in Status. It is repeated after HoldMin, doubling to HoldMax, until
	// it passes. Its Handler defaults to that of the Starter. Defaults to nil, which asks nothing.
	Preflight *preflight.Options

	// StrictPreflight makes Run check before it reads anything, and return a *preflight.Error when there are findings.
	// While the admin API does not answer, Run waits for it. Defaults to false.
	StrictPreflight bool

	// TracerProvider and MeterProvider receive the Consumer's spans and metrics, under ScopeName. A Starter has its own.
	// They default to OpenTelemetry's global ones.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Logger receives what an operator needs to know. Defaults to none.
	Logger *slog.Logger
}

// StartFrom is where a Run begins to read. The zero value is FromStored.
type StartFrom struct {
	kind startKind
	at   time.Time
}

type startKind int

const (
	startStored startKind = iota
	startBeginning
	startNow
	startTime
)

// FromStored begins behind the stored position. Where none is stored, it begins with the oldest entry, and logs that.
func FromStored() StartFrom { return StartFrom{} }

// FromBeginning begins each Run with the oldest entry, and ignores what is stored.
func FromBeginning() StartFrom { return StartFrom{kind: startBeginning} }

// FromNow begins each Run behind the last entry of that moment, and ignores what is stored. Messages that were added
// while nothing ran are skipped, which loses their starts.
func FromNow() StartFrom { return StartFrom{kind: startNow} }

// FromTime begins each Run with the first entry that was added at that time or later, to the millisecond of the
// server's clock, and ignores what is stored.
func FromTime(t time.Time) StartFrom { return StartFrom{kind: startTime, at: t} }

// String is the choice in a word or a time.
func (f StartFrom) String() string {
	switch f.kind {
	case startBeginning:
		return "beginning"
	case startNow:
		return "now"
	case startTime:
		return f.at.UTC().Format(time.RFC3339Nano)
	default:
		return "stored"
	}
}

// Persist is when positions are written to Redis.
type Persist int

const (
	// PersistBackground writes them every PersistInterval. After a crash the messages since then are redelivered.
	PersistBackground Persist = iota
	// PersistEachBatch writes each before the next batch is delivered. After a crash at most one batch of a partition is
	// redelivered. Each batch costs one more round trip to Redis.
	PersistEachBatch
)

// ErrorPolicy is what an error from the handler other than a *BlockedError does.
type ErrorPolicy = stream.ErrorPolicy

// The policies.
const (
	// ErrorHold holds the position and delivers the batch again, as a *BlockedError does.
	ErrorHold ErrorPolicy = stream.ErrorHold
	// ErrorSkip logs the error, counts the batch as skipped and moves on: RedisEvents calls that BestEffort. It loses
	// messages. An error while Run is stopping skips nothing.
	ErrorSkip ErrorPolicy = stream.ErrorSkip
	// ErrorStop stops the partition and keeps its position. The others continue. Only a reset of its position, or another
	// Run, makes it continue.
	ErrorStop ErrorPolicy = stream.ErrorStop
	// ErrorFail stops every partition, keeps the position, and returns the error from Run.
	ErrorFail ErrorPolicy = stream.ErrorFail
)

// MalformedPolicy is what an entry that cannot be decoded does. The rest of its batch is delivered in any case.
type MalformedPolicy int

const (
	// MalformedHold holds the position and tries the entry again, as a *BlockedError does.
	MalformedHold MalformedPolicy = iota
	// MalformedSkip logs the entry's id, counts it as skipped and moves on. Its body stays in the stream until that
	// is trimmed.
	MalformedSkip
	// MalformedPark copies the entry to the parked stream and then moves on. Package admin lists and discards parked
	// entries, Consumer.Replay delivers them again. While it cannot be parked, it holds.
	MalformedPark
)

// RejectedPolicy is what an entry does whose start the ingress refuses permanently, or cannot be sent: 400, 405, 413, 414,
// 422 and 431, an error from Map, an invalid workflow, key or header, an input that cannot be encoded. Everything else holds
// under either policy: 401, 403, 404, timeouts, 5xx, panics.
type RejectedPolicy int

const (
	// RejectedHold holds the position and delivers the entry again, as for any other start that was not accepted.
	RejectedHold RejectedPolicy = iota
	// RejectedPark parks the entry once it was refused in the same way twice, HoldMin apart, and then moves on: see
	// MalformedPark. An entry behind it with the same workflow and key is posted then.
	//
	// An error from Map that time would fix is parked as well: with this policy, Map should return an error only for a
	// message that is wrong.
	//
	// A handler other than a Starter can have entries parked with a BlockedError that it built itself: those that it names,
	// with a Reason and a Status from the list above. Nothing is parked while Run is stopping.
	RejectedPark
)

// withDefaults fills in the zero fields and refuses what is contradictory.
func (o Options) withDefaults() (Options, error) {
	err := errors.Join(
		defaults.Set("Partitions", &o.Partitions, 0),
		defaults.Set("BatchSize", &o.BatchSize, DefaultBatchSize),
		defaults.Set("Block", &o.Block, DefaultBlock),
		defaults.Set("ReadAhead", &o.ReadAhead, DefaultReadAhead),
		defaults.SetDuration("PersistInterval", &o.PersistInterval, DefaultPersistInterval),
		defaults.SetDuration("DrainTimeout", &o.DrainTimeout, DefaultDrainTimeout),
		defaults.SetDuration("HoldMin", &o.HoldMin, DefaultHoldMin),
		defaults.SetDuration("HoldMax", &o.HoldMax, DefaultHoldMax),
		defaults.Set("InstanceCount", &o.InstanceCount, 0),
		topic.CheckConsumer(o.Consumer),
	)
	switch {
	case err != nil:
		return o, err
	case o.Block%time.Millisecond != 0:
		return o, fmt.Errorf("Block: %s is not in whole milliseconds", o.Block)
	case o.HoldMin > o.HoldMax:
		return o, fmt.Errorf("HoldMin: %s is above HoldMax, %s", o.HoldMin, o.HoldMax)
	case o.Persist != PersistBackground && o.Persist != PersistEachBatch:
		return o, fmt.Errorf("Persist: there is no choice %d", o.Persist)
	case o.OnError < ErrorHold || o.OnError > ErrorFail:
		return o, fmt.Errorf("OnError: there is no policy %d", o.OnError)
	case o.OnMalformed < MalformedHold || o.OnMalformed > MalformedPark:
		return o, fmt.Errorf("OnMalformed: there is no policy %d", o.OnMalformed)
	case o.OnRejected != RejectedHold && o.OnRejected != RejectedPark:
		return o, fmt.Errorf("OnRejected: there is no policy %d", o.OnRejected)
	case o.Gaps != GapContinue && o.Gaps != GapHold:
		return o, fmt.Errorf("Gaps: there is no policy %d", o.Gaps)
	case o.StartFrom.kind == startTime && o.StartFrom.at.IsZero():
		return o, errors.New("StartFrom: the time is zero")
	case o.InstanceIndex != nil && *o.InstanceIndex < 0:
		return o, fmt.Errorf("InstanceIndex: %d is negative", *o.InstanceIndex)
	case o.InstanceIndex != nil && o.InstanceCount > 0 && *o.InstanceIndex >= o.InstanceCount:
		return o, fmt.Errorf("InstanceIndex: %d is not below InstanceCount, %d", *o.InstanceIndex, o.InstanceCount)
	}
	if o.StrictPreflight && o.Preflight == nil {
		return o, errors.New("StrictPreflight: there is no Preflight")
	}
	for i, name := range o.Types {
		if name == "" {
			return o, fmt.Errorf("Types: name %d is empty", i)
		}
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	return o, nil
}
