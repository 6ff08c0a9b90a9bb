// Package restatetest is an imitation of the Restate ingress for tests of services that start workflows over HTTP.
//
//	server := restatetest.New(t, restatetest.WithWorkflow("BonusPayout"))
//	server.Script("claim-7", restatetest.Status(503).Times(2))
//	… run the code under test against server.URL() with server.Client() …
//	server.ExpectStarted(t, "BonusPayout", "claim-7")
//
// It answers both forms of a workflow send, POST /{workflow}/{key}/{handler}/send and
// POST /restate/send/{workflow}/{key}/{handler}, as restate-server 1.7.12 was measured to: the same statuses, texts, headers
// and order of checks, one start per workflow and key, the first body wins. No workflow runs: an accepted start is recorded and that is all.
// Calls and the questions one can ask about runs are answered 501. What is no HTTP to net/http, such as a raw space in the path,
// gets the 400 of net/http, which has a body where the real server's has none.
//
// [New] and [Start] make a server in memory. Its connections are [net.Pipe] pairs, so it works inside a testing/synctest
// bubble, where delays and timeouts take no real time. [Listen] makes one on TCP, for code that brings its own HTTP client.
//
// What goes wrong is scripted per workflow key ([Server.Script]) or for all of them ([Server.ScriptAll]), and a whole outage is
// [Server.Down] until [Server.Up]. What happened is asked afterwards: [Server.Starts], [Server.Requests] and their likes.
//
// It speaks HTTP/1.1 only, knows no services, virtual objects, shared handlers or scopes, and never forgets a start.
// All methods are safe for concurrent use.
package restatetest
