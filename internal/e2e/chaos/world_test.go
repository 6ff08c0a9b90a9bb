package chaos_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/e2e/chaos/leg"
	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/internal/wire"
)

// setting is what is particular to one kind of run.
type setting struct {
	name       string
	redis      redisConfig           // for consumers
	admin      redis.UniversalClient // for the run itself
	partitions int                   // to begin with
	growth     int                   // partitions that may be added
	instances  int
	publishers int
	pause      time.Duration // between two messages of a publisher
	copies     int           // of an entry that is acknowledged
	failover   bool
	broken     breakage
}

// action is what a fault does: it breaks something, waits as long as the fault lasts, and mends it, whether the run goes
// on or not.
type action func(ctx context.Context, fault schedule.Fault) error

// world is a run: the servers, the consumers, whoever publishes, and whoever watches.
type world struct {
	setting

	t          *testing.T
	seed       uint64
	keys       wire.Keys
	record     *check.Record
	restate    *servers.Restate
	payouts    *payout.Service
	recorder   *recorder
	ingress    *leg.Leg
	fleet      *fleet
	sources    []*publisher
	watch      *watch
	actions    map[string]action // by domain and kind
	deployment string
	current    atomic.Int64 // partitions
	began      time.Time
	over       time.Time     // when all was done, or nobody waited any more
	settled    time.Duration // from the last fault until then

	mu       sync.Mutex
	timeline []moment
	happened map[string]int // faults that were carried out, by domain and kind
	problems []string       // of the run itself
}

// moment is something that was done.
type moment struct {
	at   time.Time
	what string
}

// newWorld starts everything but the consumers.
func newWorld(t *testing.T, seed uint64, s setting) *world {
	t.Helper()
	w := &world{
		setting: s, t: t, seed: seed, keys: wire.Keys{Topic: "bets_settled"},
		record: check.New(check.Options{Failover: s.failover}), actions: map[string]action{}, happened: map[string]int{},
	}
	w.restate = servers.StartRestate(t, servers.RestateOptions{})
	w.payouts = payout.StartService(t)
	require.NoError(t, w.register(t.Context()))
	var err error
	w.recorder, err = newRecorder(w.record, w.restate.Ingress())
	require.NoError(t, err)
	t.Cleanup(w.recorder.close)
	w.ingress, err = leg.New(w.recorder.addr())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.ingress.Close()) })

	require.NoError(t, insist(t.Context(), "record the topic", func(ctx context.Context) error {
		return s.admin.HSet(ctx, w.keys.Meta(), wire.MetaPartitions, s.partitions, wire.MetaVersion, wire.Version).Err()
	}))
	w.current.Store(int64(s.partitions))
	for n := range s.publishers {
		name := fmt.Sprintf("p%d", n)
		source := &publisher{
			name: name, keys: w.keys, client: w.ownClient(), partitions: &w.current, pause: s.pause, copies: s.copies,
			random: rand.New(rand.NewPCG(seed, uint64(n))),
		}
		for partition := range s.partitions {
			// A stream that is there can be renamed away.
			require.True(t, source.publish(t.Context(), partition, message{Name: fmt.Sprintf("%s-first-%d", name, partition)}))
		}
		w.sources = append(w.sources, source)
	}
	w.watch = &watch{record: w.record, client: w.ownClient(), keys: w.keys, partitions: s.partitions + s.growth, live: !s.failover}
	w.consumerActions()
	w.operatorActions()
	w.restateActions()
	w.legActions("ingress", w.ingress)
	return w
}

// ownClient connects as the consumers do, but not by their user, nor by their network.
func (w *world) ownClient() redis.UniversalClient {
	config := w.redis
	if config.Username != "" {
		config = redisConfig{Addresses: []string{w.admin.(*redis.Client).Options().Addr}}
	}
	client := config.connect()
	w.t.Cleanup(func() { _ = client.Close() })
	return client
}

func (w *world) register(ctx context.Context) (err error) {
	w.deployment, err = w.restate.Register(ctx, w.payouts.URL())
	return err
}

// launch starts the consumers.
func (w *world) launch() {
	w.t.Helper()
	var err error
	w.fleet, err = newFleet(w.t.TempDir(), w.instances, w.consumer)
	w.t.Cleanup(w.fleet.destroy)
	require.NoError(w.t, err)
}

// consumer is the configuration of one process. They differ: what holds must hold for each.
func (w *world) consumer(index, number int) consumerConfig {
	random := rand.New(rand.NewPCG(w.seed, uint64(number)))
	const batch, ahead, parallel = 40, 4, 8 // at most
	return consumerConfig{
		Redis: w.redis, Topic: w.keys.Topic, Ingress: "http://" + w.ingress.Addr(), Index: index, Count: w.instances,
		BatchSize: 1 + random.IntN(batch), ReadAhead: 1 + random.IntN(ahead), Parallel: 1 + random.IntN(parallel),
		Each: random.IntN(3) == 0, Broken: w.broken,
	}
}

// run carries a schedule out, until it is over or something is broken, and tells what is.
func (w *world) run(faults schedule.Schedule, duration time.Duration) []check.Violation {
	w.began = time.Now()
	ctx, stop := context.WithTimeout(w.t.Context(), duration)
	defer stop()
	watching, stopWatching := context.WithCancel(w.t.Context())
	defer stopWatching()
	w.launch()
	var sources, watcher, breakers sync.WaitGroup
	for _, source := range w.sources {
		sources.Go(func() { source.run(ctx) })
	}
	watcher.Go(func() { w.watch.run(watching, stop) })
	for _, domain := range faults {
		breakers.Go(func() { w.carryOut(ctx, domain) })
	}
	<-ctx.Done()
	breakers.Wait()
	sources.Wait()
	w.note("the faults are over")
	if len(w.watch.found()) == 0 {
		w.farewell()
	}
	w.settle()
	w.fleet.finish()
	rest(w.t.Context(), 10*watchPause) // for the last look at the positions
	stopWatching()
	watcher.Wait()
	return w.verdict()
}

// carryOut does the faults of one domain.
func (w *world) carryOut(ctx context.Context, faults []schedule.Fault) {
	for _, fault := range faults {
		rest(ctx, time.Until(w.began.Add(fault.At)))
		if ctx.Err() != nil {
			return
		}
		name := fault.Domain + " " + fault.Kind
		w.note(fmt.Sprintf("%s for %.1fs", name, fault.For.Seconds()))
		if err := w.actions[name](ctx, fault); err != nil {
			w.problem(fmt.Sprintf("%s at %.1fs: %v", name, fault.At.Seconds(), err))
			return
		}
		w.mu.Lock()
		w.happened[name]++
		w.mu.Unlock()
		if fault.For > 0 {
			w.note(name + " is over")
		}
	}
}

func (w *world) note(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timeline = append(w.timeline, moment{time.Now(), what})
}

func (w *world) problem(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, text)
}

func (w *world) carriedOut() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.happened)
}
