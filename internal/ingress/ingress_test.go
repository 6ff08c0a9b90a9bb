package ingress_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/ingress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, config ingress.Config) *ingress.Client {
	t.Helper()
	client, err := ingress.New(config)
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestAWrongURLIsRefusedWithoutRepeatingItsCredentials(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "localhost:8080", "http://", "http://h:99999", "http://h:0", "http://h/%zz", "http://h?x=1", "http://h?", "http://h#f", "http://h#",
		"ftp://h", " http://h", "/only/a/path", "//h", "unix:///var/run/x", "http://:8080", "http://s3cret:s3cret@h?x=1",
		"http://svc:s3cr/et@host", "http://svc:123s3cr#x@host", "http://svc:s3cr?et@host", "http://svc:99999999/s3cr@host", "http://s3cret:s3cr%zz@h",
		"s3cret:s3cret@h", "http://s3cret:s3cr et@h", "ftp://s3cret:s3cret@h",
	} {
		_, err := ingress.New(ingress.Config{Timeout: time.Minute, URL: text})
		require.Error(t, err, text)
		assert.NotContains(t, err.Error(), "s3cr", text)
	}
	_, err := ingress.New(ingress.Config{Timeout: time.Minute, URL: "http://u:p@h", Header: http.Header{"Authorization": {"Bearer x"}}})
	require.ErrorContains(t, err, "userinfo")
}

// Decoded as Restate decodes them.
func TestS13EverySegmentArrivesAsGiven(t *testing.T) {
	t.Parallel()
	var target atomic.Value
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { target.Store(r.RequestURI) })
	keys := []string{
		"a/b", "a b", "a+b", "100%", "%2F", "x?y", "x#y", "a;b", "a:b", "ü", "\u65e5\u672c\u8a9e", "😀", ".", "..", "...", "a\x00b", "a\nb", "a\r\nb",
		"a|b^c`d", `a"b\c`, "&=@$,", "~", "%", "%zz", strings.Repeat("k", 512), " ", "/", "//",
	}
	for _, shape := range []struct {
		config        ingress.Config
		before, after string
	}{
		{ingress.Config{Timeout: time.Minute, URL: server.URL}, "/", "/send"},
		{ingress.Config{Timeout: time.Minute, URL: server.URL + "/prefix/"}, "/prefix/", "/send"},
		{ingress.Config{Timeout: time.Minute, URL: server.URL + "/a%2Fb/c", RestatePath: true}, "/a%2Fb/c/restate/send/", ""},
		{ingress.Config{Timeout: time.Minute, URL: server.URL + "/", RestatePath: true}, "/restate/send/", ""},
		{ingress.Config{Timeout: time.Minute, URL: server.URL + "/a%2F"}, "/a%2F/", "/send"},
		{ingress.Config{Timeout: time.Minute, URL: server.URL + "/a%2F/"}, "/a%2F/", "/send"},
	} {
		client := open(t, shape.config)
		for _, key := range keys {
			_, err := client.Post(t.Context(), &ingress.Send{Workflow: "Bonus Payout", Key: key, Handler: "run/it"})
			require.NoError(t, err)
			got, ok := target.Load().(string)
			require.True(t, ok)
			path, found := strings.CutPrefix(got, shape.before)
			require.True(t, found, got)
			path, found = strings.CutSuffix(path, shape.after)
			require.True(t, found, got)
			segments := strings.Split(path, "/")
			require.Len(t, segments, 3, got)
			for i, want := range []string{"Bonus Payout", key, "run/it"} {
				decoded, err := url.PathUnescape(segments[i])
				require.NoError(t, err)
				assert.Equal(t, want, decoded)
			}
			assert.NotContains(t, got, "?")
			assert.NotContains(t, segments, ".", "nothing on the way may resolve it")
			assert.NotContains(t, segments, "..")
		}
	}
}

func TestS13CheckNamesWhatCannotBeSent(t *testing.T) {
	t.Parallel()
	good := ingress.Send{Workflow: "W", Key: "k", Handler: "run"}
	require.NoError(t, good.Check())
	for want, change := range map[string]func(*ingress.Send){
		"empty workflow":               func(s *ingress.Send) { s.Workflow = "" },
		"empty key":                    func(s *ingress.Send) { s.Key = "" },
		"empty handler":                func(s *ingress.Send) { s.Handler = "" },
		"key is not valid UTF-8":       func(s *ingress.Send) { s.Key = "\xff" },
		`"restate" is reserved`:        func(s *ingress.Send) { s.Workflow = "restate" },
		`"openapi" is reserved`:        func(s *ingress.Send) { s.Workflow = "openapi" },
		"negative delay":               func(s *ingress.Send) { s.Delay = -1 },
		"Idempotency-Key is refused":   func(s *ingress.Send) { s.Header = http.Header{"idempotency-key": {"x"}} },
		"outside visible ASCII":        func(s *ingress.Send) { s.Header = http.Header{"X-A": {"caf\u00e9"}} },
		`header name "a b"`:            func(s *ingress.Send) { s.Header = http.Header{"a b": {"x"}} },
		"Content-Length is set by the": func(s *ingress.Send) { s.Header = http.Header{"Content-Length": {"1"}} },
	} {
		send := good
		change(&send)
		require.ErrorContains(t, send.Check(), want)
	}
}

