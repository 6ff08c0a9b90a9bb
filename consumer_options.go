package restatestart

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Defaults of ConsumerOptions. Those that RedisEvents has too are the same there.
const (
	DefaultBatchSize       = 100
	DefaultBlock           = time.Second
	DefaultReadAhead       = 4
	DefaultPersistInterval = time.Second
	DefaultDrainTimeout    = 10 * time.Second
	DefaultHoldMin         = time.Second
	DefaultHoldMax         = 30 * time.Second
)

// ConsumerOptions say how a Consumer reads. Only Consumer is required; the zero value of every other field is its
// default, and a negative or contradictory one is an error of NewConsumer.
type ConsumerOptions struct {
	// Consumer names whose positions these are. Services that share work share the name, and are told apart by
	// InstanceIndex; services that each want every message have a name each. Required.
	Consumer string

	// Partitions is how many partitions the topic has. Defaults to what the topic's meta hash says, now and later:
	// partitions that are added are read within seconds, from their first message on. Where it says nothing, that is 1. A number below what the meta
	// hash says is an error of Run.
	Partitions int

	// KeyPrefix stands in front of every Redis key, as it is. The .NET package derives one from its environment, such
	// as "production:re:"; this one does not. Defaults to none.
	KeyPrefix string

	// BatchSize is how many messages a batch holds at most. Defaults to 100. A read asks for as many entries; one that is
	// behind asks for as many batches at once as ReadAhead has room for, up to 1000 entries and about 256 KiB.
	BatchSize int

	// Block is how long a read waits on the server for the first entry. It delays no message: an entry ends the wait.
	// go-redis cannot take a waiting read back, and Run waits for it when it stops, which is why a longer Block is
	// asked for a second at a time. Whole milliseconds, at least one. Defaults to 1 s.
	Block time.Duration

	// ReadAhead is how many batches of one partition are in memory at most, the one in hand included. Defaults to 4.
	ReadAhead int

	// StartFrom is where a Run begins. Defaults to FromStored.
	StartFrom StartFrom

	// Types lets only messages of these types through, compared to the letter before the body is decoded. The others
	// count as done, so that a misspelt name passes over every message, for good: Status's Handed stays 0, and the log
	// says so once a partition. Defaults to all messages.
	Types []string

	// Persist is when positions are written. Defaults to PersistBackground.
	Persist Persist

	// PersistInterval is how often PersistBackground writes positions, and how often resets are looked for, whatever
	// Persist is.
	// Defaults to 1 s.
	PersistInterval time.Duration

	// DrainTimeout is how long the batch in hand may take to finish once Run's context is cancelled. Then the
	// handler's context is cancelled. Defaults to 10 s.
	DrainTimeout time.Duration

	// HoldMin is the wait before a batch that could not be done is handed over again, and before Redis is asked
	// again after an error. It doubles with each further try, up to HoldMax. Defaults to 1 s.
	HoldMin time.Duration

	// HoldMax is the longest such wait. A start's Retry-After may raise it up to 30 s. Defaults to 30 s.
	HoldMax time.Duration

	// OnError says what an error of the handler other than a *BlockedError does. Defaults to ErrorHold.
	OnError ErrorPolicy

	// OnMalformed says what an entry that cannot be decoded does. Defaults to MalformedHold.
	OnMalformed MalformedPolicy

	// OnRejected says what a start does that will not be accepted, however often it is sent. Defaults to RejectedHold.
	OnRejected RejectedPolicy

	// Gaps says what entries that vanish before they were read do to their partition. Defaults to GapContinue.
	Gaps GapPolicy

	// OnGap is told of entries that vanished unread, each entry once, across restarts too: when it was told and the
	// process dies before that is stored, within PersistInterval, it is told again. A hole that grows is told at most
	// every 30 s, with what was added to it. It is called on the partition's own goroutine, one call at a time for a
	// partition, while the others go on: whatever takes long belongs elsewhere, since no entry of the partition is read
	// meanwhile. It may ask for Status. A panic is logged and passed over. Its context ends when Run is stopped, or
	// the position reset. Entries count whatever their type: Redis does not tell. Defaults to none: the log
	// and Status tell too.
	OnGap func(ctx context.Context, gap Gap)

	// InstanceCount is how many instances share the partitions under this consumer's name, each a contiguous part of
	// them. Defaults to the environment's STREAMS_INSTANCE_COUNT, else to 1.
	InstanceCount int

	// InstanceIndex is which of them this one is, from 0. Defaults to the environment's STREAMS_INSTANCE_INDEX, else to
	// the number behind the last dash of POD_NAME, as a StatefulSet gives it, else to 0. An index of InstanceCount or
	// above owns nothing, which the log and Status say.
	InstanceIndex *int

	// Preflight asks Restate's admin API when Run begins whether the workflows are there, and fit. Defaults to nil, which
	// asks nothing.
	Preflight *Preflight

	// TracerProvider and MeterProvider are where the loop's spans and metrics go, under ConsumerScopeName. A Starter has
	// its own. They default to OpenTelemetry's global ones.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Logger gets what an operator wants to know: the events that the README lists. Defaults to none.
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

// FromStored begins behind the stored position. Where none is stored, it begins with the oldest entry, and the
// log says so.
func FromStored() StartFrom { return StartFrom{} }

// FromBeginning begins each Run with the oldest entry, whatever is stored.
func FromBeginning() StartFrom { return StartFrom{kind: startBeginning} }

// FromNow begins each Run behind what the streams hold at that moment, whatever is stored. Messages that came
// while nothing ran are passed over, which loses their starts.
func FromNow() StartFrom { return StartFrom{kind: startNow} }

// FromTime begins each Run with the first entry that was added at that time or later, to the millisecond of the
// server's clock, whatever is stored.
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
	// PersistBackground writes them every PersistInterval. A crash hands the messages since then over again.
	PersistBackground Persist = iota
	// PersistEachBatch writes each before the next batch is handed over. A crash hands over at most one batch of a
	// partition again. Each batch takes a round trip to Redis more.
	PersistEachBatch
)

