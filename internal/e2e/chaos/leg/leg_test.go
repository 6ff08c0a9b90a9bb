package leg_test

import (
	"bytes"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/e2e/chaos/leg"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for what must happen, a moment is how long nothing must.
const (
	patience = 10 * time.Second
	moment   = 100 * time.Millisecond
)

// echo is a leg to a server that sends back what it gets, until it gets no more.
func echo(t *testing.T) *leg.Leg {
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
	l, err := leg.New(listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, l.Close())
		assert.NoError(t, listener.Close())
		<-served
	})
	return l
}

func dial(t *testing.T, l *leg.Leg) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr())
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

func expect(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	assert.Equal(t, text, string(got))
}

func expectNothing(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(moment)))
	_, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	assert.True(t, timeout.Timeout(), "%v", err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
}

func expectReset(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := conn.Read(make([]byte, 1))
	assert.ErrorIs(t, err, syscall.ECONNRESET)
}

func TestALegCarriesDataAndTheEndOfItBothWays(t *testing.T) {
	t.Parallel()
	conn := dial(t, echo(t))
	text := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() {
		_, _ = conn.Write(text)
		_ = conn.CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(text, got))
}

func TestLatencyDelaysEachPieceEachWay(t *testing.T) {
	t.Parallel()
	l := echo(t)
	conn := dial(t, l)
	send(t, conn, "a")
	expect(t, conn, "a")
	l.Set(leg.Trouble{Latency: moment})
	began := time.Now()
	send(t, conn, "b")
	expect(t, conn, "b")
	assert.GreaterOrEqual(t, time.Since(began), 2*moment)
	l.Set(leg.Trouble{})
	send(t, conn, "c")
	expect(t, conn, "c")
}

func TestACutLegResetsOldAndNewConnectionsUntilItIsMended(t *testing.T) {
	t.Parallel()
	l := echo(t)
	old := dial(t, l)
	send(t, old, "a")
	expect(t, old, "a")
	l.Set(leg.Trouble{Cut: true})
	expectReset(t, old)
	// The reset of a new one may come before its dial is over.
	if fresh, err := net.Dial("tcp", l.Addr()); err == nil {
		_, err = fresh.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.NoError(t, fresh.Close())
	}
	l.Set(leg.Trouble{})
	conn := dial(t, l)
	send(t, conn, "b")
	expect(t, conn, "b")
}

func TestASilentLegDeliversLate(t *testing.T) {
	t.Parallel()
	l := echo(t)
	old := dial(t, l)
	send(t, old, "a")
	expect(t, old, "a")
	l.Set(leg.Trouble{Silent: true})
	fresh := dial(t, l)
	send(t, old, "b")
	send(t, fresh, "c")
	expectNothing(t, old)
	expectNothing(t, fresh)
	l.Set(leg.Trouble{})
	expect(t, old, "b")
	expect(t, fresh, "c")
}

func TestWhatIsResetWhileSilentNeverArrives(t *testing.T) {
	t.Parallel()
	l := echo(t)
	conn := dial(t, l)
	send(t, conn, "a")
	expect(t, conn, "a")
	l.Set(leg.Trouble{Silent: true})
	send(t, conn, "b")
	expectNothing(t, conn)
	l.Reset()
	l.Set(leg.Trouble{})
	expectReset(t, conn)
}

func TestADrippingLegIsSlowAndLosesNothing(t *testing.T) {
	t.Parallel()
	l := echo(t)
	l.Set(leg.Trouble{Drip: 1_000})
	conn := dial(t, l)
	began := time.Now()
	const text = "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
	send(t, conn, text)
	expect(t, conn, text)
	assert.GreaterOrEqual(t, time.Since(began), moment, "100 bytes at 1,000 a second")
}

func TestALegToNowhereEndsItsConnections(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	l, err := leg.New(listener.Addr().String())
	require.NoError(t, err)
	conn := dial(t, l)
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NoError(t, l.Close())
	_, err = net.Dial("tcp", l.Addr())
	assert.Error(t, err)
}

func TestALegThatIsSilentCanBeClosed(t *testing.T) {
	t.Parallel()
	l := echo(t) // and closes it
	conn := dial(t, l)
	l.Set(leg.Trouble{Silent: true})
	send(t, conn, "a")
	expectNothing(t, conn)
}
