// Package e2e holds the tests that run against a real redis-server and a real restate-server.
//
// It is a separate module, so that Restate's Go SDK never becomes a dependency of the library's users. Package servers starts the
// servers, package payout is the workflow service that they call, package kit is what the tests share, package chaos breaks the
// servers by a schedule. tools.sh fetches the binaries; a test that misses one is skipped, or fails when CI=true.
package e2e
