// Package chaos proves the guarantee under faults: real servers and consumers in processes of their own are killed, frozen,
// cut off and misconfigured by a schedule that is made from a seed, while messages are published. A record of every entry,
// request, answer and stored position shows in the end whether anything was lost, skipped, started twice or out of order.
//
//	make chaos DURATION=30m SEED=17
//
// runs longer than `make test` does. Package check compares the record with the promises, package proxy is the network between
// the programs, package schedule makes the faults.
package chaos
