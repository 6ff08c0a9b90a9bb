package kit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/wire"
)

// Topic is a RedisEvents topic as its publisher sees it.
type Topic struct {
	wire.Keys

	Client     redis.UniversalClient
	Partitions int
}

// NewTopic writes the topic's meta hash, as its first publisher does.
func NewTopic(t *testing.T, client redis.UniversalClient, name string, partitions int) *Topic {
	t.Helper()
	p := &Topic{Keys: wire.Keys{Topic: name}, Client: client, Partitions: partitions}
	require.NoError(t, client.HSet(t.Context(), p.Meta(), wire.MetaPartitions, partitions, wire.MetaVersion, wire.Version).Err())
	return p
}

// XAdd is the command that publishes a bet.
func (p *Topic) XAdd(partition int, b Bet) (*redis.XAddArgs, error) {
	body, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("encode bet %s: %w", b.ID, err)
	}
	entry := wire.Entry{Body: string(body), HasBody: true, Type: "BetSettled", Key: b.ID}
	return &redis.XAddArgs{Stream: p.Stream(partition), Values: entry.Fields()}, nil
}

// Add publishes one bet to a partition and returns the entry's id.
func (p *Topic) Add(t *testing.T, partition int, b Bet) string {
	t.Helper()
	args, err := p.XAdd(partition, b)
	require.NoError(t, err)
	id, err := p.Client.XAdd(t.Context(), args).Result()
	require.NoError(t, err)
	return id
}

// AddN publishes n bets without a claim to partition 0 and returns the entries' ids.
func (p *Topic) AddN(t *testing.T, n int) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = p.Add(t, 0, Bet{ID: fmt.Sprintf("b-%d", i)})
	}
	return ids
}

// Publish publishes bets round robin, in order.
func (p *Topic) Publish(t *testing.T, bets []Bet) {
	t.Helper()
	for chunk := range slices.Chunk(bets, 500) {
		pipeline := p.Client.Pipeline()
		for n, b := range chunk {
			// Bets with a claim come at fixed distances: the shift gives every partition some of them.
			args, err := p.XAdd((n+n/10)%p.Partitions, b)
			require.NoError(t, err)
			pipeline.XAdd(t.Context(), args)
		}
		_, err := pipeline.Exec(t.Context())
		require.NoError(t, err)
	}
}

// Position returns the id stored for a partition, "" when there is none.
func (p *Topic) Position(ctx context.Context, partition int) (string, error) {
	value, err := p.Client.HGet(ctx, p.Positions(ConsumerName), wire.PositionField(partition)).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id, err := wire.ParsePosition(value)
	if err != nil {
		return "", fmt.Errorf("position of partition %d: %w", partition, err)
	}
	return id.String(), nil
}

// Last returns the id of the last entry of a partition, "" when it is empty.
func (p *Topic) Last(ctx context.Context, partition int) (string, error) {
	entries, err := p.Client.XRevRangeN(ctx, p.Stream(partition), "+", "-", 1).Result()
	if err != nil || len(entries) == 0 {
		return "", err
	}
	return entries[0].ID, nil
}

// Behind lists the partitions whose stored position is not the end of their stream.
func (p *Topic) Behind(ctx context.Context) (behind []string, err error) {
	for partition := range p.Partitions {
		stored, err := p.Position(ctx, partition)
		if err != nil {
			return nil, err
		}
		last, err := p.Last(ctx, partition)
		if err != nil {
			return nil, err
		}
		if stored != last {
			behind = append(behind, fmt.Sprintf("%d: %q of %q", partition, stored, last))
		}
	}
	return behind, nil
}

// AwaitPosition waits until id is the stored position of a partition.
func (p *Topic) AwaitPosition(t *testing.T, partition int, id string) {
	t.Helper()
	Await(t, func() bool {
		position, err := p.Position(t.Context(), partition)
		return err == nil && position == id
	}, "the position of partition %d is %s", partition, id)
}

// AwaitEnd waits, for up to a minute, until every position is at the end of its stream.
func (p *Topic) AwaitEnd(t *testing.T) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		behind, err := p.Behind(t.Context())
		require.NoError(c, err)
		require.Empty(c, behind)
	}, time.Minute, Interval)
}

// Bodies returns the bodies of the entries up to the stored positions.
func (p *Topic) Bodies(t *testing.T) (bodies []string) {
	t.Helper()
	for partition := range p.Partitions {
		stored, err := p.Position(t.Context(), partition)
		require.NoError(t, err)
		if stored == "" {
			continue
		}
		entries, err := p.Client.XRange(t.Context(), p.Stream(partition), "-", stored).Result()
		require.NoError(t, err)
		for _, entry := range entries {
			body, _ := entry.Values["b"].(string)
			bodies = append(bodies, body)
		}
	}
	return bodies
}
