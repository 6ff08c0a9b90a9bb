// Package parkedtest has the conformance suite of parked.Store, and an in-memory store for tests.
package parkedtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/wire"
)

// Harness is a store under test.
type Harness struct {
	Store parked.Store
	// Other is a second store of the same entries.
	Other parked.Store
	// Add adds an entry to the stream of a partition, and Trim removes it.
	Add  func(partition int, id wire.ID, fields []parked.Field)
	Trim func(partition int, id wire.ID)
	// Move stores a position, backwards too.
	Move func(partition int, id wire.ID)
	// Key is the stream of a partition.
	Key func(partition int) string
}

// at is when entries are parked, in the resolution of the stored time, 100 ns.
var at = time.Date(2026, 9, 6, 11, 22, 33, 444555600, time.UTC)

func failure(key string) parked.Failure {
	return parked.Failure{Reason: "rejected", Status: 400, Text: "400: input validation error", Workflow: "Payout", Key: key, At: at}
}

// plain are the fields of an entry as a producer writes them.
func plain(body string) []parked.Field {
	return []parked.Field{{Name: "b", Value: body}, {Name: "t", Value: "ClaimMade"}, {Name: "k", Value: ""}}
}

// odd are those of an entry that a map cannot hold.
var odd = []parked.Field{
	{Name: "x", Value: "unknown"},
	{Name: "b", Value: "first"},
	{Name: "", Value: "no name"},
	{Name: "parked:reason", Value: "the producer's own"},
	{Name: "b", Value: "bytes \x00\xff\r\n"},
	{Name: "parked:entry", Value: "9-9"},
	{Name: "t", Value: "A"},
	{Name: "parked:whole", Value: "0"},
}

func entryOf(id wire.ID, fields []parked.Field) wire.Entry {
	return parked.Entry{EntryID: id, Fields: fields}.Original()
}

// suite is a harness with what its tests share.
type suite struct {
	Harness

	t *testing.T
}

func (s suite) ctx() context.Context { return s.t.Context() }

// add adds an entry and returns its parking.
func (s suite) add(partition int, id wire.ID, fields []parked.Field) parked.Parking {
	s.t.Helper()
	s.Add(partition, id, fields)
	return parked.Parking{Entry: entryOf(id, fields), Failure: failure("c-" + id.String())}
}

func (s suite) park(store parked.Store, partition int, parkings ...parked.Parking) []bool {
	s.t.Helper()
	ids, err := store.Park(s.ctx(), partition, later(parkings))
	require.NoError(s.t, err)
	return areNew(ids)
}

var clock atomic.Int64 //nolint:gochecknoglobals // gives each call of Park a time of its own

// later returns the same parkings at another time.
func later(parkings []parked.Parking) []parked.Parking {
	parkings = slices.Clone(parkings)
	for i := range parkings {
		parkings[i].Failure.At = at.Add(time.Duration(clock.Add(1)) * time.Second)
	}
	return parkings
}

// areNew reports which entries were new.
func areNew(ids []wire.ID) []bool {
	fresh := make([]bool, len(ids))
	for i, id := range ids {
		fresh[i] = !id.IsZero()
	}
	return fresh
}

func (s suite) list() []parked.Entry {
	s.t.Helper()
	entries, err := s.Other.List(s.ctx(), wire.ID{}, 1000)
	require.NoError(s.t, err)
	return entries
}

// ids returns the original ids of the parked entries.
func (s suite) ids() string {
	s.t.Helper()
	ids := []string{}
	for _, entry := range s.list() {
		ids = append(ids, entry.EntryID.String())
	}
	return strings.Join(ids, " ")
}

func (s suite) remove(id wire.ID) bool {
	s.t.Helper()
	_, found, err := s.Store.Remove(s.ctx(), id)
	require.NoError(s.t, err)
	return found
}

