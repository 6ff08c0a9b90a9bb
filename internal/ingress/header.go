package ingress

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// CheckHeader refuses headers that cannot be sent or that make a send fail: Restate answers 400 to a value that is not
// visible ASCII, and to an Idempotency-Key for a workflow.
func CheckHeader(header http.Header) error {
	for name, values := range header {
		switch canonical := http.CanonicalHeaderKey(name); {
		case !isToken(name):
			return fmt.Errorf("header name %q is not valid", name)
		case canonical == "Idempotency-Key" || canonical == "X-Idempotency-Key":
			return fmt.Errorf("header %s is refused: the workflow key makes a start idempotent, and Restate answers 400 to an idempotency key", canonical)
		case slices.Contains(setByTransport[:], canonical):
			return fmt.Errorf("header %s is set by the HTTP transport", canonical)
		}
		for _, value := range values {
			if !isVisibleASCII(value) {
				return fmt.Errorf("header %s has a value with a character outside visible ASCII", http.CanonicalHeaderKey(name))
			}
		}
	}
	return nil
}

var setByTransport = [...]string{
	"Connection", "Content-Length", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func isToken(name string) bool {
	return name != "" && strings.IndexFunc(name, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

func isVisibleASCII(value string) bool {
	for i := range len(value) {
		if c := value[i]; (c < ' ' && c != '\t') || c > '~' {
			return false
		}
	}
	return true
}
