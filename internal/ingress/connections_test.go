package ingress_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
	"github.com/redisevents/restatestart/internal/testkit"
	"github.com/redisevents/restatestart/restatetest"
)

// accepting is an ingress that accepts everything, on a real socket.
func accepting(t *testing.T, start func(*httptest.Server), handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if handle != nil {
			handle(w, r)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(server)
	t.Cleanup(server.Close)
	return server
}

// Batches arrive at the pace at which the server closes idle connections.
func TestAKeptAliveConnectionThatTheServerClosedCostsNoAttempt(t *testing.T) {
	t.Parallel()
	const pace = 10 * time.Millisecond
	var seen sync.Map
	server := accepting(t, func(s *httptest.Server) { s.Config.IdleTimeout = pace; s.Start() },
		func(_ http.ResponseWriter, r *http.Request) { seen.Store(r.URL.Path, true) })
	starter, err := restatestart.New(nil, testkit.Payout, restatestart.Options{Ingress: server.URL, MaxAttempts: 1})
	require.NoError(t, err)
	t.Cleanup(starter.CloseIdleConnections)
	for i := range 60 {
		require.NoError(t, starter.Handle(t.Context(), testkit.Batch(fmt.Sprint("k", i))), "with one attempt a start")
		time.Sleep(pace) // the real clock of a real socket is what is under test
	}
	count := 0
	seen.Range(func(any, any) bool { count++; return true })
	assert.Equal(t, 60, count)
}

// As many connections as starts in flight, not one for each start.
func TestTheDefaultClientReusesItsConnections(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	server := accepting(t, func(s *httptest.Server) {
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				opened.Add(1)
			}
		}
		s.Start()
	}, nil)
	starter, err := restatestart.New(nil, testkit.Payout, restatestart.Options{Ingress: server.URL, MaxParallelism: 16})
	require.NoError(t, err)
	t.Cleanup(starter.CloseIdleConnections)
	for range 20 {
		require.NoError(t, starter.Handle(t.Context(), testkit.Batch(testkit.Keys(100)...)))
	}
	assert.LessOrEqual(t, opened.Load(), int64(2*16), "2000 starts")
}

// Over TLS, with a proxy that asks for a new connection every few requests.
func TestAnHTTP2GoawayLosesNoStart(t *testing.T) {
	t.Parallel()
	var requests, h2 atomic.Int64
	server := accepting(t, func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
		func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor == 2 {
				h2.Add(1)
			}
			if requests.Add(1)%5 == 0 {
				w.Header().Set("Connection", "close") // net/http's way to say GOAWAY
			}
		})
	starter, err := restatestart.New(nil, testkit.Payout, restatestart.Options{Ingress: server.URL, HTTPClient: server.Client(), RetryMin: time.Millisecond})
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, starter.Handle(t.Context(), testkit.Batch(testkit.Keys(100)...)))
	}
	assert.GreaterOrEqual(t, h2.Load(), int64(200))
	assert.Equal(t, requests.Load(), h2.Load())
}

// A server at its limit of streams refuses one more with REFUSED_STREAM, which says that it did nothing with it.
func TestAnHTTP2StreamThatIsRefusedIsSentAgain(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var refused, answered atomic.Int64
	var serving sync.WaitGroup
	ended, end := context.WithCancel(t.Context())
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ended, func() { _ = conn.Close() })
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				refuseFirst(conn, 3, &refused, &answered)
			})
		}
	})
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	starter, err := restatestart.New(nil, testkit.Payout, restatestart.Options{
		Ingress: "http://" + listener.Addr().String(), HTTPClient: &http.Client{Transport: transport}, MaxParallelism: 2,
	})
	require.NoError(t, err)
	require.NoError(t, starter.Handle(t.Context(), testkit.Batch(testkit.Keys(10)...)))
	assert.Equal(t, int64(3), refused.Load())
	assert.Equal(t, int64(10), answered.Load())
	end()
	_ = listener.Close()
	serving.Wait()
	transport.CloseIdleConnections()
}