// Run runs the suite. Each call of open returns an empty store.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	for name, test := range map[string]func(suite){
		"an entry is parked unchanged, with its metadata":                       parkedComplete,
		"a trimmed entry is parked from memory":                                 parkedFromMemory,
		"an entry without a body has none when it is parked from memory":        parkedWithoutBody,
		"C5 an entry is parked once, however often and by whichever store":      parkedOnce,
		"C5 an entry removed before the position passed it is not parked again": notParkedAgain,
		"an entry removed after the position passed it is parked again":         parkedAfterReset,
		"an entry that is still parked is not parked twice after a reset":       onceAfterReset,
		"another entry of the same id is parked too":                            parkedByContent,
		"partitions are independent":                                            partitionsIndependent,
		"a page ends at its limit and the next begins after it":                 pages,
		"of concurrent removals of an entry one finds it":                       removedOnce,
		"new, known and trimmed entries can be parked in one call":              mixed,
		"ids are compared as 64-bit integers":                                   greatIDs,
		"an entry whose reply was lost is new when it is parked again":          parkedAfterLostReply,
		"of concurrent calls that park an entry one does":                       parkedConcurrently,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(suite{open(t), t})
		})
	}
}

func parkedComplete(s suite) {
	id := wire.ID{Ms: 1726000000000, Seq: 7}
	parking := s.add(3, id, odd)
	ids, err := s.Store.Park(s.ctx(), 3, []parked.Parking{parking})
	require.NoError(s.t, err)
	entries := s.list()
	require.Len(s.t, entries, 1)
	assert.Equal(s.t, []wire.ID{entries[0].ID}, ids)
	want := parked.Entry{
		ID: entries[0].ID, Stream: s.Key(3), Partition: 3, EntryID: id, Failure: failure("c-1726000000000-7"), Complete: true, Fields: odd,
	}
	assert.Equal(s.t, want, entries[0])
	assert.Equal(s.t, parking.Entry, entries[0].Original())
	assert.Equal(s.t, "bytes \x00\xff\r\n", entries[0].Original().Body, "the last one counts")

	found, is, err := s.Other.Find(s.ctx(), entries[0].ID)
	require.NoError(s.t, err)
	assert.True(s.t, is)
	assert.Equal(s.t, want, found)
	s.Trim(3, id)
	assert.Equal(s.t, []bool{false}, s.park(s.Store, 3, parking), "it is recognised without the unknown fields")
	removed, is, err := s.Store.Remove(s.ctx(), entries[0].ID)
	require.NoError(s.t, err)
	assert.True(s.t, is)
	want.Fields = nil
	assert.Equal(s.t, want, removed)
	assert.Empty(s.t, s.list())
	assert.Equal(s.t, []bool{false}, s.park(s.Store, 3, parking), "the producer's own fields are not taken for metadata")
}

func parkedFromMemory(s suite) {
	id := wire.ID{Ms: 5}
	parking := s.add(0, id, append(plain("body"), parked.Field{Name: "x", Value: "unknown"}))
	s.Trim(0, id)
	ids, err := s.Store.Park(s.ctx(), 0, []parked.Parking{parking})
	require.NoError(s.t, err)
	assert.Equal(s.t, []bool{true}, areNew(ids))
	assert.Equal(s.t, []bool{false}, s.park(s.Other, 0, parking))
	entries := s.list()
	require.Len(s.t, entries, 1)
	assert.False(s.t, entries[0].Complete)
	assert.Equal(s.t, plain("body"), entries[0].Fields)
	assert.Equal(s.t, failure("c-5-0"), entries[0].Failure)
}

func parkedWithoutBody(s suite) {
	id := wire.ID{Ms: 5}
	parking := s.add(0, id, []parked.Field{{Name: "t", Value: "A"}})
	s.Trim(0, id)
	s.park(s.Store, 0, parking)
	entries := s.list()
	require.Len(s.t, entries, 1)
	assert.False(s.t, entries[0].Original().HasBody)
	assert.Equal(s.t, parking.Entry, entries[0].Original())
}

func parkedOnce(s suite) {
	one, two := s.add(0, wire.ID{Ms: 1}, plain("1")), s.add(0, wire.ID{Ms: 2}, plain("2"))
	assert.Equal(s.t, []bool{true}, s.park(s.Store, 0, one))
	assert.Equal(s.t, []bool{false, true}, s.park(s.Other, 0, one, two))
	assert.Equal(s.t, []bool{false, false}, s.park(s.Store, 0, one, two))
	s.Trim(0, wire.ID{Ms: 1})
	assert.Equal(s.t, []bool{false, false}, s.park(s.Store, 0, one, two), "nor once it was trimmed")
	s.Move(0, wire.ID{Ms: 2})
	assert.Equal(s.t, []bool{false, false}, s.park(s.Store, 0, one, two))
	assert.Equal(s.t, "1-0 2-0", s.ids())
}

