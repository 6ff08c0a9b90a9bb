package restatestart

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/ingress"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

// LagLimit is how far Positions.List counts the entries behind one position.
const LagLimit = 1_000_000

// PositionsOptions say whose positions a Positions is about. Only Consumer is required.
type PositionsOptions struct {
	// Consumer is the name under which the positions are kept. Required.
	Consumer string

	// KeyPrefix stands in front of every Redis key, as in ConsumerOptions. Defaults to none.
	KeyPrefix string

	// Partitions is how many partitions the topic has, where its meta hash does not say. Defaults to 1. A number below
	// what the meta hash says is an error of every method.
	Partitions int
}

// Positions looks at a consumer's positions from outside, and moves them, whether the consumer runs or not, and whether
// it is one of this package or of RedisEvents in .NET. It is what an operator's tool is made of: it needs no Consumer,
// keeps nothing between calls, tries nothing twice, and may be used concurrently.
//
// Consumer groups (in .NET: Delivery WorkQueue) keep their positions elsewhere and are not seen.
type Positions struct {
	topic   string
	options PositionsOptions
	keys    wire.Keys
	client  redis.UniversalClient
	admin   *position.Admin
}

// NewPositions makes a Positions of a topic, given by its bare name. The client is never closed here. NewPositions names
// the field that is wrong, and does no I/O.
func NewPositions(client redis.UniversalClient, topic string, options PositionsOptions) (*Positions, error) {
	switch {
	case isNil(client):
		return nil, errors.New("restatestart: the Redis client is nil")
	case topic == "":
		return nil, errors.New("restatestart: the topic is empty")
	case strings.ContainsAny(topic, "{}"):
		return nil, fmt.Errorf("restatestart: the topic %q holds braces: give its bare name, such as orders for the streams s:{orders}:0 and on", topic)
	case options.Consumer == "":
		return nil, errors.New("restatestart: PositionsOptions.Consumer: a name is required")
	case strings.HasSuffix(options.Consumer, ":meta"):
		return nil, fmt.Errorf("restatestart: PositionsOptions.Consumer: %q ends in :meta, the key of another consumer's meta hash", options.Consumer)
	case options.Partitions < 0:
		return nil, fmt.Errorf("restatestart: PositionsOptions.Partitions: %d is negative", options.Partitions)
	}
	keys := wire.Keys{Prefix: options.KeyPrefix, Topic: topic}
	return &Positions{topic: topic, options: options, keys: keys, client: client, admin: position.NewAdmin(client, keys, options.Consumer)}, nil
}

// PartitionPosition is what Redis holds for one partition, encodable as JSON.
type PartitionPosition struct {
	Partition int `json:"partition"`
	// Stream is the partition's Redis key, and Missing tells that there is nothing under it.
	Stream  string `json:"stream"`
	Missing bool   `json:"missing,omitempty"`
	// Position is the id of the last entry that is done, as it was last written: one that runs is ahead of it by up to
	// its PersistInterval. Empty when none is stored. While a reset is pending it is the reset's target.
	Position string `json:"position,omitempty"`
	// Unreadable is what stands in the place of a position and is none, which a consumer takes for nothing stored.
	Unreadable string `json:"unreadable,omitempty"`
	// Writer is the id of the instance that wrote the position; a reset writes as PositionsAdmin. Empty where that is
	// not known.
	Writer string `json:"writer,omitempty"`
	// WrittenAt is when, by the writer's clock. Zero where that is not known.
	WrittenAt time.Time `json:"writtenAt,omitzero"`
	// Length is how many entries the stream holds, First the id of the lowest of them, empty when there is none, and
	// Last the greatest id that the stream ever gave out, its entry being there or not. A position beyond Last belongs
	// to a stream that is gone: what is added is read only once its ids are beyond the position.
	Length int64  `json:"length"`
	First  string `json:"first,omitempty"`
	Last   string `json:"last,omitempty"`
	// Lag is how many entries the stream holds behind Position: exact, whatever was trimmed or deleted. Nil where no
	// position is stored, and where the position is in the middle of the stream with LagLimit entries behind it, or more.
	Lag *int64 `json:"lag,omitempty"`
	// Pending is the reset that waits for the consumer. Nil when none does.
	Pending *PendingReset `json:"pending,omitempty"`
}

// PositionsAdmin is the writer of the positions that a reset stores, the same in .NET.
const PositionsAdmin = wire.AdminWriter

