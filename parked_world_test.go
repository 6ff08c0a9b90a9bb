package restatestart_test

import (
	"context"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/position"
	"github.com/redisevents/restatestart/internal/wire"
)

// parkedStore is a store of parked entries in memory, of which each call can be made to fail.
type parkedStore struct {
	*parked.Memory

	mu      sync.Mutex
	failing error
	calls   int
	removes func(ctx context.Context) // called before each removal
}

func newParkedStore(positions *position.Memory) *parkedStore {
	store := &parkedStore{Memory: parked.NewMemory(wire.Keys{Topic: "claims"}, func(partition int) wire.ID {
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

func (s *parkedStore) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *parkedStore) Park(ctx context.Context, partition int, parkings []parked.Parking) ([]wire.ID, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	return s.Memory.Park(ctx, partition, parkings)
}

func (s *parkedStore) Find(ctx context.Context, id wire.ID) (parked.Entry, bool, error) {
	if err := s.call(); err != nil {
		return parked.Entry{}, false, err
	}
	return s.Memory.Find(ctx, id)
}

func (s *parkedStore) List(ctx context.Context, after wire.ID, limit int) ([]parked.Entry, error) {
	if err := s.call(); err != nil {
		return nil, err
	}
	return s.Memory.List(ctx, after, limit)
}

func (s *parkedStore) Remove(ctx context.Context, id wire.ID) (parked.Entry, bool, error) {
	if s.removes != nil {
		s.removes(ctx)
	}
	if err := s.call(); err != nil {
		return parked.Entry{}, false, err
	}
	return s.Memory.Remove(ctx, id)
}

// parkedEntries are all that are parked.
func (w *world) parkedEntries() []restatestart.ParkedEntry {
	w.t.Helper()
	entries, err := w.consumer.Parked(context.Background(), restatestart.ParkedPage{Limit: 1000})
	require.NoError(w.t, err)
	return entries
}

// parkedIDs are the ids that the parked entries had in their streams, and why they are parked.
func (w *world) parkedIDs() []string {
	w.t.Helper()
	ids := []string{}
	for _, entry := range w.parkedEntries() {
		ids = append(ids, entry.EntryID+" "+entry.Reason.String())
	}
	return ids
}
