package redisstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/parked/parkedtest"
	"github.com/redisevents/restatestart/internal/position/positiontest"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/topic"
	"github.com/redisevents/restatestart/internal/wire"
	"github.com/redisevents/restatestart/redisstream"
	"github.com/redisevents/restatestart/restatetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	claimMessage = restatestart.Message[testkit.Claim]
	claimHandler = redisstream.HandlerFunc[testkit.Claim]
)

var decodeClaim = redisstream.JSON[testkit.Claim]

// env is a Consumer in a synctest bubble, with everything it depends on in memory. When the test ends, a Run that is under
// way is stopped, and must return nil.
type env struct {
	t         *testing.T
	source    *streamtest.Source
	positions *positiontest.Memory
	parked    *parkedStore
	options   redisstream.Options
	log       testkit.Log
	decode    func([]byte) (testkit.Claim, error)
	ctx       context.Context //nolint:containedctx // of Run
	backend   redisstream.Backend

	consumer *redisstream.Consumer[testkit.Claim]
	cancel   context.CancelFunc
	result   chan error // of the Run under way, else nil

	mu      sync.Mutex
	meta    topic.Meta
	metaErr error
}

func newEnv(t *testing.T, partitions int) *env {
	t.Helper()
	e := &env{
		t: t, source: &streamtest.Source{}, positions: &positiontest.Memory{}, decode: decodeClaim, ctx: t.Context(),
		meta: topic.Meta{Partitions: strconv.Itoa(partitions), Version: "1"},
	}
	e.parked = newParkedStore(e.positions)
	e.options = redisstream.Options{Consumer: "payout", Logger: e.log.Logger()}
	e.backend = redisstream.Backend{Source: e.source, Store: e.positions, Parked: e.parked, Meta: e.readMeta}
	t.Cleanup(func() {
		if e.result != nil {
			assert.NoError(t, e.stop())
		}
	})
	return e
}

// recordedEnv is an env whose consumer reports to a recorder.
func recordedEnv(t *testing.T, partitions int) (*env, *testkit.Telemetry) {
	t.Helper()
	e, telemetry := newEnv(t, partitions), testkit.Record()
	e.options.TracerProvider, e.options.MeterProvider = telemetry.Tracer, telemetry.Meters
	return e, telemetry
}

func (e *env) readMeta(context.Context) (topic.Meta, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.meta, e.metaErr
}

func (e *env) setMeta(partitions, version string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.meta, e.metaErr = topic.Meta{Partitions: partitions, Version: version}, err
}

// connect makes a consumer without running it.
func (e *env) connect(handler redisstream.Handler[testkit.Claim]) {
	e.t.Helper()
	consumer, err := redisstream.NewConsumerOn(e.backend, "claims", e.decode, handler, e.options)
	require.NoError(e.t, err)
	e.consumer = consumer
}

// run runs a new consumer, until everything waits for time to pass.
func (e *env) run(handler redisstream.Handler[testkit.Claim]) {
	e.t.Helper()
	e.connect(handler)
	ctx, cancel := context.WithCancel(e.ctx)
	consumer, result := e.consumer, make(chan error, 1)
	e.cancel, e.result = cancel, result
	go func() { result <- consumer.Run(ctx) }()
	synctest.Wait()
}

func (e *env) stop() error {
	e.cancel()
	return e.ended()
}

// ended waits for Run to return by itself.
func (e *env) ended() error {
	err := <-e.result
	e.cancel()
	e.result = nil
	return err
}

// publish adds a message for each key.
func (e *env) publish(partition int, keys ...string) {
	for _, key := range keys {
		body, err := json.Marshal(testkit.Claim{Key: key})
		require.NoError(e.t, err)
		e.source.Add(partition, string(body))
	}
}

// position is the stored position.
func (e *env) position(partition int) string {
	stored, err := e.positions.Load(context.Background(), []int{partition})
	require.NoError(e.t, err)
	return stored[0].ID.String()
}

func (e *env) partition(number int) redisstream.PartitionStatus {
	for _, status := range e.consumer.Status().Partitions {
		if status.Partition == number {
			return status
		}
	}
	e.t.Fatalf("no partition %d in the status", number)
	return redisstream.PartitionStatus{}
}

// park parks a message for each key, as an earlier Run would, and returns their ids in the parked stream.
func (e *env) park(keys ...string) []string {
	e.t.Helper()
	parkings := make([]parked.Parking, len(keys))
	for i, key := range keys {
		parkings[i] = parked.Parking{
			Entry:   wire.Entry{ID: wire.ID{Ms: uint64(i + 1)}, Body: `{"key":"` + key + `"}`, HasBody: true, Type: "ClaimMade"},
			Failure: parked.Failure{Reason: "rejected", Status: 400, Text: "400: no", Workflow: "Payout", Key: key, At: time.Now()},
		}
	}
	ids, err := e.parked.Memory.Park(context.Background(), 0, parkings)
	require.NoError(e.t, err)
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = id.String()
	}
	return texts
}

