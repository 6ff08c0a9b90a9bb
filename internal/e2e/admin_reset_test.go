package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/internal/wire"
)

// admin is the Positions of a topic's consumer.
func (p *topic) admin(t *testing.T, client redis.UniversalClient) *restatestart.Positions {
	t.Helper()
	positions, err := restatestart.NewPositions(client, p.Topic, restatestart.PositionsOptions{Consumer: consumerName})
	require.NoError(t, err)
	return positions
}

// settled waits until everything is handled and written, and no reset waits.
func (p *topic) settled(t *testing.T, positions *restatestart.Positions) {
	t.Helper()
	require.Eventually(t, func() bool {
		list, err := positions.List(t.Context())
		return err == nil && !slices.ContainsFunc(list, func(at restatestart.PartitionPosition) bool {
			return at.Lag == nil || *at.Lag > 0 || at.Pending != nil
		})
	}, patience, interval, "the positions are at the end and no reset is pending")
}

var errUnwanted = errors.New("this one never works")

// picky is a Handler that fails on one message, until it is told to take it.
type picky struct {
	handled

	unwanted atomic.Value // string
}

func (p *picky) Handle(ctx context.Context, batch []restatestart.Message[bet]) error {
	if batch[0].ID == p.unwanted.Load() {
		return errUnwanted
	}
	return p.handled.Handle(ctx, batch)
}

func TestAPreviewedResetIsTakenWhateverTheConsumerDoes(t *testing.T) {
	t.Parallel()
	const entries, at = 10, 5 // the one it is held at
	for name, row := range map[string]struct {
		options restatestart.ConsumerOptions
		state   restatestart.State
		failing bool
		to      int // goes on behind this entry
		again   int64
		skipped int64
	}{
		"idle":            {state: restatestart.StateIdle, to: 3, again: 6},
		"held, stepped":   {state: restatestart.StateBlocked, failing: true, to: at, skipped: 1},
		"held, back":      {state: restatestart.StateBlocked, failing: true, to: 1, again: 3},
		"stopped":         {options: restatestart.ConsumerOptions{OnError: restatestart.ErrorStop}, state: restatestart.StateStopped, failing: true, to: at, skipped: 1},
		"stopped, back":   {options: restatestart.ConsumerOptions{OnError: restatestart.ErrorStop}, state: restatestart.StateStopped, failing: true, to: -1, again: 5},
		"not running":     {to: 8, again: 1},
		"not running yet": {failing: true, to: at, skipped: 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
			client := connect(t, server.Addr())
			bets := newTopic(t, client, "bets_settled", 1)
			positions := bets.admin(t, client)
			ids := make([]string, entries)
			for n := range ids {
				ids[n] = bets.addTo(t, 0, bet{ID: fmt.Sprintf("b-%d", n)})
			}
			seen := &picky{}
			reached := entries
			if row.failing {
				seen.unwanted.Store(ids[at])
				reached = at
			}
			row.options.BatchSize, row.options.HoldMin = 1, 20*time.Second // no try comes by itself
			ran := name != "not running yet"
			if ran {
				consumer := run(t, client, bets, seen, row.options)
				seen.await(t, reached, patience)
				require.Eventually(t, func() bool {
					stored, err := bets.position(t.Context(), 0)
					return err == nil && stored == ids[reached-1] && (row.state == "" || consumer.Status().Partitions[0].State == row.state)
				}, patience, interval)
				if row.state == "" {
					consumer.stop(t)
				}
			} else {
				reached = 0
			}

			target := restatestart.ToBeginning()
			if row.to >= 0 {
				target = restatestart.ToID(ids[row.to])
			}
			preview, err := positions.Preview(t.Context(), 0, target)
			require.NoError(t, err)
			assert.Equal(t, row.again, preview.Again)
			assert.Equal(t, row.skipped, preview.Skipped)
			assert.False(t, preview.Trimmed)
			seen.unwanted.Store("")
			began := time.Now()
			done, err := positions.Reset(t.Context(), 0, target)
			require.NoError(t, err)
			assert.Equal(t, preview, done)
			if row.state == "" {
				run(t, client, bets, seen, row.options)
			}
			want := append(slices.Clone(ids[:reached]), ids[row.to+1:]...)
			seen.await(t, len(want), patience)
			took := time.Since(began)
			bets.settled(t, positions)
			assert.Equal(t, want, seen.entries())
			assert.Less(t, took, 5*time.Second, "live, not with the next try of the hold")
			t.Logf("%d again, %d skipped, after %s", row.again, row.skipped, took.Round(time.Millisecond))
		})
	}
}

