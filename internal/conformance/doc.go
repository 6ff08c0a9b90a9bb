// Package conformance checks a Restate ingress against recorded answers. The cases are data, the JSON files in
// testdata/conformance at the repository's root, and run unchanged against a real restate-server and against the fake
// in package restatetest, so that a difference between the two fails a test.
//
// [Load] reads a [Suite]. Its Run method speaks raw HTTP/1.1 over connections that the [Target] dials, because some cases
// send what no HTTP client would, and compares each answer with the expected one.
//
// # Requests
//
// A request's target, headers and body are sent byte for byte, except for these placeholders:
//
//	{key}             a key of this run of this case, 16 letters and digits long
//	{repeat:TEXT:N}   TEXT, N times
//	{base64:TEXT}     the bytes that TEXT encodes
//
// A body adds a content-length unless a header frames it. Each step opens a connection and closes it after the answer. A
// step that names its connection with "on" keeps it open until the case ends. A step with "hold" waits until the server
// has begun to read the body (it must ask for 100-continue) and leaves it there; a step with "rest" sends the remainder
// and reads the answer. "cut" closes the writing half after the body.
//
// # Answers
//
// An answer builds on a named one ("is") and lists the differences. Headers that are not listed are not compared; null means
// that a header must be absent. JSON bodies are compared as values, with the same members; "text" is compared literally.
// In header values, texts and JSON strings these placeholders match what differs between runs:
//
//	{key}             the case's key
//	{id}, {id:NAME}   an invocation id: equal wherever a case repeats the name, different for different names
//	{time}            an execution time, the same throughout a case
//	{time in 10s}     the same, and it must be that far in the future (within 2 s)
//	{accepted}        Accepted or PreviouslyAccepted, for keys that cannot be unique
//	{any}             any text
//	{unordered}       as the first element of an array: the others may come in any order
//
// "versions" of an answer lists differences between versions of the server: each entry has a range, from "since" (inclusive)
// to "before" (exclusive), and the changes in it, which override everything else. An entry with an "is" replaces the
// answer. The same two fields of a case restrict it to some versions.
//
// A case that the fake answers differently says why under "fake". It runs nevertheless, and fails once the fake answers as
// the server does, so that the entry is removed.
package conformance
