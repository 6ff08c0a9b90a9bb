package chaos_test

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// The user that consumers log in as.
const (
	user     = "service"
	password = "secret"
)

// shelve replaces a key by a string, and unshelve puts the key back. Both may be repeated.
var (
	shelve = redis.NewScript(`
if redis.call('EXISTS', KEYS[2]) == 0 and redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('RENAME', KEYS[1], KEYS[2])
  redis.call('SET', KEYS[1], 'neither a stream nor a hash')
end
return 0`)
	unshelve = redis.NewScript(`
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('DEL', KEYS[1])
  redis.call('RENAME', KEYS[2], KEYS[1])
end
return 0`)
)

func (e *env) redisActions(server *servers.Redis) {
	e.actions["redis kill"] = outage(ignoring(server.Kill), server.Restart)
	e.actions["redis freeze"] = outage(ignoring(server.Freeze), ignoring(server.Thaw))
	e.actions["redis client-kill"] = func(ctx context.Context, _ schedule.Fault) error {
		return retry(ctx, "kill the clients", func(ctx context.Context) error {
			return e.admin.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
		})
	}
	e.actions["redis client-pause"] = func(ctx context.Context, fault schedule.Fault) error {
		mode := []string{"ALL", "WRITE"}[fault.Choice%2]
		err := retry(ctx, "pause the clients", func(ctx context.Context) error {
			return e.admin.Do(ctx, "CLIENT", "PAUSE", fault.For.Milliseconds(), mode).Err()
		})
		kit.Sleep(ctx, fault.For)
		return err
	}
	e.actions["redis wrong-type"] = func(ctx context.Context, fault schedule.Fault) error {
		key := e.topic.Positions(kit.ConsumerName)
		if choice := fault.Choice % (e.partitions + e.growth + 2); choice < e.partitions+e.growth {
			key = e.topic.Stream(choice)
		}
		names := []string{key, key + ":shelved"}
		run := func(script *redis.Script) error {
			return retry(ctx, "replace a key", func(ctx context.Context) error { return script.Run(ctx, e.admin, names).Err() })
		}
		if err := run(shelve); err != nil {
			return err
		}
		kit.Sleep(ctx, fault.For)
		return run(unshelve)
	}
	e.actions["redis acl"] = func(ctx context.Context, fault schedule.Fault) error {
		rules := [][]any{{"-xread"}, {"-eval", "-evalsha"}, {"resetkeys"}, {"-@all"}, {"off"}}[fault.Choice%5]
		set := func(rules ...any) error {
			return retry(ctx, "change the permissions", func(ctx context.Context) error {
				return e.admin.Do(ctx, append([]any{"ACL", "SETUSER", user}, rules...)...).Err()
			})
		}
		if err := set(rules...); err != nil {
			return err
		}
		if rules[0] == "off" {
			// It concerns new logins only.
			_ = retry(ctx, "close its connections", func(ctx context.Context) error { return e.admin.Do(ctx, "CLIENT", "KILL", "USER", user).Err() })
		}
		kit.Sleep(ctx, fault.For)
		return set("on", "~*", "+@all")
	}
}

var redises = schedule.Domain{
	Name: "redis",
	Kinds: []schedule.Kind{
		{Name: "kill", Max: 2 * time.Second},
		{Name: "freeze", Min: 3 * time.Second, Max: 10 * time.Second},
		{Name: "client-kill"},
		{Name: "client-pause", Min: time.Second, Max: 4 * time.Second},
		{Name: "wrong-type", Min: time.Second, Max: 4 * time.Second},
		{Name: "acl", Min: time.Second, Max: 3 * time.Second},
		{Name: "client-kill"},
	},
	QuietMin: 2 * time.Second, QuietMax: 7 * time.Second,
}
