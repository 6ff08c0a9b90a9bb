package e2e_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// replicated is a primary, its replica, and a client of whichever is current.
type replicated struct {
	primary, replica *servers.Redis
	client           redis.UniversalClient
	current          atomic.Value
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	p := &replicated{primary: servers.StartRedis(t, servers.RedisOptions{})}
	host, port, err := net.SplitHostPort(p.primary.Addr())
	require.NoError(t, err)
	p.replica = servers.StartRedis(t, servers.RedisOptions{Args: []string{"--replicaof", host, port, "--repl-diskless-sync-delay", "0"}})
	kit.Await(t, func() bool {
		text, _ := p.replica.Client().Info(t.Context(), "replication").Result()
		return strings.Contains(text, "master_link_status:up")
	}, "the replica is in sync")
	p.current.Store(p.primary.Addr())
	options := kit.ClientOptions(p.primary.Addr())
	options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, p.current.Load().(string))
	}
	p.client = kit.Connect(t, options)
	return p
}

// promote ends the replication: the replica keeps what it has.
func (p *replicated) promote(t *testing.T) {
	t.Helper()
	require.NoError(t, p.replica.Client().ReplicaOf(t.Context(), "NO", "ONE").Err())
}

// failOver moves the client to the replica and kills the primary.
func (p *replicated) failOver(t *testing.T) {
	t.Helper()
	p.current.Store(p.replica.Addr())
	require.NoError(t, p.primary.Kill())
}
