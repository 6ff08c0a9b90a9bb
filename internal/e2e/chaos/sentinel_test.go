package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// masterName is what the sentinel calls the pair.
const masterName = "bets"

// pair is two servers, one a copy of the other, and the sentinel that says which.
//
// Copies are asynchronous, and for a moment of a failover both are masters. An id means something only within the
// history of one of them: a consumer that has read an entry of the master that goes may pass an older one that the
// other has taken meanwhile. A master that takes no writes without a copy (min-replicas-to-write) keeps that from
// happening, but for what a frozen one has in its sockets when it goes on; what is lost with a master is lost all the
// same, and the check knows of it.
type pair struct {
	one, two *servers.Redis
	sentinel *servers.Redis
}

func newPair(t *testing.T) *pair {
	t.Helper()
	// A copy that has to be made again is begun at once.
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

// roles are the master and its copy, as the sentinel has it.
func (p *pair) roles(ctx context.Context) (master, replica *servers.Redis, err error) {
	told, err := p.sentinel.Client().Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).StringSlice()
	switch {
	case err != nil:
		return nil, nil, err
	case len(told) == 2 && net.JoinHostPort(told[0], told[1]) == p.one.Addr():
		return p.one, p.two, nil
	case len(told) == 2 && net.JoinHostPort(told[0], told[1]) == p.two.Addr():
		return p.two, p.one, nil
	default:
		return nil, nil, fmt.Errorf("the sentinel knows of %v", told)
	}
}

// inSync waits until the copy is whole, and the sentinel knows of it.
func (p *pair) inSync(ctx context.Context) error {
	return insist(ctx, "bring the copy up to date", func(ctx context.Context) error {
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
		return nil
	})
}

// moved waits until another server than this is the master.
func (p *pair) moved(ctx context.Context, from *servers.Redis) error {
	return insist(ctx, "make another the master", func(ctx context.Context) error {
		master, _, err := p.roles(ctx)
		if err == nil && master == from {
			err = errors.New("it is the same")
		}
		return err
	})
}

// follow makes a server that was the master a copy of the one that is. The sentinel does so too, after 10 s.
func (p *pair) follow(ctx context.Context) error {
	return insist(ctx, "follow the master", func(ctx context.Context) error {
		master, replica, err := p.roles(ctx)
		if err != nil {
			return err
		}
		host, port := split(master)
		return replica.Client().Do(ctx, "REPLICAOF", host, port).Err()
	})
}

// pairActions are failovers.
func (w *world) pairActions(p *pair) {
	// over ends a failover away from one server.
	over := func(ctx context.Context, from *servers.Redis, mend func(ctx context.Context) error) error {
		err := errors.Join(p.moved(ctx, from), mend(ctx), p.inSync(ctx))
		w.note("the master is another")
		return err
	}
	w.actions["redis failover"] = func(ctx context.Context, fault schedule.Fault) error {
		master, _, err := p.roles(ctx)
		if err != nil {
			return err
		}
		err = insist(ctx, "ask for a failover", func(ctx context.Context) error {
			// Refused for some seconds after the last one.
			return p.sentinel.Client().Do(ctx, "SENTINEL", "FAILOVER", masterName).Err()
		})
		if err != nil {
			return err
		}
		// The old one stays a master, for those who have not heard of it.
		return over(ctx, master, func(ctx context.Context) error {
			rest(ctx, fault.For)
			return p.follow(ctx)
		})
	}
	w.actions["redis kill"] = func(ctx context.Context, fault schedule.Fault) error {
		master, _, err := p.roles(ctx)
		if err != nil {
			return err
		}
		if err := master.Kill(); err != nil {
			return err
		}
		return over(ctx, master, func(ctx context.Context) error {
			rest(ctx, fault.For)
			ctx, cancel := mending(ctx)
			defer cancel()
			return errors.Join(master.Restart(ctx), p.follow(ctx))
		})
	}
	w.actions["redis freeze"] = func(ctx context.Context, fault schedule.Fault) error {
		master, _, err := p.roles(ctx)
		if err != nil {
			return err
		}
		if err := master.Freeze(); err != nil {
			return err
		}
		return over(ctx, master, func(ctx context.Context) error {
			// It goes on as a master that everybody has left, with what it was sent meanwhile.
			rest(ctx, leaveTime)
			err := master.Thaw()
			rest(ctx, fault.For)
			return errors.Join(err, p.follow(ctx))
		})
	}
}

// leaveTime is how long it takes at most until every client has heard of the new master.
const leaveTime = time.Second

// failovers are those faults.
var failovers = schedule.Domain{
	Name:     "redis",
	Kinds:    []schedule.Kind{{Name: "failover", Max: 2 * time.Second}, {Name: "kill", Max: 2 * time.Second}, {Name: "freeze", Max: 2 * time.Second}},
	QuietMin: 2 * time.Second, QuietMax: 4 * time.Second,
}

func TestNoFailoverLosesAStart(t *testing.T) { //nolint:paralleltest // it takes the whole machine
	seed, duration := seed(), *durationFlag/4
	faults := schedule.Deal(seed, duration, consumers, failovers, network("ingress"))
	t.Logf("go test ./chaos -run '^%s$' -chaos.seed %d -chaos.duration %s\n%s", t.Name(), seed, *durationFlag, faults)
	p := newPair(t)
	config := redisConfig{Addresses: []string{p.sentinel.Addr()}, Master: masterName}
	admin := config.connect()
	t.Cleanup(func() { assert.NoError(t, admin.Close()) })
	w := newWorld(t, seed, setting{
		name: "failovers", redis: config, admin: admin, partitions: 4, instances: 2, publishers: 3, pause: 40 * time.Millisecond,
		copies: 1, failover: true,
	})
	w.pairActions(p)
	w.judge(w.run(faults, duration))
}
