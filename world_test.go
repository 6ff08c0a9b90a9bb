package restatestart_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
)

// world is a consumer with everything around it in memory, in virtual time.
type world struct {
	t        *testing.T
	source   *streamtest.Source
	reads    stream.Source // what is read in place of it, if anything
	store    *position.Memory
	parked   *parkedStore
	consumer *restatestart.Consumer[claim]
	options  restatestart.ConsumerOptions
	under    context.Context //nolint:containedctx // what Run is called with, if not with an empty one
	cancel   context.CancelFunc
	result   chan error

	mu         sync.Mutex
	partitions string
	version    string
	metaErr    error
	pool       int
	log        bytes.Buffer
	json       bool // the log is JSON
	logTo      *slog.Logger
}

func newWorld(t *testing.T, partitions int) *world {
	t.Helper()
	w := &world{
		t: t, source: &streamtest.Source{}, store: &position.Memory{}, partitions: fmt.Sprint(partitions), version: "1",
		options: restatestart.ConsumerOptions{Consumer: "payout"},
	}
	w.parked = newParkedStore(w.store)
	return w
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *world) logger() *slog.Logger {
	if w.logTo != nil {
		return w.logTo
	}
	if w.json {
		return slog.New(slog.NewJSONHandler(w, nil))
	}
	return slog.New(slog.NewTextHandler(w, nil))
}

func (w *world) logged(text string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.log.String(), text)
}

func (w *world) meta(context.Context) (string, string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.partitions, w.version, w.metaErr
}

func (w *world) setMeta(partitions, version string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.partitions, w.version, w.metaErr = partitions, version, err
}

func (w *world) run(handler restatestart.Handler[claim]) {
	w.t.Helper()
	w.consumer = w.connect(handler, restatestart.JSON[claim])
	consumer := w.consumer
	if w.under == nil {
		w.under = context.Background()
	}
	ctx, cancel := context.WithCancel(w.under)
	w.cancel = cancel
	w.result = make(chan error, 1)
	go func() { w.result <- consumer.Run(ctx) }()
	synctest.Wait()
}

// connect makes a consumer that is not run.
func (w *world) connect(handler restatestart.Handler[claim], decode func([]byte) (claim, error)) *restatestart.Consumer[claim] {
	w.t.Helper()
	w.options.Logger = w.logger()
	reads := w.reads
	if reads == nil {
		reads = w.source
	}
	consumer, err := restatestart.NewConsumerOn(
		restatestart.Backend{Source: reads, Store: w.store, Meta: w.meta, Pool: w.pool, Parked: w.parked},
		"claims", decode, handler, w.options)
	require.NoError(w.t, err)
	return consumer
}

func (w *world) stop() error {
	w.cancel()
	return <-w.result
}

// publish adds a message a key.
func (w *world) publish(partition int, keys ...string) {
	for _, key := range keys {
		body, err := json.Marshal(claim{Key: key})
		require.NoError(w.t, err)
		w.source.Add(partition, string(body))
	}
}

func (w *world) position(partition int) string {
	stored, err := w.store.Load(context.Background(), []int{partition})
	require.NoError(w.t, err)
	return stored[0].ID.String()
}

func (w *world) partition(number int) restatestart.PartitionStatus {
	for _, status := range w.consumer.Status().Partitions {
		if status.Partition == number {
			return status
		}
	}
	w.t.Fatalf("no partition %d in the status", number)
	return restatestart.PartitionStatus{}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// recorder is a handler that keeps the keys of each batch, and fails as it is told.
type recorder struct {
	mu      sync.Mutex
	batches []string
	fail    func(batch []restatestart.Message[claim]) error
}

func (r *recorder) Handle(_ context.Context, batch []restatestart.Message[claim]) error {
	keys := make([]string, len(batch))
	for i, message := range batch {
		keys[i] = message.Value.Key
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, strings.Join(keys, " "))
	if r.fail == nil {
		return nil
	}
	return r.fail(batch)
}

func (r *recorder) handed() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.batches...)
}
