package ingress

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const (
	redacted = "[redacted]"
	// minSecret is how long a value must be to be taken out of a text. A shorter one would take half the text along.
	minSecret = 5
	// bodyStart is how much of a body's beginning is enough to recognise it by.
	bodyStart = 16
	// maxSearched is how much of a text, and of a body, is looked at: far more than is kept of the text.
	maxSearched = 8 << 10
)

// redact takes out of an answer's text what the request brought and nobody else should read: an error page, or a
// decoder's complaint, may well repeat some of it. Each secret is looked for in the text as it came, once.
func (c *Client) redact(text string, send *Send) string {
	if text == "" {
		return text
	}
	text = Cut(text, maxSearched)
	repeated := false
	body := OneLine(string(send.Body[:min(len(send.Body), 4*bodyStart)]))
	body = body[:min(len(body), bodyStart)]
	for _, start := range [...]string{body, strings.Trim(strconv.Quote(body), `"`)} {
		if at := strings.Index(text, start); at >= 0 && len(start) >= minSecret {
			text, repeated = text[:at], true
		}
	}

	secrets := values(send.Body[:min(len(send.Body), maxSearched)])
	secrets = append(secrets, c.password)
	for _, header := range [...]http.Header{c.header, send.Header} {
		for name, values := range header {
			if http.CanonicalHeaderKey(name) == "Content-Type" {
				continue // no secret, and what an answer about it is about
			}
			for _, value := range values {
				_, credentials, _ := strings.Cut(value, " ") // an Authorization may come back without its scheme
				secrets = append(secrets, value, credentials)
			}
		}
	}
	secrets = slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < minSecret || !strings.Contains(text, secret) })
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // the longest first: the replacer takes the first that fits
	pairs := make([]string, 0, 2*len(secrets))
	for _, secret := range secrets {
		pairs = append(pairs, secret, redacted)
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	if repeated {
		text += redacted
	}
	return text
}

// values are the strings and numbers in a JSON body, without the names of its fields: those are no secrets, and
// what a complaint about the body needs. A body that is not JSON has none.
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
				found = append(found, OneLine(token))
			}
		case json.Number:
			found = append(found, token.String())
		}
	}
}
