package chaos_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redisevents/restatestart/internal/e2e/chaos/leg"
	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
)

// mendLimit is how long mending a fault may take.
const mendLimit = time.Minute

// mending is a context that outlives the run: what was broken is mended in any case.
func mending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), mendLimit)
}

// insist does something until it works.
func insist(ctx context.Context, what string, do func(ctx context.Context) error) error {
	ctx, cancel := mending(ctx)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		rest(ctx, 20*time.Millisecond)
	}
}

// nervousTime is how long all that ends consumers goes to the same instance. The others live on meanwhile, and go
// through every other fault in one piece.
const nervousTime = 20 * time.Second

// consumerActions end consumers.
func (w *world) consumerActions() {
	nervous := func(fault schedule.Fault) int { return int(fault.At/nervousTime) % w.instances }
	const pauses = 4
	w.actions["consumer kill"] = func(ctx context.Context, fault schedule.Fault) error {
		return w.fleet.kill(ctx, nervous(fault), time.Duration(fault.Choice%pauses)*50*time.Millisecond)
	}
	w.actions["consumer term"] = func(_ context.Context, fault schedule.Fault) error { return w.fleet.term(nervous(fault)) }
	w.actions["consumer zombie"] = func(ctx context.Context, fault schedule.Fault) error {
		return w.fleet.zombie(ctx, nervous(fault), time.Second+time.Duration(fault.Choice%3_000)*time.Millisecond)
	}
	w.actions["consumer roll"] = func(ctx context.Context, fault schedule.Fault) error {
		return w.fleet.roll(ctx, nervous(fault), 300*time.Millisecond+time.Duration(fault.Choice%2_000)*time.Millisecond)
	}
}

// consumers ends a consumer about once a second. One that is frozen comes back when another has long taken its place.
var consumers = schedule.Domain{
	Name:  "consumer",
	Kinds: []schedule.Kind{{Name: "kill"}, {Name: "kill"}, {Name: "kill"}, {Name: "term"}, {Name: "roll"}, {Name: "kill"}, {Name: "zombie"}},
	// Every kill takes up to 0.2 s of it.
	QuietMin: 700 * time.Millisecond, QuietMax: 1100 * time.Millisecond,
}

// overload is the limit of requests at once that makes Restate refuse most of what comes.
const overload = "RESTATE_INGRESS__CONCURRENT_API_REQUESTS_LIMIT=2"

// restateActions are what can be wrong with Restate.
func (w *world) restateActions() {
	restart := func(ctx context.Context, env ...string) error {
		ctx, cancel := mending(ctx)
		defer cancel()
		return w.restate.RestartWith(ctx, env...)
	}
	w.actions["restate kill"] = func(ctx context.Context, fault schedule.Fault) error {
		if err := w.restate.Kill(); err != nil {
			return err
		}
		rest(ctx, fault.For)
		return restart(ctx)
	}
	w.actions["restate term"] = func(ctx context.Context, fault schedule.Fault) error {
		if err := w.restate.Terminate(); err != nil {
			return err
		}
		rest(ctx, fault.For)
		return restart(ctx)
	}
	w.actions["restate freeze"] = func(ctx context.Context, fault schedule.Fault) error {
		if err := w.restate.Freeze(); err != nil {
			return err
		}
		rest(ctx, fault.For)
		return w.restate.Thaw()
	}
	w.actions["restate unregister"] = func(ctx context.Context, fault schedule.Fault) error {
		if err := w.unregister(ctx); err != nil {
			return err
		}
		rest(ctx, fault.For)
		return insist(ctx, "register", w.register)
	}
	w.actions["restate overload"] = func(ctx context.Context, fault schedule.Fault) error {
		if err := restart(ctx, overload); err != nil {
			return err
		}
		rest(ctx, fault.For)
		return restart(ctx)
	}
}

// unregister takes the service away while none of its invocations is under way: one that is stays pinned to the
// deployment that is gone, and never ends.
func (w *world) unregister(ctx context.Context) error {
	w.recorder.gate.Lock()
	defer w.recorder.gate.Unlock()
	return insist(ctx, "unregister", func(ctx context.Context) error {
		if _, err := w.allOver(ctx); err != nil {
			return err
		}
		return w.restate.Unregister(ctx, w.deployment)
	})
}

// restates are those faults.
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

// legActions are what can be wrong with the network on one leg.
func (w *world) legActions(domain string, network *leg.Leg) {
	for kind, trouble := range map[string]leg.Trouble{
		"latency": {Latency: 150 * time.Millisecond},
		"cut":     {Cut: true},
		"drip":    {Drip: 2_000},
		"stall":   {Silent: true},
	} {
		w.actions[domain+" "+kind] = func(ctx context.Context, fault schedule.Fault) error {
			network.Set(trouble)
			rest(ctx, fault.For)
			network.Set(leg.Trouble{})
			return nil
		}
	}
	w.actions[domain+" half-open"] = func(ctx context.Context, fault schedule.Fault) error {
		network.Set(leg.Trouble{Silent: true})
		rest(ctx, fault.For)
		network.Reset() // what was sent meanwhile never arrives
		network.Set(leg.Trouble{})
		return nil
	}
}

// network is those faults on the leg of that name.
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
