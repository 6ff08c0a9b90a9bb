package restatetest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

func TestASlowBodyArrivesByteByByte(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, server *restatetest.Server, client *http.Client) {
		server.Script("c-1", restatetest.SlowBody(time.Second), restatetest.SlowBody(time.Second), restatetest.SlowBody(0))
		began := time.Now()
		status, body := mustPostWith(t, server, client, "c-1")
		assert.Equal(t, 202, status)
		assert.Contains(t, body, `"Accepted"`)
		assert.Equal(t, time.Duration(len(body))*time.Second, time.Since(began))

		client.Timeout = 10 * time.Second
		began = time.Now()
		status, body, err := postWith(t, server, client, "c-1")
		require.True(t, isTimeout(err), "%v", err)
		assert.Equal(t, 202, status, "it was there at once")
		assert.InDelta(t, 9.5, len(body), 0.5, "a byte a second: %q", body)
		assert.Equal(t, 10*time.Second, time.Since(began))

		status, body = mustPostWith(t, server, client, "c-1")
		assert.Equal(t, 202, status)
		assert.Contains(t, body, `"PreviouslyAccepted"`)
		assert.Len(t, server.Starts(), 1)
	})
}

func TestATruncatedBodyEndsInTheMiddle(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, server *restatetest.Server, client *http.Client) {
		server.Script("c-1", restatetest.TruncatedBody())
		status, body, err := postWith(t, server, client, "c-1")
		if client.Transport == server.Client().Transport {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		} else {
			require.ErrorContains(t, err, "INTERNAL_ERROR")
		}
		assert.Equal(t, 202, status)
		assert.Regexp(t, `^{"invocationId":"inv_1\w+$`, body)
		server.ExpectStarted(t, "BonusPayout", "c-1")

		_, body = mustPostWith(t, server, client, "c-1")
		assert.Contains(t, body, "PreviouslyAccepted")
		assert.Equal(t, []int{202, 202}, statuses(server))
	})
}

func TestAnEndlessBodyEndsWhenTheReaderStops(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, server *restatetest.Server, client *http.Client) {
		server.Script("c-1", restatetest.EndlessBody())
		response, err := client.Post(server.URL()+"/BonusPayout/c-1/run/send", "application/json", strings.NewReader(`{}`))
		require.NoError(t, err)
		assert.Equal(t, 202, response.StatusCode)
		assert.Equal(t, "application/json", response.Header.Get("Content-Type"))
		assert.NotEmpty(t, response.Header.Get("X-Restate-Id"))
		read, err := io.CopyN(io.Discard, response.Body, 1<<20)
		require.NoError(t, err)
		assert.Equal(t, int64(1<<20), read)
		require.NoError(t, response.Body.Close())
		server.ExpectStarted(t, "BonusPayout", "c-1")
	})
}

func TestBrokenAnswersOfARefusedRequestCarryTheRefusal(t *testing.T) {
	t.Parallel()
	server := restatetest.New(t, restatetest.WithWorkflow("Other"))
	server.Script("c-1", restatetest.SlowBody(0), restatetest.TruncatedBody().WithHeader("X-A", "1"))
	status, body := mustPost(t, server, "c-1")
	assert.Equal(t, 404, status)
	assert.Contains(t, body, "service 'BonusPayout' not found")
	status, _, err := post(t, server, "c-1")
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, 404, status)
	assert.Empty(t, server.Starts())
}