// parkedEntries returns everything that is parked.
func (e *env) parkedEntries() []parked.Entry {
	e.t.Helper()
	entries, err := e.parked.List(context.Background(), wire.ID{}, 1000)
	require.NoError(e.t, err)
	return entries
}

// parkedIDs are the ids that parked entries had in their stream, with the reasons.
func (e *env) parkedIDs() []string {
	e.t.Helper()
	ids := []string{}
	for _, entry := range e.parkedEntries() {
		ids = append(ids, entry.EntryID.String()+" "+entry.Failure.Reason)
	}
	return ids
}

// discardAll removes everything that is parked, as an operator would.
func (e *env) discardAll() {
	e.t.Helper()
	for _, entry := range e.parkedEntries() {
		_, found, err := e.parked.Memory.Remove(context.Background(), entry.ID)
		require.NoError(e.t, err)
		require.True(e.t, found)
	}
}

// recorder is a handler that keeps the keys of each batch and returns what fail returns.
type recorder struct {
	fail func(batch []claimMessage) error

	mu      sync.Mutex
	batches []string
}

func (r *recorder) Handle(_ context.Context, batch []claimMessage) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, strings.Join(keysOf(batch), " "))
	if r.fail == nil {
		return nil
	}
	return r.fail(batch)
}

func (r *recorder) delivered() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.batches...)
}

func keysOf(batch []claimMessage) []string {
	keys := make([]string, len(batch))
	for i, message := range batch {
		keys[i] = message.Value.Key
	}
	return keys
}

// boom fails every batch, and failBad those that begin with the key bad.
func boom([]claimMessage) error { return testkit.ErrBoom }

func failBad(batch []claimMessage) error {
	if batch[0].Value.Key == "bad" {
		return testkit.ErrBoom
	}
	return nil
}

func accept(context.Context, []claimMessage) error { return nil }

// once is a Starter that makes one attempt.
func once(t *testing.T, fake *restatetest.Server) *restatestart.Starter[testkit.Claim] {
	t.Helper()
	return testkit.NewStarter(t, fake, nil, restatestart.Options{MaxAttempts: 1})
}

// parkedStore is a parkedtest.Memory whose calls can be made to fail.
type parkedStore struct {
	*parkedtest.Memory

	beforeRemove func(ctx context.Context)
	loseAnswers  bool // Park succeeds and returns an error

	mu      sync.Mutex
	failing error
	calls   int
}

func newParkedStore(positions *positiontest.Memory) *parkedStore {
	store := &parkedStore{Memory: parkedtest.NewMemory(wire.Keys{Topic: "claims"}, func(partition int) wire.ID {
		stored, _ := positions.Load(context.Background(), []int{partition})
		return stored[0].ID
	}, nil)}
	store.Resets = positions.Resets
	return store
}

func (s *parkedStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = err
}

func (s *parkedStore) call() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.failing
}

func (s *parkedStore) called() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *parkedStore) Park(ctx context.Context, partition int, parkings []parked.Parking) ([]wire.ID, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	ids, err := s.Memory.Park(ctx, partition, parkings)
	if s.loseAnswers {
		s.loseAnswers = false
		return nil, errors.New("EOF")
	}
	return ids, err
}

func (s *parkedStore) Find(ctx context.Context, id wire.ID) (parked.Entry, bool, error) {
	if err := s.call(); err != nil {
		return parked.Entry{}, false, err
	}
	return s.Memory.Find(ctx, id)
}

func (s *parkedStore) Remove(ctx context.Context, id wire.ID) (parked.Entry, bool, error) {
	if s.beforeRemove != nil {
		s.beforeRemove(ctx)
	}
	if err := s.call(); err != nil {
		return parked.Entry{}, false, err
	}
	return s.Memory.Remove(ctx, id)
}

// redisEnv is a Redis double and a client of it. What needs a real server is tested in internal/e2e.
func redisEnv(t *testing.T, options *redis.Options) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	server := miniredis.RunT(t)
	options.Addr = server.Addr()
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return server, client
}

// add adds an entry to partition 0 of the topic claims.
func add(t *testing.T, server *miniredis.Miniredis, id string, fields ...string) {
	t.Helper()
	_, err := server.XAdd("s:{claims}:0", id, fields)
	require.NoError(t, err)
}

// consume runs a consumer until the handler has received n messages, and returns them.
func consume(t *testing.T, client redis.UniversalClient, n int, options redisstream.Options) []claimMessage {
	t.Helper()
	options.Consumer, options.Block = "payout", 10*time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var mu sync.Mutex // partitions are handled concurrently
	var seen []claimMessage
	consumer, err := redisstream.NewConsumer(client, redisstream.Topic("claims"), decodeClaim,
		claimHandler(func(_ context.Context, batch []claimMessage) error {
			mu.Lock()
			defer mu.Unlock()
			if seen = append(seen, batch...); len(seen) >= n {
				cancel()
			}
			return nil
		}), options)
	require.NoError(t, err)
	require.NoError(t, consumer.Run(ctx))
	require.Len(t, seen, n)
	return seen
}
