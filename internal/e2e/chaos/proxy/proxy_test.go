package proxy_test

import (
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/e2e/chaos/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	patience = 10 * time.Second
	moment   = 100 * time.Millisecond // for which nothing must happen
)

// echo is a proxy to a server that sends back what it gets.
func echo(t *testing.T) *proxy.Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	p, err := proxy.New(listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, p.Close())
		assert.NoError(t, listener.Close())
		<-served
	})
	return p
}

func dial(t *testing.T, p *proxy.Proxy) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn.(*net.TCPConn)
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := conn.Write([]byte(text))
	require.NoError(t, err)
}

func receive(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	assert.Equal(t, text, string(got))
}

func receiveNothing(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(moment)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
}

func receiveReset(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestLatencyAndRateDelayAndLoseNothing(t *testing.T) {
	t.Parallel()
	for _, fault := range []proxy.Fault{{Latency: moment}, {Rate: 1_000}} {
		p := echo(t)
		conn := dial(t, p)
		p.Set(fault)
		began := time.Now()
		text := strings.Repeat("0123456789", 10) // 0.1 s at 1,000 bytes a second
		send(t, conn, text)
		receive(t, conn, text)
		assert.GreaterOrEqual(t, time.Since(began), moment)
	}
}

func TestACutResetsOldAndNewConnections(t *testing.T) {
	t.Parallel()
	p := echo(t)
	old := dial(t, p)
	send(t, old, "a")
	receive(t, old, "a")
	p.Set(proxy.Fault{Cut: true})
	receiveReset(t, old)
	if fresh, err := net.Dial("tcp", p.Addr()); err == nil { // the reset may come before the dial is over
		receiveReset(t, fresh)
		require.NoError(t, fresh.Close())
	}
	p.Set(proxy.Fault{})
	conn := dial(t, p)
	send(t, conn, "b")
	receive(t, conn, "b")
}

func TestSilenceDelaysAndAResetLoses(t *testing.T) {
	t.Parallel()
	p := echo(t)
	old := dial(t, p)
	send(t, old, "a")
	receive(t, old, "a")
	p.Set(proxy.Fault{Silent: true})
	fresh := dial(t, p)
	send(t, old, "b")
	send(t, fresh, "c")
	receiveNothing(t, old)
	receiveNothing(t, fresh)
	p.Set(proxy.Fault{})
	receive(t, old, "b")
	receive(t, fresh, "c")
	p.Set(proxy.Fault{Silent: true})
	send(t, old, "d")
	receiveNothing(t, old)
	p.Reset()
	p.Set(proxy.Fault{})
	receiveReset(t, old)
	p.Set(proxy.Fault{Silent: true}) // and it can be closed so
	send(t, dial(t, p), "e")
}
