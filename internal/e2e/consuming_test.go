package e2e_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

const consumerName = "payout"

// connect returns a client as a service makes one. It is closed with the test.
func connect(t *testing.T, address string) *redis.Client {
	t.Helper()
	return connectWith(t, clientOptions(address))
}

func connectWith(t *testing.T, options *redis.Options) *redis.Client {
	t.Helper()
	client := redis.NewClient(options)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

func clientOptions(address string) *redis.Options {
	return &redis.Options{
		Addr: address,
		// Redis before 8 answers these with an error on every connection.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func logTo(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

// errorLog is a log that counts its lines at level Error.
type errorLog struct {
	slog.Handler

	lines atomic.Int64
}

func newErrorLog(t *testing.T) *errorLog {
	t.Helper()
	return &errorLog{Handler: logTo(t).Handler()}
}

// Handle implements slog.Handler.
func (l *errorLog) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelError {
		l.lines.Add(1)
	}
	return l.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler. The attributes are left out: they do not count.
func (l *errorLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// newStarter returns a Starter of payouts, and the counts of what the ingress answered it.
func newStarter(t *testing.T, restate *servers.Restate, options restatestart.Options) (*restatestart.Starter[bet], *tally) {
	t.Helper()
	answers := newTally()
	options.Ingress, options.HTTPClient = restate.Ingress(), answers.client()
	starter, err := restatestart.New(hasClaim, payoutOf, options)
	require.NoError(t, err)
	t.Cleanup(starter.CloseIdleConnections)
	return starter, answers
}

// consuming is a Consumer whose Run is under way.
type consuming struct {
	*restatestart.Consumer[bet]

	cancel context.CancelFunc
	ended  chan struct{} // closed once Run returned
	err    error         // of Run; read it after ended only
}

// run starts a Consumer that is stopped with the test, if not before.
func run(
	t *testing.T, client redis.UniversalClient, p *topic, handler restatestart.Handler[bet], options restatestart.ConsumerOptions,
) *consuming {
	t.Helper()
	options.Consumer = consumerName
	if options.Logger == nil {
		options.Logger = logTo(t)
	}
	consumer, err := restatestart.NewConsumer(client, p.Topic, restatestart.JSON[bet], handler, options)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := &consuming{Consumer: consumer, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = consumer.Run(ctx)
	}()
	t.Cleanup(func() { r.stop(t) })
	return r
}

// stop cancels Run, waits for its end, which must be a clean one, and returns how long that took. It may be called
// again.
func (r *consuming) stop(t *testing.T) time.Duration {
	t.Helper()
	asked := time.Now()
	r.cancel()
	<-r.ended
	require.NoError(t, r.err)
	return time.Since(asked)
}

// alive tells that Run has not returned.
func (r *consuming) alive() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// blocked returns what holds a partition, nil when nothing does.
func (r *consuming) blocked(partition int) *restatestart.Blocked {
	for _, status := range r.Status().Partitions {
		if status.Partition == partition {
			return status.Blocked
		}
	}
	return nil
}

// handled is a Handler that notes what it was handed, for tests that need no Restate.
type handled struct {
	mu  sync.Mutex
	ids []string
	at  []time.Time
}

func (h *handled) Handle(_ context.Context, batch []restatestart.Message[bet]) error {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range batch {
		h.ids = append(h.ids, batch[i].ID)
		h.at = append(h.at, now)
	}
	return nil
}

// entries are the ids of the messages so far, in the order in which they came.
func (h *handled) entries() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.ids...)
}

// last is when the last message came.
func (h *handled) last() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at[len(h.at)-1]
}

// await waits until the handler has seen n messages.
func (h *handled) await(t *testing.T, n int, limit time.Duration) {
	t.Helper()
	require.Eventually(t, func() bool { return len(h.entries()) >= n }, limit, interval, "%d messages", n)
}
