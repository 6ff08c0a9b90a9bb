package e2e_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/parked/parkedtest"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/position/positiontest"
	"github.com/redisevents/restatestart/internal/wire"
)

// The suites that the stores pass on a double, with both protocols and in a cluster, where a script may touch the keys of one
// slot only.
func TestStoresOnARealRedis(t *testing.T) {
	t.Parallel()
	server, cluster := servers.StartRedis(t, noFsync), servers.StartRedis(t, servers.RedisOptions{Cluster: true})
	require.NoError(t, cluster.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	kit.Await(t, func() bool {
		text, err := cluster.Client().ClusterInfo(t.Context()).Result()
		return err == nil && strings.Contains(text, "cluster_state:ok")
	})
	resp2, resp3, ofCluster := kit.ClientOptions(server.Addr()), kit.ClientOptions(server.Addr()), kit.ClientOptions(cluster.Addr())
	resp2.Protocol, resp3.Protocol, ofCluster.IsClusterMode = 2, 3, true
	var opened atomic.Int64
	t.Cleanup(func() { t.Logf("%d stores on redis-server %s", opened.Load(), server.Version()) })
	for name, options := range map[string]*redis.UniversalOptions{"RESP2": resp2, "RESP3": resp3, "cluster": ofCluster} {
		client := kit.Connect(t, options)
		newKeys := func() wire.Keys { return wire.Keys{Prefix: name + ":", Topic: fmt.Sprintf("topic-%d", opened.Add(1))} }
		t.Run("parked, "+name, func(t *testing.T) {
			t.Parallel()
			parkedtest.Run(t, func(t *testing.T) parkedtest.Harness {
				t.Helper()
				keys := newKeys()
				return parkedtest.OnRedis(t, client, keys, kit.ConsumerName, parked.NewRedis(client, keys, kit.ConsumerName))
			})
		})
		t.Run("positions, "+name, func(t *testing.T) {
			t.Parallel()
			positiontest.Run(t, func(t *testing.T) positiontest.Harness {
				t.Helper()
				keys := newKeys()
				return positiontest.Harness{
					Store: position.NewRedis(client, keys, kit.ConsumerName, wire.DeriveInstanceID("svc-0")),
					Other: position.NewRedis(client, keys, kit.ConsumerName, wire.DeriveInstanceID("svc-1")),
					RequestReset: func(partition int, value string) {
						assert.NoError(t, client.HSet(t.Context(), keys.Positions(kit.ConsumerName), wire.ResetField(partition), value).Err())
					},
				}
			})
		})
	}
}
