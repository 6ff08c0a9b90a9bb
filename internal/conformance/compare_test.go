package conformance_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redisevents/restatestart/internal/conformance"
)

const (
	oneID   = "inv_16XXZZesSodW3oxGkV5Usr1kzxtNLm78YS"
	otherID = "inv_1aSJzH0vIdMD6CQvVnwwCmV56ugtwjHkuj"
)

// wanted is an expectation with every kind of header and value.
func wanted() conformance.Expectation {
	return conformance.Expectation{
		Status: http.StatusAccepted,
		Headers: map[string]*string{
			"content-type": new("application/json"), "x-restate-id": new("{id}"), "x-restate-error-source": nil,
		},
		JSON: map[string]any{"invocationId": "{id}", "n": 1.0, "list": []any{"a", true}},
	}
}

func answered(status int, body string, headers ...string) conformance.Response {
	response := conformance.Response{Status: status, Header: http.Header{}, Body: []byte(body)}
	for i := 0; i < len(headers); i += 2 {
		response.Header.Add(headers[i], headers[i+1])
	}
	return response
}

func TestEachDifferenceIsDescribed(t *testing.T) {
	t.Parallel()
	const body = `{"invocationId":"` + oneID + `","n":1,"list":["a",true]}`
	headers := []string{"Content-Type", "application/json", "X-Restate-Id", oneID}
	for name, test := range map[string]struct {
		got  conformance.Response
		want []string
	}{
		"nothing": {answered(202, body, headers...), nil},
		"members in another order, white space, a header not expected": {
			answered(202, ` { "list": ["a", true], "n": 1.0, "invocationId": "`+oneID+`" }`, append(headers, "Date", "today")...), nil,
		},
		"status":            {answered(200, body, headers...), []string{"status: want 202, got 200"}},
		"header":            {answered(202, body, "Content-Type", "text/plain", "X-Restate-Id", oneID), []string{`header content-type: want "application/json", got "text/plain"`}},
		"header missing":    {answered(202, body, "X-Restate-Id", oneID), []string{`header content-type: want "application/json", got none`}},
		"header twice":      {answered(202, body, append(headers, "Content-Type", "b")...), []string{`header content-type: want "application/json", got "application/json, b"`}},
		"header unexpected": {answered(202, body, append(headers, "X-Restate-Error-Source", "ingress")...), []string{`header x-restate-error-source: want none, got ["ingress"]`}},
		"header empty, unexpected all the same": {
			answered(202, body, append(headers, "X-Restate-Error-Source", "")...), []string{`header x-restate-error-source: want none, got [""]`},
		},
		"another id in header and body": {
			answered(202, body, "Content-Type", "application/json", "X-Restate-Id", otherID),
			[]string{"json.invocationId: want {id} to be " + otherID + " as before, got " + oneID},
		},
		"no id": {
			answered(202, `{"invocationId":"inv_1","n":1,"list":["a",true]}`, headers...), []string{`json.invocationId: want "{id}", got "inv_1"`},
		},
		"member missing":    {answered(202, `{"invocationId":"`+oneID+`","list":["a",true]}`, headers...), []string{"json.n: want 1, got none"}},
		"member unexpected": {answered(202, `{"invocationId":"`+oneID+`","n":1,"list":["a",true],"x":null}`, headers...), []string{"json.x: want none, got null"}},
		"number":            {answered(202, `{"invocationId":"`+oneID+`","n":2,"list":["a",true]}`, headers...), []string{"json.n: want 1, got 2"}},
		"number as text":    {answered(202, `{"invocationId":"`+oneID+`","n":"1","list":["a",true]}`, headers...), []string{`json.n: want 1, got "1"`}},
		"element":           {answered(202, `{"invocationId":"`+oneID+`","n":1,"list":["a",false]}`, headers...), []string{"json.list[1]: want true, got false"}},
		"elements":          {answered(202, `{"invocationId":"`+oneID+`","n":1,"list":["a"]}`, headers...), []string{`json.list: want ["a",true], got ["a"]`}},
		"elements in another order": {
			answered(202, `{"invocationId":"`+oneID+`","n":1,"list":[true,"a"]}`, headers...),
			[]string{`json.list[0]: want "a", got true`, `json.list[1]: want true, got "a"`},
		},
		"no JSON":       {answered(202, "Accepted", headers...), []string{`body: want JSON, got "Accepted"`}},
		"JSON and more": {answered(202, body+"x", headers...), []string{`body: want JSON, got "` + `{\"invocationId\":\"` + oneID + `\",\"n\":1,\"list\":[\"a\",true]}x"`}},
		"no body":       {answered(202, "", headers...), []string{`body: want JSON, got ""`}},
		"everything": {answered(500, "[]"), []string{
			"status: want 202, got 500",
			`header content-type: want "application/json", got none`,
			`header x-restate-id: want "{id}", got none`,
			`json: want {"invocationId":"{id}","list":["a",true],"n":1}, got []`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := wanted()
			assert.Equal(t, test.want, want.Differences(test.got, conformance.NewBindings("k")))
		})
	}
}