func notParkedAgain(s suite) {
	one, two := s.add(0, wire.ID{Ms: 9, Seq: 9}, plain("1")), s.add(0, wire.ID{Ms: 10}, plain("2"))
	for _, stored := range []wire.ID{{}, {Ms: 9, Seq: 8}} {
		if !stored.IsZero() {
			s.Move(0, stored)
		}
		s.park(s.Store, 0, one, two)
		for _, entry := range s.list() {
			assert.True(s.t, s.remove(entry.ID))
		}
		assert.Equal(s.t, []bool{false, false}, s.park(s.Other, 0, one, two), "stored is %s", stored)
		assert.Empty(s.t, s.list())
	}
}

func parkedAfterReset(s suite) {
	one, two := s.add(0, wire.ID{Ms: 9}, plain("1")), s.add(0, wire.ID{Ms: 10}, plain("2"))
	s.park(s.Store, 0, one, two)
	before := s.list()
	require.Len(s.t, before, 2)
	assert.True(s.t, s.remove(before[0].ID))
	s.Move(0, wire.ID{Ms: 10})
	assert.True(s.t, s.remove(before[1].ID), "the position has passed it")
	s.Move(0, wire.ID{Ms: 8})
	assert.Equal(s.t, []bool{true, true}, s.park(s.Store, 0, one, two))
	assert.Equal(s.t, "9-0 10-0", s.ids())
}

func onceAfterReset(s suite) {
	one := s.add(0, wire.ID{Ms: 9}, plain("1"))
	s.park(s.Store, 0, one)
	s.Move(0, wire.ID{Ms: 20})
	s.park(s.Store, 0, s.add(0, wire.ID{Ms: 20}, plain("2")))
	s.Move(0, wire.ID{Ms: 1})
	assert.Equal(s.t, []bool{false}, s.park(s.Store, 0, one))
	assert.Equal(s.t, "9-0 20-0", s.ids())
}

func parkedByContent(s suite) {
	id := wire.ID{Ms: 1}
	old := s.add(0, id, plain("old"))
	s.park(s.Store, 0, old)
	s.Trim(0, id)
	s.park(s.Store, 0, s.add(0, id, plain("new")))
	entries := s.list()
	require.Len(s.t, entries, 2)
	assert.Equal(s.t, "old new", entries[0].Original().Body+" "+entries[1].Original().Body)
	assert.True(s.t, s.remove(entries[0].ID))
	assert.Equal(s.t, []bool{false}, s.park(s.Store, 0, parked.Parking{Entry: entryOf(id, plain("new"))}))
	assert.True(s.t, s.remove(entries[1].ID))
	assert.Equal(s.t, []bool{false}, s.park(s.Store, 0, parked.Parking{Entry: entryOf(id, plain("new"))}))
	assert.Empty(s.t, s.list())
	s.Trim(0, id)
	assert.Equal(s.t, []bool{true}, s.park(s.Store, 0, s.add(0, id, plain("newest"))))
}

func partitionsIndependent(s suite) {
	id := wire.ID{Ms: 1}
	zero, eleven := s.add(0, id, plain("zero")), s.add(11, id, plain("eleven"))
	s.park(s.Store, 0, zero)
	s.park(s.Store, 11, eleven)
	entries := s.list()
	require.Len(s.t, entries, 2)
	assert.Equal(s.t, []int{0, 11}, []int{entries[0].Partition, entries[1].Partition})
	assert.True(s.t, s.remove(entries[0].ID))
	assert.True(s.t, s.remove(entries[1].ID))
	s.Move(11, id)
	s.park(s.Store, 11, s.add(11, wire.ID{Ms: 2}, plain("another")))
	assert.Equal(s.t, []bool{false}, s.park(s.Store, 0, zero))
	assert.Equal(s.t, []bool{true}, s.park(s.Store, 11, eleven))
}

