package stream_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/stream"
	"github.com/redisevents/restatestart/internal/wire"
)

// A failover may keep an entry and lose the position that was written behind it. Nobody publishes any more, and the
// position is written all the same.
func TestAPositionThatTheServerForgotIsWrittenAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 3)
		r.run()
		pass(40 * time.Second)
		require.Equal(t, "3-0", r.position(0))
		r.store.Forget(0)
		require.Equal(t, "0-0", r.position(0))
		pass(1500 * time.Millisecond)
		assert.Equal(t, "3-0", r.position(0))
		assert.Len(t, r.deliveries(), 1)
		_, err := r.stop()
		require.NoError(t, err)
	})
}

// What a reset moved back stays there.
func TestAResetIsNotUndoneByWhatIsWrittenAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.add(0, 1, 3)
		hold := false
		r.deliver = func(context.Context, int, []wire.Entry) stream.Verdict {
			if hold {
				return stream.Verdict{Action: stream.Hold, Remaining: []wire.Entry{{}}, Err: errors.New("held")}
			}
			return stream.Verdict{}
		}
		r.run()
		pass(5 * time.Second)
		hold = true
		r.store.RequestReset(0, "1-0|")
		pass(5 * time.Minute)
		assert.Equal(t, "1-0", r.position(0))
		_, err := r.stop()
		require.NoError(t, err)
	})
}