// differences compares texts with patterns, one after the other, and returns the differences of the last.
func differences(bindings *conformance.Bindings, patternsAndTexts ...string) []string {
	var last []string
	for i := 0; i < len(patternsAndTexts); i += 2 {
		want := conformance.Expectation{Status: 200, Text: new(patternsAndTexts[i])}
		last = want.Differences(answered(200, patternsAndTexts[i+1]), bindings)
	}
	return last
}

func TestTextIsComparedLiterallyExceptForPlaceholders(t *testing.T) {
	t.Parallel()
	in := func(d time.Duration) string {
		return time.Now().UTC().Add(d).Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000000000Z")
	}
	hour := in(time.Hour)
	for name, test := range map[string]struct {
		steps []string
		same  bool
	}{
		"equal":                              {[]string{"length limit exceeded", "length limit exceeded"}, true},
		"longer":                             {[]string{"a", "ab"}, false},
		"a newline more":                     {[]string{"a", "a\n"}, false},
		"another case":                       {[]string{"a", "A"}, false},
		"empty":                              {[]string{"", ""}, true},
		"not empty":                          {[]string{"", " "}, false},
		"no expression":                      {[]string{"a.c [b]+", "abc b"}, false},
		"braces that are no placeholder":     {[]string{"E { a: [1], b: U { c: 0 } }", "E { a: [1], b: U { c: 0 } }"}, true},
		"the key":                            {[]string{"bad path: /{key}", "bad path: /k.1"}, true},
		"not the key":                        {[]string{"bad path: /{key}", "bad path: /kx1"}, false},
		"any text":                           {[]string{"bad: {any}", "bad: 1\n2"}, true},
		"any text has an end":                {[]string{"{any}: bad", "very: good"}, false},
		"accepted":                           {[]string{"{accepted}", "Accepted"}, true},
		"accepted before":                    {[]string{"{accepted}", "PreviouslyAccepted"}, true},
		"accepted otherwise":                 {[]string{"{accepted}", "accepted"}, false},
		"an id":                              {[]string{"{id}", oneID}, true},
		"an id and more":                     {[]string{"{id}", oneID + "0"}, false},
		"an id of another version":           {[]string{"{id}", "inv_0" + oneID[5:]}, false},
		"the same id":                        {[]string{"{id}", oneID, "{id}", oneID}, true},
		"another id":                         {[]string{"{id}", oneID, "{id}", otherID}, false},
		"two ids":                            {[]string{"{id:a}", oneID, "{id:b}", otherID, "{id:a}", oneID}, true},
		"two names of one id":                {[]string{"{id:a}", oneID, "{id:b}", oneID}, false},
		"a time":                             {[]string{"{time}", "2026-11-30T11:54:10.849000000Z"}, true},
		"a time of a whole second":           {[]string{"{time}", "2026-11-30T11:54:10Z"}, true},
		"a time in another zone":             {[]string{"{time}", "2026-11-30T11:54:10.849000000+01:00"}, false},
		"a time of too few digits":           {[]string{"{time}", "2026-11-30T11:54:10.849Z"}, false},
		"the same time":                      {[]string{"{time}", hour, "{time}", hour}, true},
		"another time":                       {[]string{"{time}", hour, "{time}", in(time.Minute)}, false},
		"a time in an hour":                  {[]string{"{time in 1h}", hour}, true},
		"a time in an hour, repeated":        {[]string{"{time in 1h}", hour, "{time}", hour}, true},
		"a time in an hour, but it is later": {[]string{"{time in 1h}", in(time.Hour + 10*time.Second)}, false},
		"a time in an hour, but it is sooner": {
			[]string{"{time in 1h}", in(time.Hour - 10*time.Second)}, false,
		},
		"a time in an hour, but it is now": {[]string{"{time in 1h}", in(0)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := differences(conformance.NewBindings("k.1"), test.steps...)
			assert.Equal(t, test.same, len(got) == 0, "%q", got)
		})
	}
}

func TestUnorderedArraysAreComparedAsSets(t *testing.T) {
	t.Parallel()
	want := conformance.Expectation{Status: 200, JSON: map[string]any{"services": []any{"{unordered}", "A", "B", "B"}}}
	for body, same := range map[string]bool{
		`{"services":["A","B","B"]}`:               true,
		`{"services":["B","A","B"]}`:               true,
		`{"services":["A","A","B"]}`:               false,
		`{"services":["A","B"]}`:                   false,
		`{"services":["A","B","B","{unordered}"]}`: false,
		`{"services":null}`:                        false,
	} {
		got := want.Differences(answered(200, body), conformance.NewBindings("k"))
		assert.Equal(t, same, len(got) == 0, "%s: %q", body, got)
	}
}
