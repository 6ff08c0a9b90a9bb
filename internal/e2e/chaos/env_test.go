package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/chaos/check"
	"github.com/redisevents/restatestart/internal/e2e/chaos/proxy"
	"github.com/redisevents/restatestart/internal/e2e/chaos/schedule"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/internal/wire"
)

// setting is what differs between the kinds of runs.
type setting struct {
	name       string
	redis      redisConfig           // of the consumers
	direct     redisConfig           // of the publishers and the watch, which no network fault concerns
	admin      redis.UniversalClient // of the run itself
	partitions int                   // at first
	growth     int                   // partitions that may be added
	instances  int
	publishers int
	pause      time.Duration // between two messages of a publisher
	copies     int           // of an entry that is acknowledged
	failover   bool
	defect     defect
}

// action carries out a fault: it breaks something, waits as long as the fault lasts, and repairs it, also when the run has ended.
type action func(ctx context.Context, fault schedule.Fault) error

// env is a run: the servers, the consumers, the publishers, and the watch.
type env struct {
	setting

	t          *testing.T
	seed       uint64
	topic      *kit.Topic
	record     *check.Record
	restate    *servers.Restate
	payouts    *payout.Service
	proxy      *kit.Ingress // records every start
	ingress    *proxy.Proxy // in front of that
	fleet      *fleet
	sources    []*publisher
	watch      *watch
	actions    map[string]action // by domain and kind
	deployment string
	current    atomic.Int64 // partitions
	began      time.Time
	over       time.Time     // when all was done, or the wait for it ended
	settled    time.Duration // from the last fault until then

	mu       sync.Mutex
	timeline []moment
	happened map[string]int // faults that were carried out, by domain and kind
	statuses map[int]int    // of answers
	problems []string       // of the run itself
}

type moment struct {
	at   time.Time
	what string
}

// newEnv starts everything but the consumers.
func newEnv(t *testing.T, seed uint64, s setting) *env {
	t.Helper()
	e := &env{
		setting: s, t: t, seed: seed, record: check.New(check.Options{Failover: s.failover}),
		topic:   &kit.Topic{Keys: wire.Keys{Topic: "bets_settled"}, Client: s.admin, Partitions: s.partitions},
		actions: map[string]action{}, happened: map[string]int{}, statuses: map[int]int{},
	}
	e.restate = servers.StartRestate(t, servers.RestateOptions{})
	e.payouts = payout.StartService(t, "")
	require.NoError(t, e.register(t.Context()))
	e.proxy = kit.NewIngress(t, e.restate.Ingress())
	e.proxy.Requested, e.proxy.Answered = e.requested, e.answered
	var err error
	e.ingress, err = proxy.New(strings.TrimPrefix(e.proxy.URL, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.ingress.Close()) })

	require.NoError(t, retry(t.Context(), "record the topic", func(ctx context.Context) error {
		return s.admin.HSet(ctx, e.topic.Meta(), wire.MetaPartitions, s.partitions, wire.MetaVersion, wire.Version).Err()
	}))
	e.current.Store(int64(s.partitions))
	own := func() *kit.Topic {
		client := s.direct.connect()
		t.Cleanup(func() { _ = client.Close() })
		return &kit.Topic{Keys: e.topic.Keys, Client: client, Partitions: s.partitions + s.growth}
	}
	for n := range s.publishers {
		source := &publisher{
			Topic: own(), name: fmt.Sprintf("p%d", n), partitions: &e.current, pause: s.pause, copies: s.copies,
			random: rand.New(rand.NewPCG(seed, uint64(n))),
		}
		for partition := range s.partitions {
			// A stream that exists can be renamed away.
			require.True(t, source.publish(t.Context(), partition, kit.Bet{ID: fmt.Sprintf("%s-first-%d", source.name, partition)}))
		}
		e.sources = append(e.sources, source)
	}
	e.watch = &watch{Topic: own(), record: e.record}
	e.consumerActions()
	e.operatorActions()
	e.restateActions()
	e.networkActions("ingress", e.ingress)
	return e
}

