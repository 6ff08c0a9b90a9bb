package restatetest_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

func TestDelaysAreReadInBothForms(t *testing.T) {
	t.Parallel()
	const unreadable = -1
	tests := map[string]time.Duration{
		"1500ms": 1500 * time.Millisecond, "10s": 10 * time.Second, "1h 30m": 90 * time.Minute, "1h30m": 90 * time.Minute,
		"2 min": 2 * time.Minute, "1.5s": 1500 * time.Millisecond, "1d": 24 * time.Hour, "1 hour, 5 seconds": time.Hour + 5*time.Second,
		"5us": 5 * time.Microsecond, "5ns": 5, "9999 days": 9999 * 24 * time.Hour, "0": 0, "0s": 0, "-0s": 0,
		"PT10S": 10 * time.Second, "PT0.5S": 500 * time.Millisecond, "P1D": 24 * time.Hour, "P1DT2H3M4S": 26*time.Hour + 3*time.Minute + 4*time.Second,
		"P1W": 7 * 24 * time.Hour, "pt1m": time.Minute,
		"": unreadable, "10": unreadable, "soon": unreadable, "-5s": unreadable, "-": unreadable, "P": unreadable, "PT": unreadable,
		"P1Y": unreadable, "P1M": unreadable, "PT1": unreadable, "PT1X": unreadable, "P1H": unreadable, "1 year": unreadable,
		"2 mo": unreadable, "10 parsecs": unreadable, "1000000 days": unreadable, "1..5s": unreadable, "5s and more": unreadable,
	}
	server := restatetest.New(t)
	for text, delay := range tests {
		key := url.PathEscape("k" + text)
		target := server.URL() + "/Wf/" + key + "/run/send?first=1&Delay=" + url.QueryEscape(text) + "&delay=3d"
		status, body := mustDo(t, server.Client(), http.MethodPost, target, `{}`)
		if delay == unreadable {
			assert.Equal(t, 400, status, text)
			assert.Contains(t, body, "bad delay query parameter, must be a ISO8601 duration: ", text)
			continue
		}
		require.Equal(t, 202, status, "%s: %s", text, body)
		starts := server.Starts()
		assert.Equal(t, delay, starts[len(starts)-1].Delay, text)
	}
}