func TestS3ABodyComesWithItsContentTypeAndNoBodyWithNone(t *testing.T) {
	t.Parallel()
	type seen struct {
		body   string
		header http.Header
		length int64
	}
	requests := make(chan seen, 1)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- seen{string(body), r.Header, r.ContentLength}
	})
	client := open(t, ingress.Config{Timeout: time.Minute, URL: server.URL, Header: http.Header{"Authorization": {"Bearer t"}, "X-Both": {"static"}}})
	post := func(send ingress.Send) seen {
		send.Workflow, send.Key, send.Handler = "W", "k", "run"
		_, err := client.Post(t.Context(), &send)
		require.NoError(t, err)
		return <-requests
	}

	got := post(ingress.Send{Body: []byte(`{"a":1}`), Header: http.Header{"x-both": {"own"}}})
	assert.Equal(t, `{"a":1}`, got.body)
	assert.Equal(t, int64(7), got.length)
	assert.Equal(t, []string{"application/json"}, got.header["Content-Type"])
	assert.Equal(t, []string{"Bearer t"}, got.header["Authorization"])
	assert.Equal(t, []string{"own"}, got.header["X-Both"])
	assert.NotContains(t, got.header, "X-Idempotency-Key")
	assert.NotContains(t, got.header, "Idempotency-Key")

	got = post(ingress.Send{Header: http.Header{"Content-Type": {"text/plain"}}})
	assert.Empty(t, got.body)
	assert.Zero(t, got.length)
	assert.NotContains(t, got.header, "Content-Type")

	got = post(ingress.Send{Body: []byte("x"), Header: http.Header{"Content-Type": {"application/octet-stream"}}})
	assert.Equal(t, []string{"application/octet-stream"}, got.header["Content-Type"])
}

func TestUserinfoBecomesBasicAuth(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "u" || password != "p:w" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	client := open(t, ingress.Config{Timeout: time.Minute, URL: strings.Replace(server.URL, "//", "//u:p%3Aw@", 1)})
	answer, err := client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run"})
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, answer.Status)
}

func TestDelayIsSentInAUnitThatLosesNothing(t *testing.T) {
	t.Parallel()
	queries := make(chan string, 1)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { queries <- r.URL.RawQuery })
	client := open(t, ingress.Config{Timeout: time.Minute, URL: server.URL})
	for delay, want := range map[time.Duration]string{0: "", time.Hour: "delay=3600000ms", 1500 * time.Millisecond: "delay=1500ms", 5: "delay=5ns"} {
		_, err := client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run", Delay: delay})
		require.NoError(t, err)
		assert.Equal(t, want, <-queries)
	}
}

