package stream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/stream/streamtest"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestC8FilteredEntriesAdvanceThePosition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.Source = filtering{h.source}
		h.add(0, 1, 7)
		h.run()
		testkit.Pass(2 * time.Second)
		assert.Equal(t, []string{"0: m2", "0: m4 m6"}, h.deliveries(), "a page without wanted entries is not delivered")
		assert.Equal(t, "7-0", h.position(0))
		assert.Equal(t, int64(7), h.status(0).Processed)
		assert.Equal(t, int64(3), h.status(0).Delivered)
		assert.Zero(t, h.log.Count("no message of the configured"))
		h.stop()
	})
}

// With a misspelt type, no entry is wanted.
func TestATypeThatNoEntryHasIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.BatchSize = 1
		h.config.Source = filtering{h.source}
		h.source.Add(0, "odd")
		h.run()
		testkit.Pass(2 * time.Second)
		assert.Equal(t, 1, h.log.Count("no message of the configured types"))
		h.source.Add(0, "even")
		h.source.Add(0, "odd")
		testkit.Pass(2 * time.Second)
		assert.Equal(t, 1, h.log.Count("no message of the configured types"))
		h.stop()
	})
}

// filtering wants only entries with even ids.
type filtering struct{ *streamtest.Source }

func (f filtering) Read(ctx context.Context, partition int, request stream.ReadRequest) (stream.ReadResult, error) {
	result, err := f.Source.Read(ctx, partition, request)
	for i, page := range result.Pages {
		result.Pages[i].Entries = slices.DeleteFunc(page.Entries, func(entry wire.Entry) bool { return entry.ID.Ms%2 != 0 })
	}
	return result, err
}

func TestC10NoMoreThanReadAheadBatchesAreInMemory(t *testing.T) {
	t.Parallel()
	for readAhead := 1; readAhead <= 8; readAhead++ {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0)
			h.config.ReadAhead = readAhead
			source := &countingSource{Source: h.source}
			h.config.Source = source
			h.add(0, 1, 100)
			h.hold(true)
			h.run()
			testkit.Pass(time.Hour)
			h.stop()
			assert.Equal(t, readAhead*h.config.BatchSize, source.entries)
		})
	}
}

// countingSource counts the entries that were read, and records the count of each request, except while it fails. A
// read of more than limit entries times out.
type countingSource struct {
	*streamtest.Source

	limit    int
	entries  int
	requests []int
}

func (s *countingSource) Read(ctx context.Context, partition int, request stream.ReadRequest) (stream.ReadResult, error) {
	result, err := s.Source.Read(ctx, partition, request)
	if err != nil {
		return result, err
	}
	s.requests = append(s.requests, request.Count)
	if s.limit > 0 && request.Count > s.limit {
		return stream.ReadResult{}, fmt.Errorf("read: %w", os.ErrDeadlineExceeded)
	}
	s.entries += result.Read()
	return result, nil
}

// A round trip for several batches costs little more than for one.
func TestAReaderThatIsBehindRequestsSeveralBatchesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.ReadAhead, h.config.BatchSize = 4, 10
		source := &countingSource{Source: h.source}
		h.config.Source = source
		h.add(0, 1, 105)
		h.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			time.Sleep(time.Second)
			return stream.Verdict{}
		}
		h.run()
		testkit.Pass(time.Minute)
		assert.Equal(t, "105-0", h.position(0))
		assert.Len(t, h.deliveries(), 11)
		h.stop()
		assert.Equal(t, []int{10, 30, 10}, source.requests[:3], "one batch first, as it is not behind yet; then one for each free slot")
	})
}

func TestSlotsThatAReadDidNotNeedAreFreed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.ReadAhead, h.config.BatchSize = 4, 10
		source := &countingSource{Source: h.source}
		h.config.Source = source
		h.run()
		const outages = 5
		for burst := range outages {
			h.source.Fail(0, errors.New("down"))
			h.add(0, 15*burst+1, 15*burst+15)
			testkit.Pass(time.Minute)
			h.source.Fail(0, nil)
			testkit.Pass(time.Minute)
		}
		assert.Equal(t, "75-0", h.position(0))
		h.stop()
		several := slices.DeleteFunc(source.requests, func(count int) bool { return count == 10 })
		assert.Len(t, several, outages, "one after each")
	})
}

// The reply is in memory in addition to the batches that wait.
func TestAReadOfSeveralBatchesIsBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ batch, size, second int }{
		"large entries":  {batch: 10, size: 30_000, second: 10},
		"medium entries": {batch: 10, size: 10_000, second: 20},
		"many entries":   {batch: 400, second: 800},
		"a large batch":  {batch: 1500, second: 1500},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, 0)
			h.config.ReadAhead, h.config.BatchSize = 4, test.batch
			source := &countingSource{Source: h.source}
			h.config.Source = source
			body := strings.Repeat("x", test.size)
			for range 4 * test.batch {
				h.source.Add(0, body)
			}
			h.run()
			testkit.Pass(time.Minute)
			h.stop()
			assert.Equal(t, []int{test.batch, test.second}, source.requests[:2], name)
			assert.Equal(t, 4*test.batch, source.entries, name)
		})
	}
}

// A reply that is too large to arrive within the read timeout would never arrive.
func TestAReadThatTimesOutIsRepeatedForFewerEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, 0)
		h.config.BatchSize = 100
		source := &countingSource{Source: h.source, limit: 12}
		h.config.Source = source
		h.add(0, 1, 40)
		h.run()
		testkit.Pass(2 * time.Minute)
		assert.Equal(t, "40-0", h.position(0))
		h.stop()
		assert.Equal(t, []int{100, 50, 25, 12, 24, 12}, source.requests[:6])
	})
}
