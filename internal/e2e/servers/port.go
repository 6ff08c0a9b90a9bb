package servers

import (
	"errors"
	"fmt"
	"net"
	"regexp"
)

// portTries bounds how often a start is tried with new ports. Between the choice of a free port and the server's bind
// another process can take it, which is rare enough that a second try nearly always succeeds.
const portTries = 5

// errPortTaken says that a server ended because somebody else has its port.
var errPortTaken = errors.New("a port was taken by another process")

// addressInUse matches what both servers log when they cannot bind.
var addressInUse = regexp.MustCompile(`(?i)address (already )?in use`)

// freeAddresses returns n different loopback addresses that nobody listens on at the moment.
func freeAddresses(n int) ([]string, error) {
	addresses := make([]string, 0, n)
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		// Held until all are chosen, so that no port is chosen twice.
		defer func() { _ = listener.Close() }()
		addresses = append(addresses, listener.Addr().String())
	}
	return addresses, nil
}