// ErrorPolicy is what an error of the handler other than a *BlockedError does.
type ErrorPolicy int

const (
	// ErrorHold holds the position and hands the batch over again, as a *BlockedError does.
	ErrorHold ErrorPolicy = iota
	// ErrorSkip logs the error, counts the batch as skipped and moves on: RedisEvents calls that BestEffort. It loses
	// messages. An error while Run is stopping skips nothing.
	ErrorSkip
	// ErrorStop stops the partition and keeps its position. The others go on. Only a reset of its position, or another
	// Run, makes it go on.
	ErrorStop
	// ErrorFail stops every partition, keeps the position, and returns the error from Run.
	ErrorFail
)

// MalformedPolicy is what an entry that cannot be decoded does. Its neighbours are handed over in any case.
type MalformedPolicy int

const (
	// MalformedHold holds the position and tries the entry again, as a *BlockedError does.
	MalformedHold MalformedPolicy = iota
	// MalformedSkip logs the entry's id, counts it as skipped and moves on. Its body stays in the stream until that
	// is trimmed.
	MalformedSkip
	// MalformedPark puts the entry aside, as it stands, and then moves on: Consumer.Parked lists it, Consumer.Replay and
	// Consumer.Discard take it out. While it cannot be put aside, it holds.
	MalformedPark
)

// RejectedPolicy is what an entry does whose start the ingress refuses for good, or for which there is no start that could
// be sent: 400, 405, 413, 414, 422 and 431, an error of Map, an unfit workflow, key or header, an input that cannot be
// encoded. Everything else is held whatever the policy: 401, 403, 404, timeouts, 5xx, panics.
type RejectedPolicy int

const (
	// RejectedHold holds the position and hands the entry over again, as for any other start that was not accepted.
	RejectedHold RejectedPolicy = iota
	// RejectedPark puts the entry aside, as it stands, once it was refused in the same way twice, HoldMin apart, and then
	// moves on: see MalformedPark. An entry behind it with the same workflow and key is posted then.
	//
	// An error of Map that time would mend is parked as well: with this policy, let Map return one only for a message that is
	// wrong.
	//
	// With a handler other than a Starter, that is an entry which a BlockedError of the handler's own making names, alone,
	// with a Reason and a Status that say so. Nothing is parked while Run is stopping.
	RejectedPark
)

// withDefaults fills in the zero fields and refuses what is contradictory.
func (o ConsumerOptions) withDefaults() (ConsumerOptions, error) {
	err := errors.Join(
		orDefault("Partitions", &o.Partitions, 0),
		orDefault("BatchSize", &o.BatchSize, DefaultBatchSize),
		orDefault("Block", &o.Block, DefaultBlock),
		orDefault("ReadAhead", &o.ReadAhead, DefaultReadAhead),
		timeOrDefault("PersistInterval", &o.PersistInterval, DefaultPersistInterval),
		timeOrDefault("DrainTimeout", &o.DrainTimeout, DefaultDrainTimeout),
		timeOrDefault("HoldMin", &o.HoldMin, DefaultHoldMin),
		timeOrDefault("HoldMax", &o.HoldMax, DefaultHoldMax),
		orDefault("InstanceCount", &o.InstanceCount, 0),
	)
	switch {
	case err != nil:
		return o, err
	case o.Consumer == "":
		return o, errors.New("Consumer: a name is required")
	case strings.HasSuffix(o.Consumer, ":meta"):
		return o, fmt.Errorf("Consumer: %q ends in :meta, the key of another consumer's meta hash", o.Consumer)
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
	o.Logger = guard(o.Logger)
	return o, nil
}
