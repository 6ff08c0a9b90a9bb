package restatetest_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

func TestAKeyRunsAgainAfterItsRetention(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options   []restatetest.Option
		retention time.Duration
	}{
		"default": {nil, restatetest.DefaultRetention},
		"week":    {[]restatetest.Option{restatetest.WithRetention(7 * 24 * time.Hour)}, 7 * 24 * time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := restatetest.New(t, test.options...)
				_, first := mustPost(t, server, "c-1")
				time.Sleep(test.retention - 1)
				_, body := mustPost(t, server, "c-1")
				assert.Contains(t, body, "PreviouslyAccepted")
				assert.Len(t, server.Starts(), 1)

				time.Sleep(time.Nanosecond) // counted from completion, not from the repeat
				_, body = mustPost(t, server, "c-1")
				assert.Equal(t, first, body, "Accepted, with the same id")
				starts := server.Starts()
				require.Len(t, starts, 2)
				assert.Equal(t, test.retention, starts[1].At.Sub(starts[0].At))
				assert.Equal(t, 1, server.Duplicates())
				assert.Equal(t, []string{"c-1"}, server.StartedKeys("BonusPayout"))
				server.ExpectStarted(t, "BonusPayout", "c-1")
				server.ExpectOrder(t, "BonusPayout", "c-1", "c-1")
			})
		})
	}
}

func TestRetentionCountsFromTheEndOfTheDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := restatetest.New(t, restatetest.WithRetention(time.Minute))
		url := server.URL() + "/BonusPayout/c-1/run/send"
		mustDo(t, server.Client(), http.MethodPost, url+"?delay=1h", `{"n":1}`)
		time.Sleep(time.Hour + time.Minute - time.Millisecond)
		_, body := mustDo(t, server.Client(), http.MethodPost, url, `{"n":2}`)
		assert.Contains(t, body, "PreviouslyAccepted")
		time.Sleep(time.Millisecond)
		_, body = mustDo(t, server.Client(), http.MethodPost, url, `{"n":3}`)
		assert.Contains(t, body, `"Accepted"`)
		server.ExpectBody(t, "BonusPayout", "c-1", `{"n":3}`)
	})
}

func TestZeroRetentionForgetsAtOnceAndNegativeNever(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		none := restatetest.New(t, restatetest.WithRetention(0))
		forever := restatetest.New(t, restatetest.WithRetention(-1))
		for range 3 {
			_, body := mustPost(t, none, "c-1")
			assert.Contains(t, body, `"Accepted"`)
			mustPost(t, forever, "c-1")
			time.Sleep(1000 * 24 * time.Hour)
		}
		assert.Len(t, none.Starts(), 3)
		assert.Len(t, forever.Starts(), 1)

		scheduled := none.URL() + "/BonusPayout/later/run/send?delay=1h"
		for _, status := range []string{`"Accepted"`, `"PreviouslyAccepted"`} {
			_, body := mustDo(t, none.Client(), http.MethodPost, scheduled, `{}`)
			assert.Contains(t, body, status, "it has not completed")
		}
	})
}

func TestAPurgedKeyRunsAgain(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t)
	_, first := mustPost(t, server, "c-1")
	mustPost(t, server, "c-2")
	server.Purge("BonusPayout", "c-1")
	server.Purge("BonusPayout", "never started")
	server.Purge("Other", "c-2")

	_, again := mustPost(t, server, "c-1")
	assert.Equal(t, first, again)
	_, other := mustPost(t, server, "c-2")
	assert.Contains(t, other, "PreviouslyAccepted")
	server.ExpectOrder(t, "BonusPayout", "c-1", "c-2", "c-1")
}
