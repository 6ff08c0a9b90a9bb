// Package conformance holds a Restate ingress to recorded answers. The cases are data, files of JSON in
// testdata/conformance at the repository's root, and run unchanged against a real restate-server and against the
// imitation in package restatetest, so that neither can drift from the other unseen.
//
// A [Suite] is read with [Load]. Its Run method speaks raw HTTP/1.1 over connections that the [Target] dials, because
// no HTTP client would send what some of the cases consist of, and compares each answer with the expected one.
//
// # Requests
//
// In a request's target, headers and body, which are sent byte for byte, these are replaced:
//
//	{key}             a key of this run of this case alone, 16 letters and digits long
//	{repeat:TEXT:N}   TEXT, N times
//	{base64:TEXT}     the bytes that TEXT encodes
//
// A body brings a content-length of its own unless a header says how it is framed. Every step opens a connection and
// closes it after the answer, unless it names one with "on", which then stays open until the case ends. A step with
// "hold" waits until the server has begun to read the body (it must ask for 100-continue) and leaves it there; a step
// with "rest" sends what is missing and takes the answer. "cut" closes the writing half after the body.
//
// # Answers
//
// An answer builds on another, named one ("is"), and says what differs. Headers that are not listed are not looked at;
// null means that a header must be absent. JSON bodies are compared as values, with the same members; "text" is
// compared literally. In header values, texts and JSON strings these stand for what differs from run to run:
//
//	{key}             the case's key
//	{id}, {id:NAME}   an invocation id: the same one wherever a case repeats the name, another one for another name
//	{time}            an execution time, the same one throughout a case
//	{time in 10s}     the same, and it must be that far in the future (2 s off at most)
//	{accepted}        Accepted or PreviouslyAccepted, for keys that cannot be made unique
//	{any}             any text
//	{unordered}       as the first element of an array: the others may come in any order
//
// What differs between versions of the server is listed under "versions" of an answer: each entry has a range, from
// "since" (inclusive) to "before" (exclusive), and the answer's changes in it, which come over everything else. One with
// an "is" of its own takes the answer's place altogether. The same two fields of a case restrict it to some versions.
//
// A case that the imitation answers otherwise says so, and why, under "fake". It is run all the same: it fails once the
// imitation does answer as the server, so that the note goes.
package conformance
