package chaos_test

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// The user that consumers log in as, and what it may do in good times.
const (
	user     = "service"
	password = "secret"
)

// shelve puts a string in the place of a key, and unshelve puts the key back. Both may be repeated.
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

// redisActions are what can be wrong with a Redis of its own.
func (w *world) redisActions(server *servers.Redis) {
	w.actions["redis kill"] = func(ctx context.Context, fault schedule.Fault) error {
		if err := server.Kill(); err != nil {
			return err
		}
		rest(ctx, fault.For)
		ctx, cancel := mending(ctx)
		defer cancel()
		return server.Restart(ctx)
	}
	w.actions["redis freeze"] = func(ctx context.Context, fault schedule.Fault) error {
		if err := server.Freeze(); err != nil {
			return err
		}
		rest(ctx, fault.For)
		return server.Thaw()
	}
	w.actions["redis client-kill"] = func(ctx context.Context, _ schedule.Fault) error {
		return insist(ctx, "kill the clients", func(ctx context.Context) error {
			return w.admin.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err()
		})
	}
	w.actions["redis client-pause"] = func(ctx context.Context, fault schedule.Fault) error {
		mode := []string{"ALL", "WRITE"}[fault.Choice%2]
		err := insist(ctx, "pause the clients", func(ctx context.Context) error {
			return w.admin.Do(ctx, "CLIENT", "PAUSE", fault.For.Milliseconds(), mode).Err()
		})
		rest(ctx, fault.For)
		return err
	}
	w.actions["redis wrong-type"] = func(ctx context.Context, fault schedule.Fault) error {
		key := w.keys.Positions(consumerName)
		if choice := fault.Choice % (w.partitions + w.growth + 2); choice < w.partitions+w.growth {
			key = w.keys.Stream(choice)
		}
		names := []string{key, key + ":shelved"}
		run := func(script *redis.Script) error {
			return insist(ctx, "exchange a key", func(ctx context.Context) error { return script.Run(ctx, w.admin, names).Err() })
		}
		if err := run(shelve); err != nil {
			return err
		}
		rest(ctx, fault.For)
		return run(unshelve)
	}
	w.actions["redis acl"] = func(ctx context.Context, fault schedule.Fault) error {
		rules := [][]any{{"-xread"}, {"-eval", "-evalsha"}, {"resetkeys"}, {"-@all"}, {"off"}}[fault.Choice%5]
		set := func(rules ...any) error {
			return insist(ctx, "change the permissions", func(ctx context.Context) error {
				return w.admin.Do(ctx, append([]any{"ACL", "SETUSER", user}, rules...)...).Err()
			})
		}
		if err := set(rules...); err != nil {
			return err
		}
		if rules[0] == "off" {
			// Who is logged in stays so.
			_ = insist(ctx, "log them out", func(ctx context.Context) error { return w.admin.Do(ctx, "CLIENT", "KILL", "USER", user).Err() })
		}
		rest(ctx, fault.For)
		return set("on", "~*", "+@all")
	}
}

// redises are those faults.
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
