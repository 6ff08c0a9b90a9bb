package stream_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// observed is an Observer that keeps what it is told, but for the reads, which it counts.
type observed struct {
	mu     sync.Mutex
	reads  int
	events []string
}

func (o *observed) note(event string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, fmt.Sprintf(event, args...))
}

func (o *observed) Read(int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reads++
}

func (o *observed) ReadFailed(partition int) { o.note("%d: read failed", partition) }

func (o *observed) Failed(partition int, verdict stream.Verdict) {
	o.note("%d: failed, action %d", partition, verdict.Action)
}

func (o *observed) Passed(partition int, page stream.Page, left stream.Left) {
	o.note("%d: passed %d of %d, left %v", partition, len(page.Entries), page.Read, left)
}

func (o *observed) SaveFailed() { o.note("save failed") }

func (o *observed) told() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.events...)
}

func TestTheObserverIsToldOfEachTurnOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		tries := 0
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			tries++
			switch tries {
			case 1, 2:
				return stream.Verdict{Action: stream.Hold, Skipped: 2 - tries, Remaining: []wire.Entry{{}}, Err: errors.New("held")}
			case 4:
				return stream.Verdict{Action: stream.Skip, Remaining: []wire.Entry{{}}, Err: errors.New("skipped")}
			default:
				return stream.Verdict{}
			}
		}
		r.run()
		r.add(0, 1, 3)
		pass(10 * time.Second)
		r.add(0, 4, 4)
		pass(time.Second)
		r.source.Fail(0, errors.New("down"))
		pass(10 * time.Second)
		r.source.Fail(0, nil)
		pass(40 * time.Second)
		r.store.fail(errors.New("read-only"))
		r.add(0, 5, 5)
		pass(1500 * time.Millisecond)
		r.store.fail(nil)
		pass(5 * time.Second)
		_, err := r.stop()
		require.NoError(t, err)
		assert.Equal(t, []string{
			"0: failed, action 2", "0: failed, action 2", "0: passed 3 of 3, left {1 0 0}",
			"0: failed, action 1", "0: passed 1 of 1, left {0 1 0}",
			"0: read failed", "0: passed 1 of 1, left {0 0 0}", "save failed",
		}, r.observed.told())
		assert.Greater(t, r.observed.reads, 50, "idle reads count: they are the heartbeat")
	})
}