// PendingReset is a reset that no consumer has taken yet.
type PendingReset struct {
	// To is the id behind which the partition goes on.
	To string `json:"to"`
	// Issued is when it was asked for, by the clock of who did. Zero where that is not known.
	Issued time.Time `json:"issued,omitzero"`
}

// List tells about each partition, in order: those of the topic, by its meta hash or PositionsOptions.Partitions, and any
// other that something is stored for. Each partition is looked at in one moment, and then, where its position is in
// the middle of the stream, the entries behind it are counted, up to LagLimit, in steps that are short for the server.
func (p *Positions) List(ctx context.Context) ([]PartitionPosition, error) {
	list, err := p.list(ctx)
	if err != nil {
		return nil, p.wrap("list positions", err)
	}
	return list, nil
}

func (p *Positions) list(ctx context.Context) ([]PartitionPosition, error) {
	partitions, err := p.partitions(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]PartitionPosition, 0, len(partitions))
	for _, partition := range partitions {
		view, err := p.admin.View(ctx, partition)
		if err != nil {
			return nil, err
		}
		found := p.describe(partition, view)
		if found.Lag, err = p.lag(ctx, partition, view); err != nil {
			return nil, err
		}
		list = append(list, found)
	}
	return list, nil
}

// partitions are the topic's, and those that something is stored for.
func (p *Positions) partitions(ctx context.Context) ([]int, error) {
	partitions, err := p.admin.Partitions(ctx)
	if err != nil {
		return nil, err
	}
	count, err := p.count(ctx)
	if err != nil {
		return nil, err
	}
	for partition := range max(count, 1) {
		partitions = append(partitions, partition)
	}
	slices.Sort(partitions)
	return slices.Compact(partitions), nil
}

// count is how many partitions the topic has, 0 where nothing says.
func (p *Positions) count(ctx context.Context) (int, error) {
	partitions, version, err := readMeta(ctx, p.client, p.keys.Meta())
	if err != nil {
		return 0, err
	}
	recorded, err := parseMeta(partitions, version)
	switch {
	case err != nil:
		return 0, err
	case p.options.Partitions == 0:
		return recorded, nil
	case p.options.Partitions < recorded:
		return 0, fmt.Errorf("PositionsOptions.Partitions is %d, the topic has %d", p.options.Partitions, recorded)
	default:
		return p.options.Partitions, nil
	}
}

func (p *Positions) describe(partition int, view position.View) PartitionPosition {
	found := PartitionPosition{
		Partition: partition, Stream: p.keys.Stream(partition), Missing: !view.Exists, Unreadable: ingress.Cut(view.Unreadable, maxPrintable),
		Writer: view.Writer, WrittenAt: view.WrittenAt, Length: view.Length, Pending: pendingReset(view),
	}
	if view.Found {
		found.Position = view.ID.String()
	}
	if view.Exists {
		found.Last = view.Last.String()
	}
	if view.Length > 0 {
		found.First = view.First.String()
	}
	return found
}

func pendingReset(view position.View) *PendingReset {
	if view.Reset == nil {
		return nil
	}
	return &PendingReset{To: view.Reset.Target.String(), Issued: wire.ParseIssued(view.Reset.Value)}
}

// lag counts only where the ends of the stream do not tell.
func (p *Positions) lag(ctx context.Context, partition int, view position.View) (*int64, error) {
	var behind int64
	switch {
	case !view.Found:
		return nil, nil //nolint:nilnil // no position, no lag
	case view.Length == 0 || view.Last.Compare(view.ID) <= 0:
	case view.First.Compare(view.ID) > 0:
		behind = view.Length
	default:
		counted, more, err := p.admin.Count(ctx, partition, view.ID, view.Last, LagLimit)
		if err != nil || more {
			return nil, err
		}
		behind = counted
	}
	return &behind, nil
}

func (p *Positions) wrap(doing string, err error) error {
	return fmt.Errorf("restatestart: %s of consumer %s on topic %s: %w", doing, p.options.Consumer, p.topic, err)
}

// parseMeta reads what the topic's meta hash says: how many partitions there are, 0 when it says nothing.
func parseMeta(partitions, version string) (int, error) {
	if v, err := strconv.Atoi(version); err == nil && v != wire.Version {
		return 0, fmt.Errorf("%w %d, this package reads %d", errVersion, v, wire.Version)
	}
	count, _ := strconv.Atoi(partitions) // RedisEvents takes an unreadable count for none
	return max(count, 0), nil
}
