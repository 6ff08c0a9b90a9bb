// Package restatetest is an imitation of the Restate ingress for tests of services that start workflows over HTTP.
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
// Both forms of a send, POST /{workflow}/{key}/{handler}/send and POST /restate/send/{workflow}/{key}/{handler}, as
// restate-server 1.7.12 was measured to: the same statuses, texts, headers and order of checks, one start per workflow and key, the first
// body wins, and a day after its completion a run is forgotten ([WithRetention]). The same for services and virtual objects once they are
// declared ([WithService], [WithObject], [WithShared]), and GET /restate/health.
//
// No workflow runs: an accepted start is recorded, counts as completed, and that is all. Calls and the questions one can ask
// about runs are answered 501; scopes, too. On HTTP/2, net/http resets the stream for what it cannot parse, and also for a broken percent
// escape, which the real server takes as it stands.
//
// # Where it listens
//
// [New] and [Start] make a server in memory. Its connections are [net.Pipe] pairs, so it works inside a testing/synctest
// bubble, where delays, timeouts and retentions take no real time: make the server inside the bubble. [Listen] makes one on TCP, for code
// that brings its own HTTP client. Both speak HTTP/1.1 ([Server.Client]) and HTTP/2 without TLS ([Server.ClientHTTP2]).
//
// # What goes wrong
//
// It is scripted per workflow key ([Server.Script]) or for each key alike ([Server.ScriptAll]): steps taken one per attempt, or as long
// as [Step.Times], [Step.For] or [Step.Always] say.
//
//	no answer          Hang, Drop
//	a lost answer      HangAfterAccept, DropAfterAccept, DropAfterStatus
//	a late answer      Delay, SlowBody
//	a broken answer    TruncatedBody, EndlessBody
//	another answer     Status, ProxyError, Redirect, Answer
//
// [Step.AfterAccept] makes any of them follow a start. A whole outage is [Server.Down] until [Server.Up]; a missing
// deployment, [Server.Unregister] until [Server.Register].
//
// # What is asked afterwards
//
// [Server.ExpectStarted], [Server.ExpectOrder] and [Server.ExpectBody] fail the test with both sides of the difference. [Server.Starts] and
// [Server.Requests] are the records, [Server.Attempts], [Server.Duplicates], [Server.MaxConcurrent] and [Server.Connections] the numbers.
//
// All methods are safe for concurrent use.
package restatetest
