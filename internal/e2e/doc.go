// Package e2e holds the tests that run against a real redis-server and a real restate-server.
//
// It is a module of its own, so that Restate's Go SDK never becomes a dependency of a user of the library.
// Package servers starts the servers, package payout is the workflow service they call, package chaos breaks them by a
// schedule. tools.sh fetches the binaries; a test that misses one is skipped, or fails when CI=true.
package e2e
