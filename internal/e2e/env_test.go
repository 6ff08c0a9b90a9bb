package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/kit"
	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
	"github.com/redisevents/restatestart/redisstream"
)

func TestMain(m *testing.M) { kit.Main(m, runService) }

// newBets starts a redis-server with a topic on it, whose publisher's client retries nothing.
func newBets(t *testing.T, partitions int, options servers.RedisOptions) (*servers.Redis, *kit.Topic) {
	t.Helper()
	server := servers.StartRedis(t, options)
	return server, kit.NewTopic(t, server.Client(), "bets_settled", partitions)
}

// noFsync is for tests that kill no Redis.
var noFsync = servers.RedisOptions{Fsync: "no"}

func connect(t *testing.T, server *servers.Redis) redis.UniversalClient {
	t.Helper()
	return kit.Connect(t, kit.ClientOptions(server.Addr()))
}

// connectAs makes a Redis user with these ACL rules and a client that logs in as that user.
func connectAs(t *testing.T, server *servers.Redis, user string, rules ...string) redis.UniversalClient {
	t.Helper()
	permit(t, server, user, append([]string{"on", ">secret"}, rules...)...)
	options := kit.ClientOptions(server.Addr())
	options.Username, options.Password = user, "secret"
	return kit.Connect(t, options)
}

func permit(t *testing.T, server *servers.Redis, user string, rules ...string) {
	t.Helper()
	args := []any{"ACL", "SETUSER", user}
	for _, rule := range rules {
		args = append(args, rule)
	}
	require.NoError(t, server.Client().Do(t.Context(), args...).Err())
}

// startPayouts starts a restate-server that knows the payout service, with a proxy in front of its ingress.
func startPayouts(t *testing.T) (*servers.Restate, *payout.Service, *kit.Ingress) {
	t.Helper()
	restate := servers.StartRestate(t, servers.RestateOptions{})
	service := payout.StartService(t, "")
	register(t, restate, service)
	return restate, service, kit.NewIngress(t, restate.Ingress())
}

func register(t *testing.T, restate *servers.Restate, service *payout.Service) {
	t.Helper()
	_, err := restate.Register(t.Context(), service.URL())
	require.NoError(t, err)
}

func newStarter(t *testing.T, options restatestart.Options) *restatestart.Starter[kit.Bet] {
	t.Helper()
	starter, err := restatestart.New(kit.HasClaim, payoutOf, options)
	require.NoError(t, err)
	t.Cleanup(starter.CloseIdleConnections)
	return starter
}

func payoutOf(m *restatestart.Message[kit.Bet]) (restatestart.Start, error) {
	return restatestart.Start{
		Workflow: cmp.Or(m.Value.Workflow, payout.Workflow),
		Key:      m.Value.Claim,
		Input:    payout.Input{BetID: m.Value.ID, Amount: m.Value.Amount},
	}, nil
}

// settled makes n bets, of which every nth, from the first, has a claim.
func settled(n, every int) []kit.Bet {
	bets := make([]kit.Bet, n)
	for i := range bets {
		bets[i] = kit.Bet{ID: fmt.Sprintf("b-%05d", i), Amount: float64(i) / 4}
		if i%every == 0 {
			bets[i].Claim = fmt.Sprintf("c-%05d", i)
		}
	}
	return bets
}

func claims(bets []kit.Bet) (keys []string) {
	for _, b := range bets {
		if b.Claim != "" {
			keys = append(keys, b.Claim)
		}
	}
	return keys
}

// countClaims counts the bodies that carry a claim.
func countClaims(bodies []string) (n int) {
	for _, body := range bodies {
		if strings.Contains(body, `"claimId"`) {
			n++
		}
	}
	return n
}

// assertStartedOnce waits until everything is done and asserts that all records agree: the stored positions are the ends of the
// streams, Restate holds one start of the workflow for each key, and its service ran each of them once.
func assertStartedOnce(t *testing.T, bets *kit.Topic, restate *servers.Restate, workflow string, service *payout.Service, keys []string) {
	t.Helper()
	bets.AwaitEnd(t)
	require.Eventually(t, func() bool { return len(service.Executions()) >= len(keys) }, time.Minute, kit.Interval, "%d runs", len(keys))
	awaitCompleted(t, restate, workflow, len(keys))
	started, err := restate.StartedKeys(t.Context(), workflow)
	require.NoError(t, err)
	assert.Equal(t, slices.Sorted(slices.Values(keys)), started)
	once := make(map[string]int, len(keys))
	for _, key := range keys {
		once[key] = 1
	}
	assert.Equal(t, once, service.Executions())
}

