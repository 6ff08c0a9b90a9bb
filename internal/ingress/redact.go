package ingress

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

const (
	redacted = "[redacted]"
	// minSecret is how long a value must be to be taken out of a text. A shorter one would take half the text along.
	minSecret = 5
	// bodyStart is how much of a body's beginning is enough to recognise it by.
	bodyStart = 16
)

// redact takes out of an answer's text what the request brought and nobody else should read: an error page, or a
// decoder's complaint, may well repeat some of it.
func (c *Client) redact(text string, send Send) string {
	if text == "" {
		return text
	}
	conceal := func(secret string) {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, redacted)
		}
	}
	conceal(c.password)
	for _, header := range [...]http.Header{c.header, send.Header} {
		for name, values := range header {
			if http.CanonicalHeaderKey(name) == "Content-Type" {
				continue // no secret, and what an answer about it is about
			}
			for _, value := range values {
				conceal(value)
				_, credentials, _ := strings.Cut(value, " ") // an Authorization may come back without its scheme
				conceal(credentials)
			}
		}
	}
	body := OneLine(string(send.Body[:min(len(send.Body), 4*bodyStart)]))
	body = body[:min(len(body), bodyStart)]
	for _, start := range [...]string{body, strings.Trim(strconv.Quote(body), `"`)} {
		if at := strings.Index(text, start); at >= 0 && len(start) >= minSecret {
			text = text[:at] + redacted
		}
	}
	for _, value := range values(send.Body) {
		conceal(value)
	}
	return text
}

// values are the strings and numbers in a JSON body, without the names of its fields: those are no secrets, and
// what a complaint about the body needs. A body that is not JSON has none.
func values(body []byte) []string {
	const most = 1000
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var found []string
	type level struct{ object, name bool } // name: the next string is a field's name
	var nesting []level
	for range most {
		token, err := decoder.Token()
		if err != nil {
			break
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
	return found
}
