package ingress //nolint:testpackage // it tests answers without a server, and URLs before they are sent

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// A Retry-After is never negative, never shorter than the seconds it names, and a date is as far off as it says.
func FuzzRetryAfter(f *testing.F) {
	const date = "Mon, 30 Nov 2026 12:00:00 GMT"
	for _, seed := range []string{"", "0", "7", " 7 ", "-5", "99999999999999999999", "9223372036854775807", "9223372036", "soon", "1.5", date, "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(seed, date)
	}
	f.Fuzz(func(t *testing.T, value, date string) {
		wait := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}})
		if wait < 0 {
			t.Fatalf("%q: %s", value, wait)
		}
		if seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 33); err == nil && !strings.HasPrefix(strings.TrimSpace(value), "+") && wait != time.Duration(seconds)*time.Second {
			t.Fatalf("%q: %s", value, wait)
		}
		when, err := http.ParseTime(strings.TrimSpace(value))
		now, err2 := http.ParseTime(date)
		if err == nil && err2 == nil && when.After(now) && wait != when.Sub(now) {
			t.Fatalf("%q at %q: %s", value, date, wait)
		}
	})
}

// What is made of an answer is bounded, one line of valid text, and without credentials.
func FuzzAnswer(f *testing.F) {
	f.Add(202, `{"invocationId":"inv_1","status":"PreviouslyAccepted"}`, `{"a":1}`)
	f.Add(202, `{"invocationId":"inv_1","executionTime":"2026-11-30T11:54:10.849000000Z","status":"Accepted"}`, "")
	f.Add(404, `{"code":404,"message":"service 'W' not\n found","source":"ingress"}`, "")
	f.Add(502, "<html>\r\n\t<b>Bad \x1bGateway\xff</b> Bearer s3cret-token", "{}")
	f.Add(400, `{"message":"cannot read {\"amount\": 1250"}`, `{"amount": 1250, "iban": ["DE00", {"x": null}]}`)
	f.Add(413, "length limit exceeded", "[")
	const secret = "s3cret-token"
	client := &Client{header: http.Header{"Authorization": {"Bearer " + secret}}, password: "pass-word"}
	f.Fuzz(func(t *testing.T, status int, body, sent string) {
		response := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
		answer := client.read(response, &Send{Body: []byte(sent)})
		if answer.Accepted() != (status >= 200 && status <= 299) || answer.Status != status {
			t.Fatalf("status %d became %+v", status, answer)
		}
		if answer.Accepted() && answer.Text != "" {
			t.Fatalf("an accepted start has the text %q", answer.Text)
		}
		var decoded struct {
			InvocationID string `json:"invocationId"`
			Status       string `json:"status"`
		}
		if answer.Accepted() && json.Unmarshal([]byte(body), &decoded) == nil &&
			(answer.InvocationID != decoded.InvocationID || answer.Previously != (decoded.Status == "PreviouslyAccepted")) {
			t.Fatalf("%q became %+v", body, answer)
		}
		if len(answer.Text) > MaxText || !utf8.ValidString(answer.Text) || strings.ContainsAny(answer.Text, "\n\r\t\x00\x1b") {
			t.Fatalf("text %q", answer.Text)
		}
		if strings.Contains(answer.Text, secret) || strings.Contains(answer.Text, "pass-word") {
			t.Fatalf("text %q holds a secret", answer.Text)
		}
	})
}

// Others need a JSON decoder.
func TestRestatesOwnAnswersAreReadWithoutAJSONDecoder(t *testing.T) {
	t.Parallel()
	const id = "inv_16XXZZesSodW3oxGkV5Usr1kzxtNLm78YS"
	for _, body := range []string{
		`{"invocationId":"` + id + `","status":"Accepted"}`,
		`{"invocationId":"` + id + `","status":"PreviouslyAccepted"}`,
		`{"invocationId":"` + id + `","executionTime":"2026-11-30T11:54:10.849000000Z","status":"Accepted"}`,
		`{"invocationId":"` + id + `","executionTime":"2026-11-30T11:54:10.849000000Z","status":"PreviouslyAccepted"}`,
	} {
		found, previously, plain := accepted([]byte(body))
		assert.True(t, plain, body)
		assert.Equal(t, id, string(found))
		assert.Equal(t, strings.Contains(body, "Previously"), previously)
	}
	for _, body := range []string{
		``, `{}`, `{"invocationId":"a\u0041","status":"Accepted"}`, `{"invocationId":"a","status":"Accepted"} `, `{"invocationId":"a","status":"Other"}`,
		`{"invocationId":"a","executionTime":"\"","status":"Accepted"}`, `{"invocationId":"a","executionTime":"1","x":"1","status":"Accepted"}`,
		`{"invocationId":"a","executionTime":"1"}`, `{"invocationId":"a"}`, `{"invocationId":"a","status":"Accepted","status":"PreviouslyAccepted"}`,
	} {
		_, _, plain := accepted([]byte(body))
		assert.False(t, plain, body)
	}
}

// A key that is put into a path, and taken out of it as Restate does, is the same key.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{"a/b", "a b", "a+b", "100%", "%2F", "x?y", "x#y", ".", "..", "ü", "😀", "a\x00b", "a\r\nb", "|^`\"\\", "%zz", "\xff", ""} {
		f.Add(seed, "/prefix%2F/", false)
		f.Add(seed, "", true)
	}
	f.Fuzz(func(t *testing.T, key, prefix string, restatePath bool) {
		client, err := New(Config{URL: "http://restate:8080/" + prefix, RestatePath: restatePath})
		send := Send{Workflow: "W", Key: key, Handler: "run"}
		if err != nil || send.Check() != nil {
			return
		}
		address := client.url(&send)
		target := address.RequestURI()
		before, after := client.prefix+"W/", "/run"+client.suffix
		path, found := strings.CutPrefix(target, before)
		if !found {
			t.Fatalf("%q does not begin with %q", target, before)
		}
		if path, found = strings.CutSuffix(path, after); !found || strings.ContainsAny(path, "/?#") {
			t.Fatalf("%q: the key is %q", target, path)
		}
		if decoded, err := url.PathUnescape(path); err != nil || decoded != key {
			t.Fatalf("%q became %q (%v)", key, decoded, err)
		}
		for i := range len(target) {
			if target[i] <= ' ' || target[i] >= 0x7f {
				t.Fatalf("%q holds the byte %#x", target, target[i])
			}
		}
	})
}