func (e *env) register(ctx context.Context) (err error) {
	e.deployment, err = e.restate.Register(ctx, e.payouts.URL())
	return err
}

// requested records a start before it is forwarded.
func (e *env) requested(request *http.Request, body []byte) {
	// /{workflow}/{key}/{handler}/send
	segments := strings.Split(strings.TrimPrefix(request.URL.Path, "/"), "/")
	if request.Method != http.MethodPost || len(segments) != 4 || segments[0] != payout.Workflow || segments[3] != "send" {
		e.problem(fmt.Sprintf("a request is %s %s", request.Method, request.URL.Path))
		return
	}
	if ref, ok := e.ref(body); ok {
		e.record.Requested(ref, segments[1], time.Now())
	}
}

func (e *env) ref(body []byte) (check.Ref, bool) {
	var input payout.Input
	err := json.Unmarshal(body, &input)
	ref, unknown := refOf(input)
	if err != nil || unknown != nil {
		e.problem(fmt.Sprintf("a request has the body %q", body))
		return check.Ref{}, false
	}
	return ref, true
}

// answered records a 2xx before the answer is forwarded: what the record has as accepted was so before any consumer could know.
func (e *env) answered(body []byte, code int, text []byte) {
	e.mu.Lock()
	e.statuses[code]++
	e.mu.Unlock()
	if code/100 != 2 {
		return
	}
	var answer struct{ Status string }
	if err := json.Unmarshal(text, &answer); err != nil || !strings.HasSuffix(answer.Status, "Accepted") {
		e.problem(fmt.Sprintf("an answer is %d %s", code, text))
	}
	if ref, ok := e.ref(body); ok {
		e.record.Accepted(ref, answer.Status == "PreviouslyAccepted", time.Now())
	}
}

// consumer is the configuration of one process. They differ: what holds must hold for each.
func (e *env) consumer(index, number int) consumerConfig {
	random := rand.New(rand.NewPCG(e.seed, uint64(number)))
	const batch, ahead, parallel = 40, 4, 8 // at most
	return consumerConfig{
		Redis: e.redis, Topic: e.topic.Topic, Ingress: "http://" + e.ingress.Addr(), Index: index, Count: e.instances,
		BatchSize: 1 + random.IntN(batch), ReadAhead: 1 + random.IntN(ahead), Parallel: 1 + random.IntN(parallel),
		Each: random.IntN(3) == 0, Defect: e.defect,
	}
}

// run carries out a schedule and returns the violations.
func (e *env) run(faults schedule.Schedule, duration time.Duration) []check.Violation {
	e.began = time.Now()
	ctx, stop := context.WithTimeout(e.t.Context(), duration)
	defer stop()
	watching, stopWatching := context.WithCancel(e.t.Context())
	defer stopWatching()
	var err error
	e.fleet, err = newFleet(e.t.TempDir(), e.instances, e.consumer)
	e.t.Cleanup(e.fleet.destroy)
	require.NoError(e.t, err)
	var sources, watcher, breakers sync.WaitGroup
	for _, source := range e.sources {
		sources.Go(func() { source.run(ctx) })
	}
	watcher.Go(func() { e.watch.run(watching) })
	for _, domain := range faults {
		breakers.Go(func() { e.carryOut(ctx, domain) })
	}
	<-ctx.Done()
	breakers.Wait()
	sources.Wait()
	e.note("the faults are over")
	e.topic.Partitions = int(e.current.Load())
	e.publishLast()
	e.awaitDone()
	e.fleet.finish()
	kit.Sleep(e.t.Context(), 10*samplePause) // for the last sample of the positions
	stopWatching()
	watcher.Wait()

	end, err := e.end(e.t.Context())
	if err != nil {
		e.problem(fmt.Sprintf("query how everything ended: %v", err))
		return nil
	}
	return e.record.Verdict(end)
}

