// Package contender has what is compared: the library, what people would write in its place, and the limits of each.
// A contender runs in a process of its own and does one round after the other there, so that connections and memory
// are warm after the first.
package contender
