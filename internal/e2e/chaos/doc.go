// Package chaos proves the guarantee under fault: real servers and consumers in processes of their own are killed,
// frozen, cut off and misconfigured by a schedule that a seed makes, while messages are published. A record of every
// entry, request, answer and stored position says in the end whether anything was lost, passed, started twice or out
// of order.
//
//	make chaos DURATION=30m SEED=17
//
// runs one longer than `make test` does. Package check holds the promises against the record, package leg is the
// network between the programs, package schedule deals the faults.
package chaos
