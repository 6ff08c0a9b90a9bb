// Package restatetest is a fake Restate ingress for testing services that start workflows over HTTP.
//
//	func TestAClaimIsPaidOnce(t *testing.T) {
//		server := restatetest.New(t, restatetest.WithWorkflow("BonusPayout"))
//		server.Script("claim-7", restatetest.Status(503).Times(2), restatetest.DropAfterAccept())
//		… run the code under test against server.URL() with server.Client() …
//		server.ExpectStarted(t, "BonusPayout", "claim-7")
//		server.ExpectBody(t, "BonusPayout", "claim-7", `{"amount":5}`)
//	}
//
// # What it answers
//
// The server answers both forms of a send, POST /{workflow}/{key}/{handler}/send and POST /restate/send/{workflow}/{key}/{handler}, as
// recordings of restate-server 1.7.12 do: the same statuses, messages, headers and order of checks. A workflow starts once per key, the
// first body counts, and a run is forgotten a day after its completion ([WithRetention]). Services and virtual objects are supported once
// they are declared ([WithService], [WithObject], [WithShared]), and so is GET /restate/health.
//
// No workflow runs: an accepted start is recorded and counts as completed. Calls, scopes, and queries for the result of a run are answered
// 501. Over HTTP/2, net/http resets the stream of a request that it cannot parse, including one with a broken percent escape, which the real
// server accepts as it is.
//
// # Where it listens
//
// [New] and [Start] make a server in memory. Its connections are [net.Pipe] pairs, so it works inside a testing/synctest bubble, where
// delays, timeouts and retentions take no real time; make the server inside the bubble. [Listen] makes one on TCP, for code that
// brings its own HTTP client. Both speak HTTP/1.1 ([Server.Client]) and HTTP/2 without TLS ([Server.ClientHTTP2]).
//
// # Injecting faults
//
// Faults are scripted for one workflow key ([Server.Script]) or for every key ([Server.ScriptAll]), as steps that each apply to one
// request, or for as long as [Step.Times], [Step.For] or [Step.Always] say.
//
//	no answer          Hang, Drop
//	a lost answer      HangAfterAccept, DropAfterAccept, DropAfterStatus
//	a late answer      Delay, SlowBody
//	a broken answer    TruncatedBody, EndlessBody
//	another answer     Status, ProxyError, Redirect, Answer
//
// [Step.AfterAccept] starts the workflow before any of them. [Server.Down] begins an outage that ends with [Server.Up];
// [Server.Unregister] removes a deployment until [Server.Register].
//
// # Checking the outcome
//
// [Server.ExpectStarted], [Server.ExpectOrder] and [Server.ExpectBody] fail the test with a diff. [Server.Starts] and [Server.Requests] are
// the records; [Server.Attempts], [Server.Duplicates], [Server.MaxConcurrent] and [Server.Connections] are counts.
//
// All methods are safe for concurrent use.
package restatetest
