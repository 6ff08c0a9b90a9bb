package stream_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a group with everything around it in memory. It is made inside a synctest bubble.
type rig struct {
	t       *testing.T
	source  *streamtest.Source
	store   *store
	deliver func(ctx context.Context, partition int, entries []wire.Entry) stream.Verdict
	config  stream.Config
	group   *stream.Group
	cancel  context.CancelFunc
	result  chan error
	log     *syncBuffer

	observed observed

	mu      sync.Mutex
	handed  []string // "partition: first..last", in order
	at      []time.Time
	batches []stream.Batch
	began   time.Time
}

func newRig(t *testing.T, partitions ...int) *rig {
	t.Helper()
	r := &rig{t: t, source: &streamtest.Source{}, store: &store{}, began: time.Now(), log: &syncBuffer{}}
	r.config = stream.Config{
		Name:       func(partition int) string { return fmt.Sprint("s:", partition) },
		Partitions: partitions, Source: r.source, Store: r.store,
		Observer: &r.observed,
		Deliver: func(ctx context.Context, batch stream.Batch) stream.Verdict {
			r.mu.Lock()
			r.handed = append(r.handed, fmt.Sprintf("%d: %s", batch.Partition, bodies(batch.Entries)))
			r.at = append(r.at, time.Now())
			r.batches = append(r.batches, batch)
			r.mu.Unlock()
			if r.deliver == nil {
				return stream.Verdict{}
			}
			return r.deliver(ctx, batch.Partition, batch.Entries)
		},
		Start:     func(_ context.Context, _ int, stored position.Stored, _ bool) (wire.ID, error) { return stored.ID, nil },
		Logger:    slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
		BatchSize: 3, Block: time.Second, ReadAhead: 2, PersistInterval: time.Second, DrainTimeout: 10 * time.Second,
		HoldMin: time.Second, HoldMax: 30 * time.Second,
	}
	return r
}

func (r *rig) run() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.group = stream.NewGroup(r.config)
	r.result = make(chan error, 1)
	go func() { r.result <- r.group.Run(ctx) }()
	synctest.Wait()
}

// pass lets time go by, and everything happen that happens until then.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// stop cancels and returns what Run returned, and how long that took.
func (r *rig) stop() (time.Duration, error) {
	r.t.Helper()
	began := time.Now()
	r.cancel()
	err := <-r.result
	return time.Since(began), err
}

// deliveries are what was handed over so far.
func (r *rig) deliveries() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.handed...)
}

// times are when that was, in seconds since the test began.
func (r *rig) times() []float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	times := make([]float64, len(r.at))
	for i, at := range r.at {
		times[i] = at.Sub(r.began).Seconds()
	}
	return times
}

func (r *rig) position(partition int) string {
	stored, err := r.store.Load(context.Background(), []int{partition})
	require.NoError(r.t, err)
	return stored[0].ID.String()
}

func (r *rig) status(partition int) stream.Status {
	r.t.Helper()
	statuses, _, _ := r.group.Status()
	for _, status := range statuses {
		if status.Partition == partition {
			return status
		}
	}
	r.t.Fatalf("no partition %d", partition)
	return stream.Status{}
}

// store is a position store that can fail, and that knows every position it was ever at.
type store struct {
	position.Memory
	mu    sync.Mutex
	err   error
	saves int
}

func (s *store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *store) Save(ctx context.Context, writes []position.Write) ([]*position.Reset, error) {
	s.mu.Lock()
	err := s.err
	s.saves++
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Memory.Save(ctx, writes)
}

func (s *store) Load(ctx context.Context, partitions []int) ([]position.Stored, error) {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.Memory.Load(ctx, partitions)
}

type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *syncBuffer) count(text string) int { return strings.Count(b.String(), text) }

func withoutTime(_ []string, attr slog.Attr) slog.Attr {
	if attr.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return attr
}

func bodies(entries []wire.Entry) string {
	texts := make([]string, len(entries))
	for i, entry := range entries {
		texts[i] = entry.Body
	}
	return strings.Join(texts, " ")
}

func (r *rig) add(partition int, from, to int) {
	for n := from; n <= to; n++ {
		r.source.Add(partition, fmt.Sprintf("m%d", n))
	}
}

func statusOf(r *rig) ([]stream.Status, time.Time, error) { return r.group.Status() }

// splitDeliveries takes batches apart: how messages fall into batches is not what every test is about.
func splitDeliveries(deliveries []string) []string {
	var single []string
	for _, delivery := range deliveries {
		partition, list, _ := strings.Cut(delivery, ": ")
		for body := range strings.FieldsSeq(list) {
			single = append(single, partition+": "+body)
		}
	}
	return single
}