func TestAnswersAreRead(t *testing.T) {
	t.Parallel()
	const date = "Mon, 30 Nov 2026 12:00:00 GMT"
	long := strings.Repeat("é", 200)
	for name, row := range map[string]struct {
		status int
		header map[string]string
		body   string
		want   ingress.Answer
	}{
		"accepted":              {status: 202, body: `{"invocationId":"inv_1","status":"Accepted"}`, want: ingress.Answer{Status: 202, InvocationID: "inv_1"}},
		"known":                 {status: 202, body: `{"invocationId":"inv_1","status":"PreviouslyAccepted","x":[1]}`, want: ingress.Answer{Status: 202, InvocationID: "inv_1", Previously: true}},
		"known with 200":        {status: 200, body: `{"status":"PreviouslyAccepted"}`, want: ingress.Answer{Status: 200, Previously: true}},
		"no content":            {status: 204, want: ingress.Answer{Status: 204}},
		"accepted, not JSON":    {status: 202, body: `<html>`, want: ingress.Answer{Status: 202}},
		"ingress error":         {status: 404, body: `{"code":404,"message":"service 'W' not\n found","source":"ingress"}`, want: ingress.Answer{Status: 404, Text: "service 'W' not found"}},
		"plain text":            {status: 413, body: "length limit exceeded", want: ingress.Answer{Status: 413, Text: "length limit exceeded"}},
		"a page":                {status: 502, body: "<html>\r\n\t<b>Bad \x1bGateway\xff</b>", want: ingress.Answer{Status: 502, Text: "<html> <b>Bad Gateway\uFFFD</b>"}},
		"long text":             {status: 500, body: long, want: ingress.Answer{Status: 500, Text: strings.Repeat("é", 126) + "…"}},
		"retry after":           {status: 429, header: map[string]string{"Retry-After": " 7 "}, want: ingress.Answer{Status: 429, RetryAfter: 7 * time.Second}},
		"retry after a date":    {status: 503, header: map[string]string{"Retry-After": "Mon, 30 Nov 2026 12:00:09 GMT", "Date": date}, want: ingress.Answer{Status: 503, RetryAfter: 9 * time.Second}},
		"retry in the past":     {status: 503, header: map[string]string{"Retry-After": "Mon, 30 Nov 2026 11:00:00 GMT", "Date": date}, want: ingress.Answer{Status: 503}},
		"retry without end":     {status: 503, header: map[string]string{"Retry-After": "99999999999999999999"}, want: ingress.Answer{Status: 503, RetryAfter: 1<<63 - 1}},
		"retry overflowing":     {status: 503, header: map[string]string{"Retry-After": "9223372036854775807"}, want: ingress.Answer{Status: 503, RetryAfter: 1<<63 - 1}},
		"retry negative":        {status: 503, header: map[string]string{"Retry-After": "-5"}, want: ingress.Answer{Status: 503}},
		"retry unreadable":      {status: 503, header: map[string]string{"Retry-After": "soon"}, want: ingress.Answer{Status: 503}},
		"repeats the secret":    {status: 400, body: "you sent Bearer s3cret-token and s3cret-token", want: ingress.Answer{Status: 400, Text: "you sent [redacted] and [redacted]"}},
		"repeats the body":      {status: 400, body: `{"message":"cannot read {\"amount\": 1250, \"iban\": \"DE00"}`, want: ingress.Answer{Status: 400, Text: "cannot read [redacted]"}},
		"repeats it escaped":    {status: 400, body: `{"message":"bad body \"{\\\"amount\\\": 1250, \\\"iban\\\""}`, want: ingress.Answer{Status: 400, Text: `bad body "[redacted]`}},
		"repeats a value":       {status: 400, body: `invalid type: string "DE001234", expected u64 for amount`, want: ingress.Answer{Status: 400, Text: `invalid type: string "[redacted]", expected u64 for amount`}},
		"redirect is an answer": {status: 302, header: map[string]string{"Location": "/elsewhere"}, want: ingress.Answer{Status: 302}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/elsewhere" {
					t.Error("a redirect was followed")
				}
				for name, value := range row.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, row.body)
			})
			client := open(t, ingress.Config{Timeout: time.Minute, URL: server.URL, Header: http.Header{"Authorization": {"Bearer s3cret-token"}}})
			answer, err := client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run", Body: []byte(`{"amount": 1250, "iban": "DE001234"}`)})
			require.NoError(t, err)
			assert.Equal(t, row.want, answer)
		})
	}
}

func TestAnEndlessAnswerIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		for chunk := make([]byte, 4096); ; {
			n, err := w.Write(chunk)
			if err != nil {
				return
			}
			sent.Add(int64(n))
		}
	})
	client := open(t, ingress.Config{Timeout: time.Minute, URL: server.URL})
	answer, err := client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run"})
	require.NoError(t, err)
	assert.True(t, answer.Accepted())
	server.CloseClientConnections()
	assert.Less(t, sent.Load(), int64(32<<20), "only what the sockets' buffers took")
}

func TestAnAnswerThatHangsAfterItsStatusEndsWithTheContext(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(http.StatusAccepted)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	client := open(t, ingress.Config{Timeout: time.Minute, URL: server.URL})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	answer, err := client.Post(ctx, &ingress.Send{Workflow: "W", Key: "k", Handler: "run"})
	require.NoError(t, err)
	assert.True(t, answer.Accepted())
}

func TestErrorsNameNeitherURLNorCredentials(t *testing.T) {
	t.Parallel()
	client := open(t, ingress.Config{Timeout: time.Minute, URL: "http://s3cret:s3cret@127.0.0.1:1"})
	_, err := client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "the-key", Handler: "run"})
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "s3cret")
	assert.NotContains(t, err.Error(), "the-key")
	var dial *net.OpError
	require.ErrorAs(t, err, &dial)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = client.Post(ctx, &ingress.Send{Workflow: "W", Key: "k", Handler: "run"})
	require.ErrorIs(t, err, context.Canceled)
}

// Its body has parts of the replacement.
func TestWhatReplacesASecretIsNotReplacedItself(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "service 'Payout' not found")
	})
	client := open(t, ingress.Config{Timeout: time.Minute, URL: server.URL})
	body := `["service"` + strings.Repeat(`,"[reda","cted]"`, 200) + `]`
	answer, err := client.Post(t.Context(), &ingress.Send{Workflow: "W", Key: "k", Handler: "run", Body: []byte(body)})
	require.NoError(t, err)
	assert.Equal(t, "[redacted] 'Payout' not found", answer.Text)
}
