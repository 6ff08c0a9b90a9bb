// Package servers starts a real redis-server and a real restate-server for a test, kills and restarts them, and
// asks them what they hold.
//
// Every server listens on free loopback ports, keeps its data in a temporary directory of its own, and dies with the
// process that started it. A test uses [StartRedis] and [StartRestate], which clean up by themselves; a program uses
// [LaunchRedis] and [LaunchRestate] and calls Close.
package servers
