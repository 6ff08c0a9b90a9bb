package ingress

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// errURL is the error of a wrong URL with credentials: an unescaped slash in a password makes a part of it a port or a path.
var errURL = errors.New("not a valid URL; details are not shown because it holds credentials, which may need escaping")

// ParseURL parses and checks a base URL, of the ingress or of the admin API. Its errors have no credentials.
func ParseURL(text string) (*url.URL, error) {
	parsed, err := checkURL(text)
	if err != nil && strings.Contains(text, "@") {
		return nil, errURL
	}
	return parsed, err
}

func checkURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("no URL is given")
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("not a URL: %w", withoutURL(err))
	}
	switch {
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return nil, errors.New("not an http or https URL, such as http://restate:8080")
	case parsed.Hostname() == "":
		return nil, errors.New("there is no host in the URL")
	case parsed.RawQuery != "" || parsed.ForceQuery:
		return nil, fmt.Errorf("the URL of host %s has a query, which is not allowed", parsed.Host)
	case strings.Contains(text, "#"):
		return nil, fmt.Errorf("the URL of host %s has a fragment, which is not allowed", parsed.Host)
	}
	if port := parsed.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return nil, fmt.Errorf("port %s of the URL is not between 1 and 65535", port)
		}
	}
	return parsed, nil
}

// checkPath refuses what the ingress would misread or should not accept: Restate starts a workflow under an empty key.
func checkPath(send Send) error {
	for _, segment := range [...]struct{ name, value string }{
		{"workflow", send.Workflow}, {"key", send.Key}, {"handler", send.Handler},
	} {
		switch {
		case segment.value == "":
			return fmt.Errorf("empty %s", segment.name)
		case !utf8.ValidString(segment.value):
			return fmt.Errorf("%s is not valid UTF-8", segment.name)
		}
	}
	if send.Workflow == "restate" || send.Workflow == "openapi" {
		return fmt.Errorf("workflow name %q is reserved by Restate", send.Workflow)
	}
	return nil
}

// url builds the URL of a send. RawPath is an encoding of Path, so net/http sends it unchanged.
func (c *Client) url(send *Send) url.URL {
	target := c.base
	workflow, key, handler := escape(send.Workflow), escape(send.Key), escape(send.Handler)
	target.Path = c.plain + send.Workflow + "/" + send.Key + "/" + send.Handler + c.suffix
	target.RawPath = target.Path
	if len(c.prefix)+len(workflow)+len(key)+len(handler) != len(c.plain)+len(send.Workflow)+len(send.Key)+len(send.Handler) {
		target.RawPath = c.prefix + workflow + "/" + key + "/" + handler + c.suffix // something was escaped
	}
	if send.Delay > 0 {
		target.RawQuery = "delay=" + formatDelay(send.Delay)
	}
	return target
}

// escape makes a path segment of any text. Dot segments are escaped too, or a proxy would resolve them; to Restate `..` is a
// key like any other.
func escape(segment string) string {
	switch segment {
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	default:
		return url.PathEscape(segment)
	}
}

// formatDelay renders a duration exactly, in a unit that Restate reads.
func formatDelay(delay time.Duration) string {
	if delay%time.Millisecond == 0 {
		return strconv.FormatInt(delay.Milliseconds(), 10) + "ms"
	}
	return strconv.FormatInt(delay.Nanoseconds(), 10) + "ns"
}