func pages(s suite) {
	const entries = 250
	parkings := make([]parked.Parking, entries)
	for i := range parkings {
		parkings[i] = s.add(0, wire.ID{Ms: uint64(i + 1)}, plain("body"))
	}
	for _, fresh := range s.park(s.Store, 0, parkings...) {
		assert.True(s.t, fresh)
	}
	var after wire.ID
	var sizes []int
	seen := 0
	for {
		page, err := s.Store.List(s.ctx(), after, 100)
		require.NoError(s.t, err)
		sizes = append(sizes, len(page))
		if len(page) == 0 {
			break
		}
		for _, entry := range page {
			seen++
			assert.Equal(s.t, uint64(seen), entry.EntryID.Ms)
			assert.Positive(s.t, entry.ID.Compare(after))
			after = entry.ID
		}
	}
	assert.Equal(s.t, []int{100, 100, 50, 0}, sizes)
	none, err := s.Store.List(s.ctx(), wire.ID{Ms: 1<<64 - 1, Seq: 1<<64 - 1}, 1)
	require.NoError(s.t, err)
	assert.Empty(s.t, none)
}

func removedOnce(s suite) {
	s.park(s.Store, 0, s.add(0, wire.ID{Ms: 1}, plain("1")))
	id := s.list()[0].ID
	var group sync.WaitGroup
	var finds atomic.Int64
	for i := range 8 {
		group.Go(func() {
			store := []parked.Store{s.Store, s.Other}[i%2]
			_, found, err := store.Remove(s.ctx(), id)
			if assert.NoError(s.t, err) && found {
				finds.Add(1)
			}
		})
	}
	group.Wait()
	assert.EqualValues(s.t, 1, finds.Load())
	_, is, err := s.Store.Find(s.ctx(), id)
	require.NoError(s.t, err)
	assert.False(s.t, is)
}

func mixed(s suite) {
	one, two := s.add(0, wire.ID{Ms: 1}, plain("1")), s.add(0, wire.ID{Ms: 2}, plain("2"))
	three, four := s.add(0, wire.ID{Ms: 3}, plain("3")), s.add(0, wire.ID{Ms: 4}, plain("4"))
	s.park(s.Store, 0, two)
	s.Trim(0, wire.ID{Ms: 1})
	s.Trim(0, wire.ID{Ms: 3})
	assert.Equal(s.t, []bool{true, false, true, true}, s.park(s.Store, 0, one, two, three, four))
	complete := map[uint64]bool{}
	for _, entry := range s.list() {
		complete[entry.EntryID.Ms] = entry.Complete
	}
	assert.Equal(s.t, map[uint64]bool{1: false, 2: true, 3: false, 4: true}, complete)
	none, err := s.Store.Park(s.ctx(), 0, nil)
	require.NoError(s.t, err)
	assert.Empty(s.t, none)
}

func greatIDs(s suite) {
	id := wire.ID{Ms: 1<<53 + 1, Seq: 1}
	one := s.add(0, id, plain("1"))
	s.park(s.Store, 0, one)
	s.Move(0, wire.ID{Ms: 1 << 53, Seq: 9})
	assert.True(s.t, s.remove(s.list()[0].ID))
	assert.Equal(s.t, []bool{false}, s.park(s.Store, 0, one), "the position is a millisecond before it")
}

func parkedAfterLostReply(s suite) {
	parkings := []parked.Parking{s.add(0, wire.ID{Ms: 1}, plain("1")), s.add(0, wire.ID{Ms: 2}, plain("2"))}
	first, err := s.Store.Park(s.ctx(), 0, parkings)
	require.NoError(s.t, err)
	again, err := s.Other.Park(s.ctx(), 0, parkings)
	require.NoError(s.t, err)
	assert.Equal(s.t, first, again)
	assert.Len(s.t, s.list(), 2)
	assert.Equal(s.t, []bool{false, false}, s.park(s.Store, 0, parkings...), "at another time it is another call")
}

func parkedConcurrently(s suite) {
	const entries = 20
	parkings := make([]parked.Parking, entries)
	for i := range parkings {
		parkings[i] = s.add(0, wire.ID{Ms: uint64(i + 1)}, plain("body"))
	}
	var group sync.WaitGroup
	var fresh [entries]atomic.Int64
	for i := range 4 {
		group.Go(func() {
			store := []parked.Store{s.Store, s.Other}[i%2]
			ids, err := store.Park(s.ctx(), 0, later(parkings))
			for entry, id := range ids {
				if !id.IsZero() {
					fresh[entry].Add(1)
				}
			}
			assert.NoError(s.t, err)
		})
	}
	group.Wait()
	for entry := range fresh {
		assert.EqualValues(s.t, 1, fresh[entry].Load(), "entry %d", entry)
	}
	assert.Len(s.t, s.list(), entries)
}
