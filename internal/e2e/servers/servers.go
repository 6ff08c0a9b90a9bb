// Package servers starts a real redis-server and a real restate-server for a test, kills and restarts them, and queries
// what they hold.
//
// Every server listens on free loopback ports, keeps its data in a temporary directory of its own, and dies with the
// process that started it. A test uses [StartRedis] and [StartRestate], which clean up by themselves; a program uses
// [LaunchRedis] and [LaunchRestate] and calls Close.
package servers

import (
	"errors"
	"os"
	"testing"
)

// StartRedis is LaunchRedis for a test: the server ends with the test, and the end of its log is shown when the test
// failed. Without a redis-server the test is skipped, or fails when CI=true.
func StartRedis(tb testing.TB, options RedisOptions) *Redis {
	tb.Helper()
	server, err := LaunchRedis(tb.Context(), options)
	if err != nil {
		giveUp(tb, err)
	}
	tb.Cleanup(func() { finish(tb, &server.daemon, server.Close) })
	return server
}

// StartRestate is LaunchRestate for a test, as StartRedis is for a Redis.
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
		tb.Logf("the last %d lines of %s's log:\n%s", tailLines, server.name, tail(server.logSince(0)))
	}
	if err := closeServer(); err != nil {
		tb.Errorf("close %s: %v", server.name, err)
	}
}
