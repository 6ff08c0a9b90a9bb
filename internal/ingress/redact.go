package ingress

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/redisevents/restatestart/internal/text"
)

const (
	redacted = "[redacted]"
	// minSecret is how many bytes a value must have to be redacted. A shorter one would occur in any text.
	minSecret = 5
	// bodyStart is how many bytes of its beginning identify a body.
	bodyStart = 16
	// maxSearched is how many bytes of a text and of a body are searched, far more than is kept of the text.
	maxSearched = 8 << 10
)

// redact removes from an answer's text what the request had in its body and headers: an error page or a decoder's error may
// repeat it. What replaces a secret is not searched again.
func (c *Client) redact(message string, send *Send) string {
	if message == "" {
		return message
	}
	message = text.Cut(message, maxSearched)
	repeated := false
	body := text.OneLine(string(send.Body[:min(len(send.Body), 4*bodyStart)]))
	body = body[:min(len(body), bodyStart)]
	for _, start := range [...]string{body, strings.Trim(strconv.Quote(body), `"`)} {
		if at := strings.Index(message, start); at >= 0 && len(start) >= minSecret {
			message, repeated = message[:at], true
		}
	}

	secrets := values(send.Body[:min(len(send.Body), maxSearched)])
	secrets = append(secrets, c.password)
	for _, header := range [...]http.Header{c.header, send.Header} {
		for name, values := range header {
			if http.CanonicalHeaderKey(name) == "Content-Type" {
				continue // no secret, and an answer may be about it
			}
			for _, value := range values {
				_, credentials, _ := strings.Cut(value, " ") // an Authorization may come back without its scheme
				secrets = append(secrets, value, credentials)
			}
		}
	}
	secrets = slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < minSecret || !strings.Contains(message, secret) })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // the longest first: the replacer takes the first that matches
	pairs := make([]string, 0, 2*len(secrets))
	for _, secret := range secrets {
		pairs = append(pairs, secret, redacted)
	}
	message = strings.NewReplacer(pairs...).Replace(message)
	if repeated {
		message += redacted
	}
	return message
}

// values are the strings and numbers of a JSON body but not its field names, which are no secrets and which an error about the
// body needs. A body that is not JSON has none.
func values(body []byte) []string {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var found []string
	type level struct{ object, name bool } // name: the next string is a field's name
	var nesting []level
	for {
		token, err := decoder.Token()
		if err != nil {
			return found // the end, or what is not JSON
		}
		var top *level
		if len(nesting) > 0 {
			top = &nesting[len(nesting)-1]
		}
		isName := top != nil && top.object && top.name
		if delim, ok := token.(json.Delim); !ok || delim == '{' || delim == '[' {
			if top != nil && top.object {
				top.name = !top.name
			}
		}
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{', '[':
				nesting = append(nesting, level{object: token == '{', name: true})
			default:
				nesting = nesting[:len(nesting)-1]
			}
		case string:
			if !isName {
				found = append(found, text.OneLine(token))
			}
		case json.Number:
			found = append(found, token.String())
		}
	}
}
