package ingress_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/ingress"
	"github.com/redisevents/restatestart/internal/testkit"
)

func TestConfigHTTPIsNotModified(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	own := &http.Client{Transport: server.Client().Transport, Timeout: time.Minute}
	client := open(t, ingress.Config{Timeout: time.Minute, URL: server.URL, HTTP: own})
	answer, err := client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run"})
	require.NoError(t, err)
	assert.Equal(t, http.StatusTemporaryRedirect, answer.Status)
	assert.Nil(t, own.CheckRedirect)
}

// net/http never sends a header without values; other transports may.
func TestAnotherTransportGetsNoEmptyHeader(t *testing.T) {
	t.Parallel()
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	own := testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
		for name, values := range r.Header {
			assert.NotEmpty(t, values, name)
		}
		return server.Client().Transport.RoundTrip(r)
	})
	client := open(t, ingress.Config{Timeout: time.Minute, URL: server.URL, HTTP: &http.Client{Transport: own}})
	_, err := client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run", Body: []byte("{}")})
	require.NoError(t, err)
}

func TestATransportThatModifiesAHeaderModifiesItForOneSend(t *testing.T) {
	t.Parallel()
	var seen []string
	client, err := ingress.New(ingress.Config{Timeout: time.Minute, URL: "http://restate", HTTP: &http.Client{Transport: testkit.RoundTripper(func(r *http.Request) (*http.Response, error) {
		seen = append(seen, r.Header.Get("X-Seen"))
		r.Header.Set("X-Seen", r.URL.Path)
		return &http.Response{StatusCode: http.StatusAccepted, Body: http.NoBody}, nil
	})}})
	require.NoError(t, err)
	for range 2 {
		_, err = client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run"})
		require.NoError(t, err)
	}
	assert.Equal(t, []string{"", ""}, seen)
}

func TestEachSendHasTheJarsCookiesOnce(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") == "route=node1" {
			sent.Add(1)
		}
	})
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	target, err := url.Parse(server.URL)
	require.NoError(t, err)
	jar.SetCookies(target, []*http.Cookie{{Name: "route", Value: "node1"}})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := open(t, ingress.Config{Timeout: time.Minute, URL: server.URL, HTTP: &http.Client{Transport: transport, Jar: jar}})
	var sends sync.WaitGroup
	for range 8 {
		sends.Go(func() {
			for range 20 {
				_, err := client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run"})
				assert.NoError(t, err)
			}
		})
	}
	sends.Wait()
	assert.Equal(t, int64(160), sent.Load())
}

// A transport may make requests itself, such as for a token.
func TestAnErrorOfATransportsOwnRequestIsKept(t *testing.T) {
	t.Parallel()
	client := open(t, ingress.Config{Timeout: time.Minute, URL: "http://restate", HTTP: &http.Client{Transport: testkit.RoundTripper(func(*http.Request) (*http.Response, error) {
		return nil, fmt.Errorf("fetch token: %w", &url.Error{Op: "Post", URL: "https://auth/token", Err: io.ErrUnexpectedEOF})
	})}})
	_, err := client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run"})
	require.EqualError(t, err, `fetch token: Post "https://auth/token": unexpected EOF`)
}

func TestATransportMayReturnNoResponseOrNoBody(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		response *http.Response
		text     string
	}{
		"no response": {nil, "neither a response nor an error"},
		"no body":     {&http.Response{StatusCode: http.StatusAccepted}, ""},
	} {
		client, err := ingress.New(ingress.Config{Timeout: time.Minute, URL: "http://restate", HTTP: &http.Client{Transport: testkit.RoundTripper(func(*http.Request) (*http.Response, error) {
			return row.response, nil
		})}})
		require.NoError(t, err)
		_, err = client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run"})
		if row.text == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, row.text, name)
		}
	}
}

func TestAnHTTPAnswerToAnHTTPSClientIsASchemeMismatch(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	client, err := ingress.New(ingress.Config{URL: strings.Replace(server.URL, "http:", "https:", 1), Timeout: time.Second})
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	_, err = client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run"})
	require.ErrorIs(t, err, http.ErrSchemeMismatch)
}
