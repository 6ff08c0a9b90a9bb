package ingress

import (
	"net"
	"net/http"
	"time"
)

// idleTimeout closes connections that the load no longer needs.
const idleTimeout = 90 * time.Second

// newTransport makes the transport for a client that talks to one host. It keeps every connection that was in
// use at the same time as others: net/http's own default keeps two a host and connects anew for the rest, over
// and over.
func newTransport(dialTimeout time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConns:           0,       // no limit, and the next line leaves none in practice
		MaxIdleConnsPerHost:    1 << 16, // bounded by the starts under way at once
		IdleConnTimeout:        idleTimeout,
		DisableCompression:     true, // answers are short, and 64 KiB should mean 64 KiB
		ForceAttemptHTTP2:      true, // for https; a custom dialer switches it off otherwise
		MaxResponseHeaderBytes: 64 << 10,
		// A flow that died without a word is noticed, rather than timing out every start on it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second},
	}
}
