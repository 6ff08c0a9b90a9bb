package ingress

import (
	"net"
	"net/http"
	"time"
)

// idleTimeout is after how long an unused connection is closed.
const idleTimeout = 90 * time.Second

// newTransport makes the transport of a client for one host. It keeps as many idle connections as were in use at once;
// http.DefaultTransport keeps two for each host, and dials again and again for the rest.
func newTransport(dialTimeout time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConns:           0,       // no limit
		MaxIdleConnsPerHost:    1 << 16, // bounded by the starts in flight
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true, // answers are short, and maxAnswer counts what is sent
		ForceAttemptHTTP2:      true, // for https; a custom dialer disables it otherwise
		MaxResponseHeaderBytes: 64 << 10,
		// A dead HTTP/2 connection is detected, or every start on it would time out.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
}
