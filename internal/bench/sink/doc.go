// Package sink is a null ingress: it takes starts over HTTP/1.1 and answers each with the same 202 that Restate gives,
// as cheaply as can be, so that what is measured is the client. It remembers which starts came, which costs one atomic
// operation each.
package sink
