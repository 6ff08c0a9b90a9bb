package testkit

import (
	"testing/synctest"
	"time"
)

// Pass lets virtual time pass, within a synctest bubble, and waits until all that is due by then has happened.
func Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
