package testkit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Pass lets virtual time pass, within a synctest bubble, and waits until all that is due by then has happened.
func Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Eventually waits until a condition holds, for tests on real sockets and servers, outside synctest. It fails the test after 20 s.
func Eventually(t *testing.T, condition func() bool, message ...any) {
	t.Helper()
	require.Eventually(t, condition, 20*time.Second, time.Millisecond, message...)
}
