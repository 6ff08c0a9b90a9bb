package e2e_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// A failover that keeps the entry and loses the position that was written after it.
func TestAPositionLostByAFailoverIsWrittenAgain(t *testing.T) {
	old := servers.StartRedis(t, servers.RedisOptions{})
	host, port, _ := net.SplitHostPort(old.Addr())
	next := servers.StartRedis(t, servers.RedisOptions{Args: []string{"--replicaof", host, port, "--repl-diskless-sync-delay", "0"}})
	require.Eventually(t, func() bool {
		text, _ := next.Client().Info(t.Context(), "replication").Result()
		return strings.Contains(text, "master_link_status:up")
	}, patience, interval)
	var current atomic.Value
	current.Store(old.Addr())
	options := clientOptions(old.Addr())
	options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, current.Load().(string))
	}
	client := connectWith(t, options)
	onOld := newTopic(t, old.Client(), "bets_settled", 1)
	onNext := &topic{Keys: onOld.Keys, client: next.Client(), partitions: 1}
	seen := &handled{}
	consumer := run(t, client, onOld, seen, restatestart.ConsumerOptions{PersistInterval: 2 * time.Second, HoldMin: 50 * time.Millisecond})
	id := onOld.addTo(t, 0, bet{ID: "first"})
	seen.await(t, 1, patience)
	require.Eventually(t, func() bool { last, _ := onNext.last(t.Context(), 0); return last == id }, patience, interval)
	require.NoError(t, next.Client().Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	require.Eventually(t, func() bool { p, _ := onOld.position(t.Context(), 0); return p == id }, patience, interval)
	current.Store(next.Addr())
	require.NoError(t, old.Kill())
	assert.Eventually(t, func() bool { p, _ := onNext.position(t.Context(), 0); return p == id }, patience, interval,
		"the consumer has handled the entry, and lives")
	assert.True(t, consumer.alive())
	assert.Len(t, seen.entries(), 1)
}
