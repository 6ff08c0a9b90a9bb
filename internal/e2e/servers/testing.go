package servers

import (
	"errors"
	"os"
	"testing"
)

// StartRedis is LaunchRedis for a test: the server ends with the test, and the end of its log is shown when the test
// failed. When there is no redis-server here the test is skipped, or fails when CI=true.
func StartRedis(tb testing.TB, options RedisOptions) *Redis {
	tb.Helper()
	server, err := LaunchRedis(tb.Context(), options)
	if err != nil {
		giveUp(tb, err)
	}
	tb.Cleanup(func() { finish(tb, &server.daemon, server.Close) })
	return server
}

// StartRestate is LaunchRestate for a test: the server ends with the test, and the end of its log is shown when the
// test failed. When there is no restate-server here the test is skipped, or fails when CI=true.
func StartRestate(tb testing.TB, options RestateOptions) *Restate {
	tb.Helper()
	server, err := LaunchRestate(tb.Context(), options)
	if err != nil {
		giveUp(tb, err)
	}
	tb.Cleanup(func() { finish(tb, &server.daemon, server.Close) })
	return server
}

// giveUp ends the test: a missing server is a skip on a developer's machine, and nowhere else.
func giveUp(tb testing.TB, err error) {
	tb.Helper()
	if missing := (*MissingError)(nil); errors.As(err, &missing) && os.Getenv("CI") != "true" {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

func finish(tb testing.TB, server *daemon, closeServer func() error) {
	tb.Helper()
	if tb.Failed() {
		tb.Logf("the last %d lines of %s's log:\n%s", tailLines, server.name, server.logTail())
	}
	if err := closeServer(); err != nil {
		tb.Errorf("close %s: %v", server.name, err)
	}
}
