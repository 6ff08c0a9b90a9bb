package e2e_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/position/positiontest"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestPositionsOnARealRedis(t *testing.T) {
	t.Parallel()
	server := servers.StartRedis(t, servers.RedisOptions{})
	client := connect(t, server.Addr())
	var opened atomic.Int64
	t.Cleanup(func() { t.Logf("%d stores on redis-server %s", opened.Load(), server.Version()) })
	positiontest.Run(t, func(t *testing.T) positiontest.Harness {
		t.Helper()
		keys := wire.Keys{Prefix: "e2e:", Topic: fmt.Sprintf("positions-%d", opened.Add(1))}
		return positiontest.Harness{
			Store: position.NewRedis(client, keys, consumerName, wire.DeriveInstanceID("svc-0")),
			Other: position.NewRedis(client, keys, consumerName, wire.DeriveInstanceID("svc-1")),
			RequestReset: func(partition int, value string) {
				assert.NoError(t, client.HSet(t.Context(), keys.Positions(consumerName), wire.ResetField(partition), value).Err())
			},
		}
	})
}
