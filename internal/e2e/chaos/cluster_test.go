package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// nodes is a cluster of three masters.
type nodes []*servers.Redis

const slots = 16384

func newNodes(t *testing.T) nodes {
	t.Helper()
	const count = 3
	var n nodes
	for range count {
		n = append(n, servers.StartRedis(t, servers.RedisOptions{Cluster: true, Args: []string{"--cluster-node-timeout", "2000"}}))
	}
	for i, node := range n {
		require.NoError(t, node.Client().ClusterAddSlotsRange(t.Context(), i*slots/count, (i+1)*slots/count-1).Err())
		// With the port of its bus, which is not 10 000 above the other.
		bus, err := node.Client().ConfigGet(t.Context(), "cluster-port").Result()
		require.NoError(t, err)
		host, port := split(node)
		require.NoError(t, n[0].Client().Do(t.Context(), "CLUSTER", "MEET", host, port, bus["cluster-port"]).Err())
	}
	require.NoError(t, n.agree(t.Context()))
	return n
}

// agree waits until every node reports the cluster as whole.
func (n nodes) agree(ctx context.Context) error {
	return retry(ctx, "agree on the cluster", func(ctx context.Context) error {
		for _, node := range n {
			text, err := node.Client().ClusterInfo(ctx).Result()
			switch {
			case err != nil:
				return err
			case !strings.Contains(text, "cluster_state:ok"), !strings.Contains(text, fmt.Sprintf("cluster_known_nodes:%d", len(n))):
				return errors.New(text)
			}
		}
		return nil
	})
}

// owner returns the node that serves a slot.
func (n nodes) owner(ctx context.Context, slot int) (*servers.Redis, error) {
	shards, err := n[0].Client().ClusterShards(ctx).Result()
	if err != nil {
		return nil, err
	}
	for _, shard := range shards {
		serves := slices.ContainsFunc(shard.Slots, func(r redis.SlotRange) bool { return r.Start <= int64(slot) && int64(slot) <= r.End })
		for _, node := range n {
			if _, port := split(node); serves && port == strconv.FormatInt(shard.Nodes[0].Port, 10) {
				return node, nil
			}
		}
	}
	return nil, errors.New("no node serves the slot")
}

// migrate moves a slot to another node, key by key, as an operator does, with a pause after each.
func (n nodes) migrate(ctx context.Context, slot int, choice int, pause time.Duration) error {
	var from *servers.Redis
	err := retry(ctx, "find the slot", func(ctx context.Context) (err error) {
		from, err = n.owner(ctx, slot)
		return err
	})
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(n), func(node *servers.Redis) bool { return node == from })
	to := others[choice%len(others)]
	fromID, err := from.Client().Do(ctx, "CLUSTER", "MYID").Text()
	if err != nil {
		return err
	}
	toID, err := to.Client().Do(ctx, "CLUSTER", "MYID").Text()
	if err != nil {
		return err
	}
	set := func(node *servers.Redis, args ...any) error {
		return retry(ctx, "set the slot", func(ctx context.Context) error {
			return node.Client().Do(ctx, append([]any{"CLUSTER", "SETSLOT", slot}, args...)...).Err()
		})
	}
	if err := errors.Join(set(to, "IMPORTING", fromID), set(from, "MIGRATING", toID)); err != nil {
		return err
	}
	host, port := split(to)
	for {
		keys, err := from.Client().ClusterGetKeysInSlot(ctx, slot, 1).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		if err := from.Client().Migrate(ctx, host, port, keys[0], 0, repairLimit).Err(); err != nil {
			return fmt.Errorf("migrate %s: %w", keys[0], err)
		}
		kit.Sleep(ctx, pause)
	}
	// The new owner first: otherwise nobody owns the slot for a moment.
	err = errors.Join(set(to, "NODE", toID), set(from, "NODE", toID))
	for _, node := range others {
		if node != to {
			err = errors.Join(err, set(node, "NODE", toID))
		}
	}
	return err
}

func (e *env) clusterActions(n nodes, slot int) {
	e.actions["redis migrate"] = func(ctx context.Context, fault schedule.Fault) error {
		ctx, cancel := repairContext(ctx)
		defer cancel()
		return n.migrate(ctx, slot, fault.Choice, fault.For/time.Duration(e.partitions+3))
	}
	// onOwner is an outage of the node that serves the topic.
	onOwner := func(breakIt, repair func(ctx context.Context, node *servers.Redis) error) action {
		return func(ctx context.Context, fault schedule.Fault) error {
			node, err := n.owner(ctx, slot)
			if err != nil {
				return err
			}
			return outage(
				func(ctx context.Context) error { return breakIt(ctx, node) },
				func(ctx context.Context) error { return errors.Join(repair(ctx, node), n.agree(ctx)) },
			)(ctx, fault)
		}
	}
	e.actions["redis kill"] = onOwner(
		func(_ context.Context, node *servers.Redis) error { return node.Kill() },
		func(ctx context.Context, node *servers.Redis) error { return node.Restart(ctx) })
	e.actions["redis freeze"] = onOwner(
		func(_ context.Context, node *servers.Redis) error { return node.Freeze() },
		func(_ context.Context, node *servers.Redis) error { return node.Thaw() })
	e.actions["redis client-kill"] = onOwner(
		func(ctx context.Context, node *servers.Redis) error {
			return node.Client().Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
		},
		func(context.Context, *servers.Redis) error { return nil })
}

var clustered = schedule.Domain{
	Name: "redis",
	Kinds: []schedule.Kind{
		{Name: "migrate", Min: 500 * time.Millisecond, Max: 3 * time.Second},
		{Name: "kill", Max: 2 * time.Second},
		{Name: "migrate", Min: 500 * time.Millisecond, Max: 3 * time.Second},
		{Name: "client-kill"},
		{Name: "freeze", Min: time.Second, Max: 4 * time.Second},
	},
	QuietMin: time.Second, QuietMax: 3 * time.Second,
}

func TestNoMigrationOfASlotLosesAStart(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	seed, duration := seed(), *durationFlag/4
	faults := newSchedule(t, seed, duration, consumers, clustered, network("ingress"))
	n := newNodes(t)
	config := redisConfig{Cluster: true}
	for _, node := range n {
		config.Addresses = append(config.Addresses, node.Addr())
	}
	admin := config.connect()
	t.Cleanup(func() { assert.NoError(t, admin.Close()) })
	e := newEnv(t, seed, setting{
		name: "slots", redis: config, direct: config, admin: admin, partitions: 4, instances: 2, publishers: 2, pause: 40 * time.Millisecond,
	})
	slot, err := admin.ClusterKeySlot(t.Context(), e.topic.Meta()).Result()
	require.NoError(t, err)
	e.clusterActions(n, int(slot))
	e.assertNone(e.run(faults, duration))
}