// refuseFirst is the least of an HTTP/2 server: it refuses the first n streams and answers 200 to the others.
func refuseFirst(conn net.Conn, n int64, refused, answered *atomic.Int64) {
	const headers, rstStream, settings, ping, refusedStream, endStream, endHeaders, ack = 1, 3, 4, 6, 7, 1, 4, 1
	send := func(kind, flags byte, stream uint32, payload ...byte) {
		frame := append([]byte{0, 0, byte(len(payload)), kind, flags}, binary.BigEndian.AppendUint32(nil, stream)...)
		_, _ = conn.Write(append(frame, payload...))
	}
	if _, err := io.ReadFull(conn, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	send(settings, 0, 0)
	for header := make([]byte, 9); ; {
		if _, err := io.ReadFull(conn, header); err != nil {
			return
		}
		payload := make([]byte, int(header[0])<<16|int(header[1])<<8|int(header[2]))
		if _, err := io.ReadFull(conn, payload); err != nil {
			return
		}
		stream := binary.BigEndian.Uint32(header[5:])
		switch kind, flags := header[3], header[4]; {
		case kind == settings && flags&ack == 0:
			send(settings, ack, 0)
		case kind == ping && flags&ack == 0:
			send(ping, ack, 0, payload...)
		case kind == headers && refused.Load() < n:
			refused.Add(1)
			send(rstStream, 0, stream, 0, 0, 0, refusedStream)
		case kind == headers:
			answered.Add(1)
			send(headers, endStream|endHeaders, stream, 0x88) // :status: 200, from HPACK's static table
		}
	}
}

func TestS13AProxyGetsTheKeyAsItIsAndItsPageIsTheError(t *testing.T) {
	t.Parallel()
	var targets sync.Map
	status := atomic.Int64{}
	status.Store(http.StatusAccepted)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		targets.Store(r.RequestURI, true)
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, "<html>\n<head><title>a page of the proxy</title></head>\n</html>")
	}))
	t.Cleanup(proxy.Close)
	proxyURL, err := url.Parse(strings.Replace(proxy.URL, "//", "//user:t0psecret@", 1))
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxyURL)}}
	t.Cleanup(client.CloseIdleConnections)
	starter, err := restatestart.New(nil, testkit.Payout, restatestart.Options{Ingress: "http://restate.invalid:8080", HTTPClient: client, MaxAttempts: 1})
	require.NoError(t, err)
	require.NoError(t, starter.Handle(t.Context(), testkit.Batch("a/b")))
	_, found := targets.Load("http://restate.invalid:8080/Payout/a%2Fb/run/send")
	assert.True(t, found, "the key, as it is")

	for code, reason := range map[int]restatestart.Reason{
		http.StatusProxyAuthRequired: restatestart.ReasonUnauthorized, http.StatusBadGateway: restatestart.ReasonServer,
		http.StatusGatewayTimeout: restatestart.ReasonServer,
	} {
		status.Store(int64(code))
		failed := testkit.OnlyFailure(t, starter.Handle(t.Context(), testkit.Batch("k")))
		assert.Equal(t, reason, failed.Reason)
		require.ErrorContains(t, failed.Err, "<html> <head><title>a page of the proxy")
		assert.NotContains(t, failed.String(), "t0psecret")
	}
}

func TestS7InterimAnswersAreSkippedAndABrokenOneIsNone(t *testing.T) {
	t.Parallel()
	for answer, row := range map[string]struct {
		reason restatestart.Reason // 0: accepted
		closes bool
	}{
		"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n": {},
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n":                                                 {reason: restatestart.ReasonRejected}, // final, and no acceptance
		"HTTP/1.1 199 \r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n":                                                      {reason: restatestart.ReasonNotFound},
		"not HTTP at all\r\n\r\n": {reason: restatestart.ReasonUnreachable},
		"HTTP/1.1 202 Acc":        {reason: restatestart.ReasonUnreachable, closes: true},
	} {
		starter, err := restatestart.New(nil, testkit.Payout, restatestart.Options{
			Ingress: "http://restate", HTTPClient: answering(t, answer, row.closes), MaxAttempts: 2, RetryMin: time.Millisecond, AttemptTimeout: 5 * time.Second,
		})
		require.NoError(t, err)
		err = starter.Handle(t.Context(), testkit.Batch("k"))
		if row.reason == 0 {
			require.NoError(t, err)
			continue
		}
		failed := testkit.OnlyFailure(t, err)
		assert.Equal(t, row.reason, failed.Reason, answer)
		assert.Equal(t, map[bool]int{true: 2, false: 1}[row.reason == restatestart.ReasonUnreachable], failed.Attempts, answer)
	}
}

