package stream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/position/positiontest"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a loop with everything around it in memory. It is made inside a synctest bubble.
type harness struct {
	t        *testing.T
	source   *streamtest.Source
	store    *store
	config   stream.Config
	deliver  func(ctx context.Context, partition int, entries []wire.Entry) stream.Verdict // nil: all is done, unless held
	loop     *stream.Loop
	cancel   context.CancelFunc
	result   chan error
	log      testkit.Log
	observer observer
	began    time.Time

	mu      sync.Mutex
	held    bool
	batches []stream.Batch
	at      []time.Time // of the batches
	gaps    []string
	lost    int64
}

func newHarness(t *testing.T, partitions ...int) *harness {
	t.Helper()
	h := &harness{t: t, source: &streamtest.Source{}, store: &store{}, began: time.Now()}
	h.config = stream.Config{
		Name:       func(partition int) string { return fmt.Sprint("s:", partition) },
		Partitions: partitions, Source: h.source, Store: h.store,
		Observer: &h.observer,
		Deliver: func(ctx context.Context, batch stream.Batch) stream.Verdict {
			h.mu.Lock()
			h.batches = append(h.batches, batch)
			h.at = append(h.at, time.Now())
			held := h.held
			h.mu.Unlock()
			switch {
			case held:
				return hold(batch.Entries)
			case h.deliver == nil:
				return stream.Verdict{}
			}
			return h.deliver(ctx, batch.Partition, batch.Entries)
		},
		OnGap: func(_ context.Context, partition int, gap stream.Gap) {
			h.mu.Lock()
			defer h.mu.Unlock()
			assert.Zero(t, partition)
			h.gaps = append(h.gaps, describe(gap))
			h.lost += gap.Lost
		},
		Start:     func(_ context.Context, _ int, stored position.Stored, _ bool) (wire.ID, error) { return stored.ID, nil },
		Logger:    h.log.Logger(),
		BatchSize: 3, Block: time.Second, ReadAhead: 2, PersistInterval: time.Second, DrainTimeout: 10 * time.Second,
		HoldMin: time.Second, HoldMax: 30 * time.Second,
	}
	return h
}

// hold holds all the entries of a delivery.
func hold(entries []wire.Entry) stream.Verdict {
	return stream.Verdict{Policy: stream.ErrorHold, Remaining: entries, Cause: "starts", Err: errors.New("down")}
}

// sleepIn makes one delivery take 10 s, by its number from 1.
func (h *harness) sleepIn(delivery int) {
	h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
		if len(h.deliveries()) == delivery {
			time.Sleep(10 * time.Second)
		}
		return stream.Verdict{}
	}
}

// hold makes all deliveries fail, or no longer.
func (h *harness) hold(held bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = held
}

func (h *harness) run() {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.loop = stream.NewLoop(h.config)
	h.result = make(chan error, 1)
	go func() { h.result <- h.loop.Run(ctx) }()
	synctest.Wait()
}

// stop cancels the run, and returns how long it took to end.
func (h *harness) stop() time.Duration {
	h.t.Helper()
	began := time.Now()
	h.cancel()
	require.NoError(h.t, <-h.result)
	return time.Since(began)
}

// restart stops and runs again, long enough for every check.
func (h *harness) restart() {
	h.stop()
	h.run()
	testkit.Pass(time.Minute)
}

// add publishes m<from> to m<to>.
func (h *harness) add(partition int, from, to int) {
	for n := from; n <= to; n++ {
		h.source.Add(partition, fmt.Sprintf("m%d", n))
	}
}

// deliveries are the batches delivered so far, as "partition: bodies".
func (h *harness) deliveries() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	deliveries := make([]string, len(h.batches))
	for i, batch := range h.batches {
		deliveries[i] = fmt.Sprintf("%d: %s", batch.Partition, bodies(batch.Entries))
	}
	return deliveries
}

// delivered are the messages delivered so far: how they fall into batches is not what every test is about.
func (h *harness) delivered() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var delivered []string
	for _, batch := range h.batches {
		for _, entry := range batch.Entries {
			delivered = append(delivered, fmt.Sprintf("%d: %s", batch.Partition, entry.Body))
		}
	}
	return delivered
}

// times are the times of the deliveries, in seconds since the test began.
func (h *harness) times() []float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	times := make([]float64, len(h.at))
	for i, at := range h.at {
		times[i] = at.Sub(h.began).Seconds()
	}
	return times
}

// position is the stored position of a partition.
func (h *harness) position(partition int) string {
	stored, err := h.store.Load(context.Background(), []int{partition})
	require.NoError(h.t, err)
	return stored[0].ID.String()
}

// setPosition stores a position as another program does.
func (h *harness) setPosition(partition int, id wire.ID) {
	_, err := h.store.Save(h.t.Context(), []position.Write{{Partition: partition, ID: id}})
	require.NoError(h.t, err)
}

func (h *harness) status(partition int) stream.Status {
	h.t.Helper()
	statuses, _, _ := h.loop.Status()
	at := slices.IndexFunc(statuses, func(status stream.Status) bool { return status.Partition == partition })
	require.GreaterOrEqual(h.t, at, 0, "no partition %d", partition)
	return statuses[at]
}

// reportedGaps are the gaps reported so far.
func (h *harness) reportedGaps() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string{}, h.gaps...)
}

// lostEntries is how many entries were reported lost.
func (h *harness) lostEntries() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

// describe is a gap in few words.
func describe(gap stream.Gap) string {
	text := fmt.Sprintf("%s behind %s", gap.Kind, gap.Position)
	if !gap.First.IsZero() {
		text += " before " + gap.First.String()
	}
	if gap.LostKnown {
		text += fmt.Sprintf(": %d", gap.Lost)
	}
	return text
}

func bodies(entries []wire.Entry) string {
	texts := make([]string, len(entries))
	for i, entry := range entries {
		texts[i] = entry.Body
	}
	return strings.Join(texts, " ")
}

// store is a position store that can fail.
type store struct {
	positiontest.Memory

	mu  sync.Mutex
	err error
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *store) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *store) Save(ctx context.Context, writes []position.Write) ([]*position.Reset, error) {
	if err := s.failure(); err != nil {
		return nil, err
	}
	return s.Memory.Save(ctx, writes)
}

func (s *store) Load(ctx context.Context, partitions []int) ([]position.Stored, error) {
	if err := s.failure(); err != nil {
		return nil, err
	}
	return s.Memory.Load(ctx, partitions)
}

// slowStore takes its time to save, and honours the context if it is interruptible.
type slowStore struct {
	*store

	delay         time.Duration
	interruptible bool
}

func (s slowStore) Save(ctx context.Context, writes []position.Write) ([]*position.Reset, error) {
	if !s.interruptible {
		ctx = context.WithoutCancel(ctx)
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(s.delay):
		return s.store.Save(ctx, writes)
	}
}

// observer records events, and counts reads.
type observer struct {
	mu     sync.Mutex
	reads  int
	events []string
}

func (o *observer) record(event string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, fmt.Sprintf(event, args...))
}

func (o *observer) Read(int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
}

func (o *observer) ReadFailed(partition int) { o.record("%d: read failed", partition) }

func (o *observer) DeliveryFailed(partition int, verdict stream.Verdict) {
	o.record("%d: failed, policy %d", partition, verdict.Policy)
}

func (o *observer) Processed(partition int, page stream.Page, unprocessed stream.Unprocessed) {
	o.record("%d: processed %d of %d, but for %v", partition, len(page.Entries), page.Read, unprocessed)
}

func (o *observer) CommitFailed() { o.record("commit failed") }