// Resets come while messages flow: the consumer never goes on anywhere else than behind a target, and never leaves
// a message out.
func TestResetsDoNotRaceWithARunningConsumer(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	client := connect(t, server.Addr())
	bets := newTopic(t, client, "bets_settled", 1)
	positions := bets.admin(t, client)
	seen := &handled{}
	consumer := run(t, client, bets, seen, restatestart.ConsumerOptions{BatchSize: 7, Block: 10 * time.Millisecond, PersistInterval: 5 * time.Millisecond})

	var ids []string // read once the publisher has ended
	ctx, stop := context.WithCancel(t.Context())
	var publisher sync.WaitGroup
	publisher.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			id, err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: bets.Stream(0), Values: []string{"b", `{"betId":"b"}`}}).Result()
			require.NoError(t, err)
			ids = append(ids, id)
			if n%10 == 0 {
				rest(ctx, time.Millisecond)
			}
		}
	})
	seen.await(t, 1, patience)
	const resets = 40
	targets := map[string]bool{}
	for range resets {
		rest(t.Context(), time.Duration(10+rand.IntN(60))*time.Millisecond)
		before := seen.entries() // so that no reset passes anything over
		target := before[max(0, len(before)-1-rand.IntN(200))]
		preview, err := positions.Reset(t.Context(), 0, restatestart.ToID(target))
		require.NoError(t, err)
		targets[preview.To] = true
	}
	stop()
	publisher.Wait()
	bets.settled(t, positions)
	consumer.stop(t)

	place := make(map[string]int, len(ids))
	for n, id := range ids {
		place[id] = n
	}
	got, jumps := seen.entries(), 0
	missed := make(map[string]bool, len(ids))
	for _, id := range ids {
		missed[id] = true
	}
	for i, id := range got {
		delete(missed, id)
		if i > 0 && place[id] != place[got[i-1]]+1 {
			jumps++
			assert.True(t, targets[ids[place[id]-1]], "it went on at %s, behind no target", id)
		}
	}
	assert.Empty(t, missed)
	assert.Equal(t, ids[len(ids)-1], got[len(got)-1])
	assert.Positive(t, jumps)
	t.Logf("%d messages, %d resets, %d jumps, %d handled", len(ids), resets, jumps, len(got))
}

func TestAResetThatIsWithdrawnInTimeMovesNothing(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	client := connect(t, server.Addr())
	bets := newTopic(t, client, "bets_settled", 1)
	positions := bets.admin(t, client)
	ids := []string{bets.addTo(t, 0, bet{ID: "b-0"}), bets.addTo(t, 0, bet{ID: "b-1"}), bets.addTo(t, 0, bet{ID: "b-2"})}
	seen, release := &handled{}, make(chan struct{})
	consumer := run(t, client, bets, restatestart.HandlerFunc[bet](func(ctx context.Context, batch []restatestart.Message[bet]) error {
		if batch[0].ID == ids[1] {
			<-release
		}
		return seen.Handle(ctx, batch)
	}), restatestart.ConsumerOptions{BatchSize: 1, PersistInterval: 10 * time.Millisecond})
	require.Eventually(t, func() bool {
		stored, err := bets.position(t.Context(), 0)
		return err == nil && stored == ids[0]
	}, patience, interval)

	_, err := positions.Reset(t.Context(), 0, restatestart.ToBeginning())
	require.NoError(t, err)
	rest(t.Context(), 200*time.Millisecond) // the consumer has seen it, and waits for the batch in hand
	withdrawn, err := positions.Withdraw(t.Context(), 0)
	require.NoError(t, err)
	require.True(t, withdrawn)
	stored, err := bets.position(t.Context(), 0)
	require.NoError(t, err)
	assert.Equal(t, ids[0], stored)
	close(release)
	bets.settled(t, positions)
	consumer.stop(t)
	assert.Equal(t, ids, seen.entries())

	withdrawn, err = positions.Withdraw(t.Context(), 0)
	require.NoError(t, err)
	assert.False(t, withdrawn)
}

// The original's consumer writes its positions over whatever stands there, looks for markers with every tick, and takes
// them away with the next.
func TestTheOriginalsConsumerTakesTheReset(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{Fsync: "no"})
	client := connect(t, server.Addr())
	bets := newTopic(t, client, "bets_settled", 1)
	positions := bets.admin(t, client)
	ids := []string{bets.addTo(t, 0, bet{ID: "b-0"}), bets.addTo(t, 0, bet{ID: "b-1"}), bets.addTo(t, 0, bet{ID: "b-2"})}
	hash, writer := bets.Positions(consumerName), wire.DeriveInstanceID("svc-0")
	flush := func(id string) {
		t.Helper()
		require.NoError(t, client.HSet(t.Context(), hash, "0", id+"|"+writer.String()).Err())
	}
	flush(ids[1])
	preview, err := positions.Reset(t.Context(), 0, restatestart.ToBeginning())
	require.NoError(t, err)
	assert.EqualValues(t, 2, preview.Again)

	flush(ids[2]) // a tick that did not look yet
	list, err := positions.List(t.Context())
	require.NoError(t, err)
	require.NotNil(t, list[0].Pending)
	assert.Equal(t, "0-0", list[0].Pending.To)
	marker, err := client.HGet(t.Context(), hash, wire.ResetField(0)).Result()
	require.NoError(t, err)
	target, err := wire.ParseReset(marker)
	require.NoError(t, err)
	assert.True(t, target.IsZero())
	require.NoError(t, client.HDel(t.Context(), hash, wire.ResetField(0)).Err())
	flush(ids[0])
	list, err = positions.List(t.Context())
	require.NoError(t, err)
	assert.Nil(t, list[0].Pending)
	assert.Equal(t, writer.String(), list[0].Writer)
	assert.EqualValues(t, 2, *list[0].Lag)
}