// answering is a client on connections that send the given bytes for the first request, and then close if they should.
func answering(t *testing.T, answer string, closes bool) *http.Client {
	t.Helper()
	dial := func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			_, _ = far.Read(make([]byte, 1<<12))
			_, _ = io.WriteString(far, answer)
			if !closes {
				_, _ = io.Copy(io.Discard, far)
			}
			_ = far.Close()
		}()
		return near, nil
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dial}}
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// Each fault of the fake, over HTTP/1.1 and h2c, once and always.
func TestS7EveryTransportFaultHasOneOutcome(t *testing.T) {
	t.Parallel()
	type outcome struct {
		once, always restatestart.Reason // 0: accepted
		duplicates   int                 // after one
	}
	const accepted = restatestart.ReasonUnknown
	for name, row := range map[string]struct {
		step restatetest.Step
		outcome
	}{
		"no answer":                     {restatetest.Hang(), outcome{accepted, restatestart.ReasonTimeout, 0}},
		"no answer, accepted":           {restatetest.HangAfterAccept(), outcome{accepted, restatestart.ReasonTimeout, 1}},
		"closed":                        {restatetest.Drop(), outcome{accepted, restatestart.ReasonUnreachable, 0}},
		"closed, accepted":              {restatetest.DropAfterAccept(), outcome{accepted, restatestart.ReasonUnreachable, 1}},
		"closed in the headers":         {restatetest.DropAfterStatus(), outcome{accepted, restatestart.ReasonUnreachable, 1}},
		"slow answer":                   {restatetest.SlowBody(time.Second), outcome{accepted, accepted, 0}},
		"truncated answer":              {restatetest.TruncatedBody(), outcome{accepted, accepted, 0}},
		"endless answer":                {restatetest.EndlessBody(), outcome{accepted, accepted, 0}},
		"late answer":                   {restatetest.Delay(time.Second), outcome{accepted, accepted, 0}},
		"redirect":                      {restatetest.Redirect(http.StatusTemporaryRedirect, "/Payout/elsewhere/run/send"), outcome{restatestart.ReasonRejected, restatestart.ReasonRejected, 0}},
		"a proxy without a backend":     {restatetest.ProxyError(http.StatusBadGateway), outcome{accepted, restatestart.ReasonServer, 0}},
		"a proxy's timeout, accepted":   {restatetest.ProxyError(http.StatusGatewayTimeout).AfterAccept(), outcome{accepted, restatestart.ReasonServer, 1}},
		"unavailable for four seconds":  {restatetest.Status(http.StatusServiceUnavailable).For(4 * time.Second), outcome{restatestart.ReasonServer, restatestart.ReasonServer, 0}},
		"unavailable for three seconds": {restatetest.Status(http.StatusServiceUnavailable).For(2900 * time.Millisecond), outcome{accepted, accepted, 0}},
	} {
		for protocol, client := range map[string]func(*restatetest.Server) *http.Client{
			"HTTP/1.1": (*restatetest.Server).Client, "h2c": (*restatetest.Server).ClientHTTP2,
		} {
			row := row
			if name == "closed in the headers" && protocol == "h2c" {
				row.outcome = outcome{accepted, accepted, 0} // headers cannot be cut there: the status comes
			}
			t.Run(name+" over "+protocol, func(t *testing.T) {
				t.Parallel()
				handle := func(t *testing.T, step restatetest.Step) (*restatetest.Server, error) {
					t.Helper()
					fake := restatetest.New(t)
					fake.Script("k", step)
					starter := testkit.NewStarter(t, fake, nil, restatestart.Options{AttemptTimeout: 3 * time.Second, HTTPClient: client(fake)})
					return fake, starter.Handle(t.Context(), testkit.Batch("k", "other"))
				}
				check := func(t *testing.T, err error, want restatestart.Reason) {
					t.Helper()
					if want == accepted {
						require.NoError(t, err)
					} else {
						assert.Equal(t, want, testkit.OnlyFailure(t, err).Reason)
					}
				}
				synctest.Test(t, func(t *testing.T) {
					fake, err := handle(t, row.step)
					check(t, err, row.once)
					assert.Equal(t, row.duplicates, fake.Duplicates())
					assert.Zero(t, fake.Attempts("elsewhere"))
					fake.Close()
				})
				synctest.Test(t, func(t *testing.T) {
					step := row.step
					if !strings.Contains(name, "seconds") {
						step = step.Always()
					}
					fake, err := handle(t, step)
					check(t, err, row.always)
					fake.Close()
				})
			})
		}
	}
}

func TestS5AnAnswerThatTricklesTakesAttemptTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		fake.ScriptAll(restatetest.Answer(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, "x")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
		}).Always())
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{MaxAttempts: 2, AttemptTimeout: 3 * time.Second})
		began := time.Now()
		failed := testkit.OnlyFailure(t, starter.Handle(t.Context(), testkit.Batch("k")))
		assert.Equal(t, 2*3*time.Second+restatestart.DefaultRetryMin, time.Since(began))
		assert.Equal(t, http.StatusServiceUnavailable, failed.Status, "the status came")
		fake.Close()
	})
}

// Not parallel: it measures what the process allocates.
func TestAnEndlessAnswerTakesBoundedMemory(t *testing.T) {
	server := accepting(t, (*httptest.Server).Start, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		for chunk := make([]byte, 32<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	starter, err := restatestart.New(nil, testkit.Payout, restatestart.Options{Ingress: server.URL, MaxParallelism: 4})
	require.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	blocked := testkit.Blocked(t, starter.Handle(t.Context(), testkit.Batch(testkit.Keys(50)...)))
	runtime.ReadMemStats(&after)
	assert.Len(t, blocked.Failed, 50)
	// Of each answer 64 KiB are read, into a buffer that grows to that, and turned into text.
	assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(50*(64<<10)*16))
}

func TestS10ACancellationDuringDialIsAShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		fake := restatetest.New(t)
		dials := make(chan struct{}, 1)
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials <- struct{}{}
			select { // a host that drops packets; net/http does not cancel a dial that nobody waits for
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
			return nil, testkit.ErrBoom
		}}}
		starter := testkit.NewStarter(t, fake, nil, restatestart.Options{HTTPClient: client})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-dials; cancel() }()
		began := time.Now()
		blocked := testkit.Blocked(t, starter.Handle(ctx, testkit.Batch("k")))
		assert.Zero(t, time.Since(began))
		assert.True(t, blocked.ShuttingDown)
		assert.Equal(t, restatestart.ReasonShutdown, blocked.Failed[0].Reason)
		assert.Equal(t, 1, blocked.Failed[0].Attempts)
		testkit.Pass(time.Hour)
	})
}