// awaitCompleted waits until Restate holds n starts of workflow, all completed.
func awaitCompleted(t *testing.T, restate *servers.Restate, workflow string, n int) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		counts, err := restate.CountByStatus(t.Context(), workflow)
		require.NoError(c, err)
		require.Equal(c, map[string]int{"completed": n}, counts)
	}, kit.Patience, kit.Interval)
}

// errorLog is a log that counts its lines at level Error.
type errorLog struct {
	slog.Handler

	lines atomic.Int64
}

func newErrorLog(t *testing.T) *errorLog {
	t.Helper()
	return &errorLog{Handler: slog.NewTextHandler(t.Output(), nil)}
}

// Handle implements slog.Handler.
func (l *errorLog) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelError {
		l.lines.Add(1)
	}
	return l.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler. It drops the attributes.
func (l *errorLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// running is a Consumer whose Run is under way.
type running struct {
	*redisstream.Consumer[kit.Bet]

	cancel context.CancelFunc
	ended  chan struct{} // closed once Run returned; err may be read then
	err    error
	fails  bool // Run is expected to return an error
}

// run starts a Consumer that is stopped with the test, if not before.
func run(
	t *testing.T, client redis.UniversalClient, bets *kit.Topic, handler redisstream.Handler[kit.Bet], options redisstream.Options,
) *running {
	t.Helper()
	options.Consumer = kit.ConsumerName
	if options.Logger == nil {
		options.Logger = slog.New(newErrorLog(t))
	}
	consumer, err := redisstream.NewConsumer(client, redisstream.Topic(bets.Topic), redisstream.JSON[kit.Bet], handler, options)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{Consumer: consumer, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = consumer.Run(ctx)
	}()
	t.Cleanup(func() {
		r.cancelAndWait()
		if !r.fails {
			assert.NoError(t, r.err)
		}
	})
	return r
}

func (r *running) cancelAndWait() {
	r.cancel()
	<-r.ended
}

// stop cancels Run, which must end cleanly, and returns how long that took.
func (r *running) stop(t *testing.T) time.Duration {
	t.Helper()
	require.True(t, r.alive(), "Run has not returned yet")
	began := time.Now()
	r.cancelAndWait()
	require.NoError(t, r.err)
	return time.Since(began)
}

func (r *running) alive() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// blocked returns what holds a partition, nil when nothing does.
func (r *running) blocked(partition int) *redisstream.Blocked {
	for _, status := range r.Status().Partitions {
		if status.Partition == partition {
			return status.Blocked
		}
	}
	return nil
}

func (r *running) awaitBlocked(t *testing.T, partition int) *redisstream.Blocked {
	t.Helper()
	var blocked *redisstream.Blocked
	kit.Await(t, func() bool {
		blocked = r.blocked(partition)
		return blocked != nil
	}, "partition %d is blocked", partition)
	return blocked
}

func (r *running) awaitIdle(t *testing.T, partitions int) {
	t.Helper()
	kit.Await(t, func() bool {
		idle := 0
		for _, status := range r.Status().Partitions {
			if status.State == redisstream.StateIdle {
				idle++
			}
		}
		return idle == partitions
	}, "%d partitions are idle", partitions)
}

// handled is a Handler that records its messages, for tests that need no Restate.
type handled struct {
	fails atomic.Value // string: the id of a message that it fails on, or "all"; empty for none

	mu  sync.Mutex
	ids []string
	at  []time.Time
}

var errUnwanted = errors.New("unwanted")

func (h *handled) Handle(_ context.Context, batch []restatestart.Message[kit.Bet]) error {
	if fails := h.fails.Load(); fails == "all" || fails == batch[0].ID {
		return errUnwanted
	}
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range batch {
		h.ids = append(h.ids, batch[i].ID)
		h.at = append(h.at, now)
	}
	return nil
}

// entries are the ids of the messages so far, in order of delivery.
func (h *handled) entries() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ids)
}

// last is when the last message was delivered.
func (h *handled) last() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at[len(h.at)-1]
}

func (h *handled) await(t *testing.T, n int) {
	t.Helper()
	kit.Await(t, func() bool { return len(h.entries()) >= n }, "%d messages", n)
}
