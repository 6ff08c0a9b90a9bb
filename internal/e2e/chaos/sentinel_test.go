package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// masterName is what the sentinel calls the pair.
const masterName = "bets"

// pair is a master, its replica, and the sentinel that says which is which.
//
// Replication is asynchronous, and for a moment of a failover both are masters. An id means something only within the history of
// one of them: a consumer that has read an entry of the old master may skip an older one that the new master has accepted
// meanwhile. A master that accepts no writes without a replica (min-replicas-to-write) prevents that, but for what a frozen one
// finds in its sockets when it resumes. What is lost with a master is lost all the same, and the check allows for it.
type pair struct {
	one, two *servers.Redis
	sentinel *servers.Redis
}

func newPair(t *testing.T) *pair {
	t.Helper()
	// A replica that must be synchronized again starts at once.
	prompt := []string{
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "2",
	}
	p := &pair{one: servers.StartRedis(t, servers.RedisOptions{Args: prompt})}
	host, port := split(p.one)
	p.two = servers.StartRedis(t, servers.RedisOptions{Args: append([]string{"--replicaof", host, port}, prompt...)})
	p.sentinel = servers.StartRedis(t, servers.RedisOptions{Sentinel: []string{
		"sentinel monitor " + masterName + " " + host + " " + port + " 1",
		"sentinel down-after-milliseconds " + masterName + " 1000",
		"sentinel failover-timeout " + masterName + " 5000",
	}})
	require.NoError(t, p.inSync(t.Context()))
	return p
}

func split(server *servers.Redis) (host, port string) {
	host, port, _ = net.SplitHostPort(server.Addr())
	return host, port
}

// roles returns the master and its replica, as the sentinel sees them.
func (p *pair) roles(ctx context.Context) (master, replica *servers.Redis, err error) {
	reported, err := p.sentinel.Client().Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).StringSlice()
	switch {
	case err != nil:
		return nil, nil, err
	case len(reported) == 2 && net.JoinHostPort(reported[0], reported[1]) == p.one.Addr():
		return p.one, p.two, nil
	case len(reported) == 2 && net.JoinHostPort(reported[0], reported[1]) == p.two.Addr():
		return p.two, p.one, nil
	default:
		return nil, nil, fmt.Errorf("the sentinel knows of %v", reported)
	}
}

// inSync waits until the replica is in sync, and the sentinel knows of it.
func (p *pair) inSync(ctx context.Context) error {
	return retry(ctx, "synchronize the replica", func(ctx context.Context) error {
		master, replica, err := p.roles(ctx)
		if err != nil {
			return err
		}
		text, err := replica.Client().Info(ctx, "replication").Result()
		if err != nil {
			return err
		}
		_, port := split(master)
		if !strings.Contains(text, "master_link_status:up") || !strings.Contains(text, "master_port:"+port) {
			return errors.New("it is not linked to its master")
		}
		return p.promotable(ctx)
	})
}

// promotable returns an error unless the sentinel would promote the replica now. One that was frozen counts as down for a moment
// after it is linked, and a master that dies in that moment would have no successor.
func (p *pair) promotable(ctx context.Context) error {
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: p.sentinel.Addr()})
	defer func() { _ = sentinel.Close() }()
	replicas, err := sentinel.Replicas(ctx, masterName).Result()
	if err != nil {
		return err
	}
	for _, replica := range replicas {
		if replica["flags"] == "slave" && replica["master-link-status"] == "ok" {
			return nil
		}
	}
	return fmt.Errorf("the sentinel knows of no replica that it would promote: %v", replicas)
}

// moved waits until another server than from is the master.
func (p *pair) moved(ctx context.Context, from *servers.Redis) error {
	return retry(ctx, "promote the replica", func(ctx context.Context) error {
		master, _, err := p.roles(ctx)
		if err == nil && master == from {
			err = errors.New("it is still the same")
		}
		return err
	})
}

// follow makes the former master a replica of the new one. The sentinel does so too, after 10 s.
func (p *pair) follow(ctx context.Context) error {
	return retry(ctx, "follow the master", func(ctx context.Context) error {
		master, replica, err := p.roles(ctx)
		if err != nil {
			return err
		}
		host, port := split(master)
		return replica.Client().Do(ctx, "REPLICAOF", host, port).Err()
	})
}

// pairActions are failovers: away begins one, and repair brings the old master back, as a replica.
func (e *env) pairActions(p *pair) {
	failover := func(away, repair func(ctx context.Context, fault schedule.Fault, old *servers.Redis) error) action {
		return func(ctx context.Context, fault schedule.Fault) error {
			old, _, err := p.roles(ctx)
			if err != nil {
				return err
			}
			if err := away(ctx, fault, old); err != nil {
				return err
			}
			err = errors.Join(p.moved(ctx, old), repair(ctx, fault, old), p.follow(ctx), p.inSync(ctx))
			e.note("another server is the master")
			return err
		}
	}
	e.actions["redis failover"] = failover(
		func(ctx context.Context, _ schedule.Fault, _ *servers.Redis) error {
			return retry(ctx, "request a failover", func(ctx context.Context) error {
				// Refused for some seconds after the last one.
				return p.sentinel.Client().Do(ctx, "SENTINEL", "FAILOVER", masterName).Err()
			})
		},
		func(ctx context.Context, fault schedule.Fault, _ *servers.Redis) error {
			kit.Sleep(ctx, fault.For) // the old one is still a master, for clients that have not heard of it
			return nil
		})
	e.actions["redis kill"] = failover(
		func(_ context.Context, _ schedule.Fault, old *servers.Redis) error { return old.Kill() },
		func(ctx context.Context, fault schedule.Fault, old *servers.Redis) error {
			kit.Sleep(ctx, fault.For)
			ctx, cancel := repairContext(ctx)
			defer cancel()
			return old.Restart(ctx)
		})
	e.actions["redis freeze"] = failover(
		func(_ context.Context, _ schedule.Fault, old *servers.Redis) error { return old.Freeze() },
		func(ctx context.Context, fault schedule.Fault, old *servers.Redis) error {
			const leaveTime = time.Second // until every client has heard of the new master
			kit.Sleep(ctx, leaveTime)
			err := old.Thaw() // it resumes as a master, with what was sent to it meanwhile
			kit.Sleep(ctx, fault.For)
			return err
		})
}

var failovers = schedule.Domain{
	Name:     "redis",
	Kinds:    []schedule.Kind{{Name: "failover", Max: 2 * time.Second}, {Name: "kill", Max: 2 * time.Second}, {Name: "freeze", Max: 2 * time.Second}},
	QuietMin: 2 * time.Second, QuietMax: 4 * time.Second,
}

func TestNoFailoverLosesAStart(t *testing.T) { //nolint:paralleltest // it uses the whole machine
	seed, duration := seed(), *durationFlag/4
	faults := newSchedule(t, seed, duration, consumers, failovers, network("ingress"))
	p := newPair(t)
	config := redisConfig{Addresses: []string{p.sentinel.Addr()}, Master: masterName}
	admin := config.connect()
	t.Cleanup(func() { assert.NoError(t, admin.Close()) })
	e := newEnv(t, seed, setting{
		name: "failovers", redis: config, direct: config, admin: admin, partitions: 4, instances: 2, publishers: 3, pause: 40 * time.Millisecond,
		copies: 1, failover: true,
	})
	e.pairActions(p)
	e.assertNone(e.run(faults, duration))
}
