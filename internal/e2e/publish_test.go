package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/wire"
)

// topic is a RedisEvents topic as its publisher sees it.
type topic struct {
	wire.Keys

	client     redis.UniversalClient
	partitions int
}

// newTopic records a topic as the first publisher does.
func newTopic(t *testing.T, client redis.UniversalClient, name string, partitions int) *topic {
	t.Helper()
	p := &topic{Keys: wire.Keys{Topic: name}, client: client, partitions: partitions}
	require.NoError(t, client.HSet(t.Context(), p.Meta(), wire.MetaPartitions, partitions, wire.MetaVersion, wire.Version).Err())
	return p
}

// retryPause is how long a publisher waits before it adds again what Redis did not acknowledge.
const retryPause = 20 * time.Millisecond

// spread publishes bets round robin, in order, at most chunk in one round trip and with a pause after each. What is not
// acknowledged is added again until it is, which may leave it there twice; it returns how many adds that took.
func (p *topic) spread(ctx context.Context, bets []bet, chunk int, pause time.Duration) (repeats int, err error) {
	for first := 0; first < len(bets); first += chunk {
		// The bets with a claim stand at fixed distances: moving on by one each time gives all partitions of them.
		adds := make([]add, 0, chunk)
		for i, b := range bets[first:min(first+chunk, len(bets))] {
			n := first + i
			adds = append(adds, add{(n + n/10) % p.partitions, b})
		}
		for {
			if adds, err = p.addAll(ctx, adds); len(adds) == 0 {
				break
			}
			if ctx.Err() != nil {
				return repeats, err
			}
			repeats += len(adds)
			rest(ctx, retryPause)
		}
		if pause > 0 {
			rest(ctx, pause)
		}
	}
	return repeats, nil
}

// publish is spread for a Redis that is up.
func (p *topic) publish(t *testing.T, bets []bet) {
	t.Helper()
	const chunk = 500
	repeats, err := p.spread(t.Context(), bets, chunk, 0)
	require.NoError(t, err)
	require.Zero(t, repeats)
}

// addTo publishes one bet to a partition and returns the entry's id.
func (p *topic) addTo(t *testing.T, partition int, b bet) string {
	t.Helper()
	args, err := p.xadd(add{partition, b})
	require.NoError(t, err)
	id, err := p.client.XAdd(t.Context(), args).Result()
	require.NoError(t, err)
	return id
}

type add struct {
	partition int
	bet       bet
}

func (p *topic) xadd(a add) (*redis.XAddArgs, error) {
	body, err := json.Marshal(a.bet)
	if err != nil {
		return nil, fmt.Errorf("encode bet %s: %w", a.bet.ID, err)
	}
	entry := wire.Entry{Body: string(body), HasBody: true, Type: "BetSettled", Key: a.bet.ID}
	return &redis.XAddArgs{Stream: p.Stream(a.partition), Values: entry.Fields()}, nil
}

// addAll returns the adds that were not acknowledged.
func (p *topic) addAll(ctx context.Context, adds []add) ([]add, error) {
	pipeline := p.client.Pipeline()
	for _, a := range adds {
		args, err := p.xadd(a)
		if err != nil {
			return adds, err
		}
		pipeline.XAdd(ctx, args)
	}
	answers, err := pipeline.Exec(ctx)
	if err == nil {
		return nil, nil
	}
	if len(answers) != len(adds) {
		return adds, errors.Join(err, fmt.Errorf("%d answers to %d adds", len(answers), len(adds)))
	}
	var left []add
	for i, answer := range answers {
		if answer.Err() != nil {
			left = append(left, adds[i])
		}
	}
	return left, err
}

// rest waits in real time: what these tests wait for happens in another process.
func rest(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
