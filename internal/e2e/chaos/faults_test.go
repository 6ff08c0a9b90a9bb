package chaos_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/chaos/proxy"
	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/wire"
)

// repairLimit is how long the repair of a fault may take.
const repairLimit = time.Minute

// repairContext outlives the run: what was broken is repaired in any case.
func repairContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), repairLimit)
}

// retry does something until it works.
func retry(ctx context.Context, what string, do func(ctx context.Context) error) error {
	ctx, cancel := repairContext(ctx)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		kit.Sleep(ctx, 20*time.Millisecond)
	}
}

// outage is an action of two steps, with the fault's duration between them.
func outage(breakIt, repair func(ctx context.Context) error) action {
	return func(ctx context.Context, fault schedule.Fault) error {
		if err := breakIt(ctx); err != nil {
			return err
		}
		kit.Sleep(ctx, fault.For)
		ctx, cancel := repairContext(ctx)
		defer cancel()
		return repair(ctx)
	}
}

func ignoring(do func() error) func(context.Context) error {
	return func(context.Context) error { return do() }
}

// victimTime is how long all faults of consumers concern the same instance. The others keep running meanwhile, through every other
// fault.
const victimTime = 20 * time.Second

func (e *env) consumerActions() {
	victim := func(fault schedule.Fault) int { return int(fault.At/victimTime) % e.instances }
	const pauses = 4
	e.actions["consumer kill"] = func(ctx context.Context, fault schedule.Fault) error {
		return e.fleet.kill(ctx, victim(fault), time.Duration(fault.Choice%pauses)*50*time.Millisecond)
	}
	e.actions["consumer term"] = func(_ context.Context, fault schedule.Fault) error { return e.fleet.term(victim(fault)) }
	e.actions["consumer zombie"] = func(ctx context.Context, fault schedule.Fault) error {
		return e.fleet.zombie(ctx, victim(fault), time.Second+time.Duration(fault.Choice%3_000)*time.Millisecond)
	}
	e.actions["consumer roll"] = func(ctx context.Context, fault schedule.Fault) error {
		return e.fleet.roll(ctx, victim(fault), 300*time.Millisecond+time.Duration(fault.Choice%2_000)*time.Millisecond)
	}
}

// consumers ends a consumer about once a second. A frozen one resumes long after another has taken its place.
var consumers = schedule.Domain{
	Name:  "consumer",
	Kinds: []schedule.Kind{{Name: "kill"}, {Name: "kill"}, {Name: "kill"}, {Name: "term"}, {Name: "roll"}, {Name: "kill"}, {Name: "zombie"}},
	// Every kill takes up to 0.2 s of it.
	QuietMin: 700 * time.Millisecond, QuietMax: 1100 * time.Millisecond,
}

func (e *env) restateActions() {
	restart := func(env ...string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			ctx, cancel := repairContext(ctx)
			defer cancel()
			return e.restate.Restart(ctx, env...)
		}
	}
	e.actions["restate kill"] = outage(ignoring(e.restate.Kill), restart())
	e.actions["restate term"] = outage(ignoring(e.restate.Terminate), restart())
	e.actions["restate freeze"] = outage(ignoring(e.restate.Freeze), ignoring(e.restate.Thaw))
	e.actions["restate unregister"] = outage(e.unregister, func(ctx context.Context) error { return retry(ctx, "register", e.register) })
	// So few requests at once make Restate refuse most of what comes.
	e.actions["restate overload"] = outage(restart("RESTATE_INGRESS__CONCURRENT_API_REQUESTS_LIMIT=2"), restart())
}

// unregister removes the service while no invocation is in flight: one that is stays pinned to the deployment that is gone, and
// never ends.
func (e *env) unregister(ctx context.Context) error {
	e.proxy.Gate.Lock()
	defer e.proxy.Gate.Unlock()
	return retry(ctx, "unregister", func(ctx context.Context) error {
		if err := e.allCompleted(ctx); err != nil {
			return err
		}
		return e.restate.Unregister(ctx, e.deployment)
	})
}

var restates = schedule.Domain{
	Name: "restate",
	Kinds: []schedule.Kind{
		{Name: "kill", Max: 2 * time.Second},
		{Name: "term", Max: 2 * time.Second},
		{Name: "freeze", Min: 10 * time.Second, Max: 10 * time.Second},
		{Name: "unregister", Min: time.Second, Max: 4 * time.Second},
		{Name: "overload", Min: 3 * time.Second, Max: 6 * time.Second},
	},
	QuietMin: 2 * time.Second, QuietMax: 6 * time.Second,
}

func (e *env) networkActions(domain string, network *proxy.Proxy) {
	set := func(fault proxy.Fault) func(context.Context) error {
		return ignoring(func() error { network.Set(fault); return nil })
	}
	for kind, fault := range map[string]proxy.Fault{
		"latency": {Latency: 150 * time.Millisecond},
		"cut":     {Cut: true},
		"drip":    {Rate: 2_000},
		"stall":   {Silent: true},
	} {
		e.actions[domain+" "+kind] = outage(set(fault), set(proxy.Fault{}))
	}
	e.actions[domain+" half-open"] = outage(set(proxy.Fault{Silent: true}), ignoring(func() error {
		network.Reset() // what was sent meanwhile never arrives
		network.Set(proxy.Fault{})
		return nil
	}))
}

// network is the faults of the network of that name.
func network(name string) schedule.Domain {
	return schedule.Domain{
		Name: name,
		Kinds: []schedule.Kind{
			{Name: "latency", Min: 2 * time.Second, Max: 5 * time.Second},
			{Name: "cut", Max: 2 * time.Second},
			{Name: "half-open", Min: 2 * time.Second, Max: 5 * time.Second},
			{Name: "drip", Min: 2 * time.Second, Max: 5 * time.Second},
			{Name: "stall", Min: time.Second, Max: 4 * time.Second},
		},
		QuietMin: 3 * time.Second, QuietMax: 8 * time.Second,
	}
}

// operatorActions are what operators do to a topic meanwhile.
func (e *env) operatorActions() {
	e.actions["operator grow"] = func(ctx context.Context, _ schedule.Fault) error {
		more := e.current.Load() + 1
		if more > int64(e.partitions+e.growth) {
			return nil
		}
		// Publishers know of it before the consumers do.
		e.current.Store(more)
		return retry(ctx, "add a partition", func(ctx context.Context) error {
			return e.admin.HSet(ctx, e.topic.Meta(), wire.MetaPartitions, more).Err()
		})
	}
	e.actions["operator reset"] = func(ctx context.Context, fault schedule.Fault) error {
		const back = 20
		partition := fault.Choice % e.partitions
		return retry(ctx, "reset a position", func(ctx context.Context) error {
			position, err := e.topic.Position(ctx, partition)
			if err != nil {
				return err
			}
			before, err := e.admin.XRevRangeN(ctx, e.topic.Stream(partition), position, "-", back).Result()
			if err != nil || len(before) == 0 {
				return err
			}
			target, err := wire.ParseID(before[len(before)-1].ID)
			if err != nil {
				return err
			}
			e.record.Reset(partition, target)
			return e.admin.HSet(ctx, e.topic.Positions(kit.ConsumerName), wire.ResetField(partition), wire.FormatReset(target, time.Now())).Err()
		})
	}
}

var operators = schedule.Domain{
	Name:     "operator",
	Kinds:    []schedule.Kind{{Name: "grow"}, {Name: "reset"}},
	QuietMin: 4 * time.Second, QuietMax: 12 * time.Second,
}