// carryOut carries out the faults of one domain.
func (e *env) carryOut(ctx context.Context, faults []schedule.Fault) {
	for _, fault := range faults {
		kit.Sleep(ctx, time.Until(e.began.Add(fault.At)))
		if ctx.Err() != nil {
			return
		}
		name := fault.Domain + " " + fault.Kind
		e.note(fmt.Sprintf("%s for %.1fs", name, fault.For.Seconds()))
		if err := e.actions[name](ctx, fault); err != nil {
			e.problem(fmt.Sprintf("%s at %.1fs: %v", name, fault.At.Seconds(), err))
			return
		}
		e.mu.Lock()
		e.happened[name]++
		e.mu.Unlock()
		if fault.For > 0 {
			e.note(name + " is over")
		}
	}
}

// publishLast adds one more message to each partition. A failover may have left a position that is ahead of the stream: the
// consumer writes the next one with the next message only.
func (e *env) publishLast() {
	ctx, cancel := repairContext(e.t.Context())
	defer cancel()
	for partition := range e.topic.Partitions {
		if !e.sources[0].publish(ctx, partition, kit.Bet{ID: fmt.Sprintf("last-%d", partition)}) {
			e.problem(fmt.Sprintf("the last message of partition %d is not acknowledged", partition))
		}
	}
}

// awaitDone waits, for up to two minutes, until every position is at the end of its stream and every invocation has completed. The
// record shows what is missing otherwise.
func (e *env) awaitDone() {
	const limit = time.Minute
	began := time.Now()
	defer func() {
		e.over = time.Now()
		e.settled = e.over.Sub(began)
	}()
	for _, step := range []struct {
		what string
		done func(ctx context.Context) error
	}{{"the consumers catch up", e.caughtUp}, {"every invocation completes", e.allCompleted}} {
		deadline := time.Now().Add(limit)
		for {
			err := step.done(e.t.Context())
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				e.problem(fmt.Sprintf("%s: not within %s of the last fault: %v", step.what, limit, err))
				break
			}
			kit.Sleep(e.t.Context(), 50*time.Millisecond)
		}
	}
}

// caughtUp is an error while a position is not at the end of its stream.
func (e *env) caughtUp(ctx context.Context) error {
	behind, err := e.topic.Behind(ctx)
	if err == nil && len(behind) > 0 {
		err = fmt.Errorf("positions are behind: %v", behind)
	}
	return err
}

// allCompleted is an error while Restate has invocations left.
func (e *env) allCompleted(ctx context.Context) error {
	counts, err := e.restate.CountByStatus(ctx, payout.Workflow)
	delete(counts, "completed")
	if err == nil && len(counts) > 0 {
		err = fmt.Errorf("invocations are left: %v", counts)
	}
	return err
}

// end is the state of everything once all is over.
func (e *env) end(ctx context.Context) (check.End, error) {
	end := check.End{Runs: e.payouts.Executions(), Inputs: map[string]check.Ref{}}
	for partition := range e.topic.Partitions {
		entries, err := e.watch.entries(ctx, partition)
		if err != nil {
			return end, err
		}
		e.record.Stream(partition, entries...)
	}
	var err error
	if end.Positions, err = e.watch.sample(ctx); err != nil {
		return end, err
	}
	for _, source := range e.sources {
		end.Acknowledged = append(end.Acknowledged, source.acknowledged...)
	}
	for key, input := range e.payouts.Inputs() {
		if end.Inputs[key], err = refOf(input); err != nil {
			return end, err
		}
	}
	end.Started, err = e.restate.StartedKeys(ctx, payout.Workflow)
	return end, err
}

func (e *env) note(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timeline = append(e.timeline, moment{time.Now(), what})
}

func (e *env) problem(text string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.problems = append(e.problems, text)
}
