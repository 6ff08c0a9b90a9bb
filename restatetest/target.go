package restatetest

import (
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
)

type verb int

const (
	verbNone verb = iota // unknown to the ingress
	verbSend
	verbCall
	verbHealth
	verbOther // known to the real server only
)

// target is what a request's path addresses. Workflow, key and handler are empty where the path has none.
type target struct {
	verb                   verb
	kind                   kind
	named                  bool // the path has a segment for the name, which may be empty
	workflow, key, handler string
	query                  string

	unroutable *refusal // whatever is registered
	malformed  *refusal // once the workflow is known to exist
}

// parseTarget parses a request target as the real server does: it splits at raw slashes and percent-decodes the key only. The form of the
// path depends on the kind that its name was declared with.
func parseTarget(sent string, declared services) target {
	sent, _, _ = strings.Cut(sent, "#")
	path, query, _ := strings.Cut(sent, "?")
	if _, rest, absolute := strings.Cut(path, "://"); absolute && !strings.HasPrefix(path, "/") {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	t := target{query: query}
	segments := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(segments) < 2 || len(segments) > 7:
		t.unroutable = refuse(http.StatusBadRequest, "bad path: "+path)
	case segments[0] == "restate":
		t.parseRestate(segments[1], segments[2:], declared)
	case segments[0] == "openapi":
		t.unroutable = refuse(http.StatusNotFound, notFound)
	default:
		t.parseClassic(segments, declared)
	}
	return t
}

// parseClassic reads {workflow}/{key}/{handler}[/send].
func (t *target) parseClassic(segments []string, declared services) {
	rest := t.parseName(segments, declared)
	t.verb = verbCall
	if len(rest) == t.parts()+1 && rest[t.parts()] == "send" {
		t.verb, rest = verbSend, rest[:t.parts()]
	}
	t.parseParts(rest, badPath)
}

// parseRestate reads what follows restate/.
func (t *target) parseRestate(name string, rest []string, declared services) {
	switch name {
	case "health":
		t.verb = verbHealth
	case "send", "call":
		t.verb = verbCall
		if name == "send" {
			t.verb = verbSend
		}
		if len(rest) > 0 {
			rest = t.parseName(rest, declared)
		}
		t.parseParts(rest, badRestate)
	case "scope", "attach", "output", "lookup", "workflow", "invocation":
		t.verb = verbOther
	default:
		t.unroutable = refuse(http.StatusNotFound, notFound)
	}
}

func (t *target) parseName(segments []string, declared services) (rest []string) {
	t.workflow, t.named = segments[0], true
	t.kind = declared.kindOf(t.workflow)
	return segments[1:]
}

// parts is how many segments follow the name: key and handler, or the handler alone.
func (t *target) parts() int {
	if t.kind == kindService {
		return 1
	}
	return 2
}

func (t *target) parseParts(parts []string, malformed string) {
	if len(parts) != t.parts() {
		t.malformed = refuse(http.StatusBadRequest, malformed)
		return
	}
	t.handler = parts[len(parts)-1]
	if len(parts) == 2 {
		t.key, t.malformed = decodeKey(parts[0])
	}
}

// decodeKey percent-decodes one segment. Broken escapes and pluses stay as they are; the result must be UTF-8.
func decodeKey(segment string) (string, *refusal) {
	decoded := make([]byte, 0, len(segment))
	for i := 0; i < len(segment); i++ {
		if segment[i] == '%' && i+2 < len(segment) && isHex(segment[i+1]) && isHex(segment[i+2]) {
			decoded = append(decoded, unhex(segment[i+1])<<4|unhex(segment[i+2]))
			i += 2
			continue
		}
		decoded = append(decoded, segment[i])
	}
	if !utf8.Valid(decoded) {
		return "", refuse(http.StatusBadRequest, "bad path, cannot decode key: "+fromUTF8Error(decoded))
	}
	return string(decoded), nil
}

// fromUTF8Error is the text of the error of Rust's String::from_utf8.
func fromUTF8Error(text []byte) string {
	valid := 0
	for {
		r, size := utf8.DecodeRune(text[valid:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		valid += size
	}
	rest, promising := text[valid:], 0
	for promising < len(rest) && promising < 3 && !utf8.FullRune(rest[:promising+1]) {
		promising++
	}
	length := "None"
	if promising < len(rest) {
		length = fmt.Sprintf("Some(%d)", max(1, promising))
	}
	numbers := strings.ReplaceAll(fmt.Sprint(text), " ", ", ") //nolint:staticcheck // the bytes as numbers, not as text
	return fmt.Sprintf("FromUtf8Error { bytes: %s, error: Utf8Error { valid_up_to: %d, error_len: %s } }", numbers, valid, length)
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c >= 'a':
		return c - 'a' + 10
	}
	return c - 'A' + 10
}
