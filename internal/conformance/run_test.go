package conformance_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/conformance"
)

const (
	accepted = "HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\n{}"
	interim  = "HTTP/1.1 100 Continue\r\n\r\n"
)

// canned dials a server in memory that reads one request per connection and always answers the same.
func canned(answer string) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			request, err := http.ReadRequest(bufio.NewReader(server))
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			_, _ = io.WriteString(server, answer)
		}()
		return client, nil
	}
}

func tried(t *testing.T, steps string, dial func(context.Context) (net.Conn, error)) error {
	t.Helper()
	suite, err := loadCases(`{"cases":[{"name":"c","profile":"p","steps":[` + steps + `]}]}`)
	require.NoError(t, err)
	return suite.Cases[0].Try(t.Context(), conformance.Target{Name: "canned", Version: "1.7.12", Profile: "p", Dial: dial})
}

const post = `{"request":{"method":"POST","target":"/Wf/{key}/Run/send","body":"{\"n\":1}"},"answer":{"status":202,"json":{}}}`

func TestAnExpectedAnswerPasses(t *testing.T) {
	t.Parallel()
	require.NoError(t, tried(t, post+","+post, canned(accepted)))
	require.NoError(t, tried(t, post, canned(interim+accepted)), "interim answers are skipped")
}

func TestAnUnexpectedAnswerIsAMismatch(t *testing.T) {
	t.Parallel()
	for answer, difference := range map[string]string{
		strings.Replace(accepted, "202", "200", 1):                          "status: want 202, got 200",
		strings.Replace(accepted, "{}", "[]", 1):                            "json: want {}, got []",
		"HTTP/1.1 202 Accepted\r\nconnection: close\r\n\r\n{\"more\":true}": "json.more: want none, got true",
	} {
		err := tried(t, post+","+post, canned(answer))
		var mismatch *conformance.MismatchError
		require.ErrorAs(t, err, &mismatch, answer)
		assert.Equal(t, []string{difference}, mismatch.Differences)
		assert.Equal(t, 1, mismatch.Step)
		assert.Equal(t, 2, mismatch.Steps)
		shown := mismatch.Error()
		assert.Contains(t, shown, "canned 1.7.12, case \"c\", step 1 of 2:\n  "+difference+"\n")
		assert.Contains(t, shown, "sent: \"POST /Wf/", "the request is shown")
		assert.Contains(t, shown, `want: {"status":202,`, "what is wanted is shown")
		assert.Contains(t, shown, `got:  {"body":`, "what came is shown")
	}
}

func TestPlaceholdersStayBoundAcrossSteps(t *testing.T) {
	t.Parallel()
	ids := []string{oneID, oneID, otherID}
	dialled := 0
	dial := func(ctx context.Context) (net.Conn, error) {
		dialled++
		return canned("HTTP/1.1 202 Accepted\r\nconnection: close\r\nx-restate-id: " + ids[dialled-1] + "\r\n\r\n{}")(ctx)
	}
	step := strings.Replace(post, `"json"`, `"headers":{"x-restate-id":"{id}"},"json"`, 1)
	err := tried(t, step+","+step+","+step, dial)
	var mismatch *conformance.MismatchError
	require.ErrorAs(t, err, &mismatch)
	assert.Equal(t, 3, mismatch.Step)
	assert.Equal(t, []string{"header x-restate-id: want {id} to be " + oneID + " as before, got " + otherID}, mismatch.Differences)
	assert.Equal(t, 3, dialled, "one connection per step")
}

func TestAMissingAnswerIsNotAMismatch(t *testing.T) {
	t.Parallel()
	held := `{"on":"a","hold":true,"request":{"method":"POST","target":"/","headers":["expect: 100-continue","content-length: 1"]}},
		{"on":"a","rest":"x","answer":{"status":202,"json":{}}}`
	refused := func(context.Context) (net.Conn, error) { return nil, net.ErrClosed }
	for name, test := range map[string]struct {
		steps string
		dial  func(context.Context) (net.Conn, error)
		err   string
	}{
		"closed without one":   {post, canned(""), `canned 1.7.12, case "c", step 1 of 1: read the answer: unexpected EOF`},
		"closed in the middle": {post, canned(accepted[:len(accepted)-1]), `canned 1.7.12, case "c", step 1 of 1: read the body of answer 202: unexpected EOF`},
		"refused":              {post, refused, `canned 1.7.12, case "c", step 1 of 1: dial: use of closed network connection`},
		"the body was not asked for": {
			held, answeringAtOnce("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"),
			`canned 1.7.12, case "c", step 1 of 2: wait for 100 Continue: got 202 Accepted`,
		},
		"cut in memory": {
			strings.Replace(post, `"request"`, `"cut":true,"request"`, 1), canned(accepted),
			`canned 1.7.12, case "c", step 1 of 1: this connection cannot be closed by half: dial TCP`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tried(t, test.steps, test.dial)
			require.EqualError(t, err, test.err)
			var mismatch *conformance.MismatchError
			assert.NotErrorAs(t, err, &mismatch)
		})
	}
}

// answeringAtOnce is canned, but does not wait for the body.
func answeringAtOnce(answer string) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			if _, err := http.ReadRequest(bufio.NewReader(server)); err == nil {
				_, _ = io.WriteString(server, answer)
			}
		}()
		return client, nil
	}
}

func TestRequestsAreSentByteForByte(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		`{"method":"post","target":"/a b|{base64:6QA=}?x#y"}`: "post /a b|\xe9\x00?x#y HTTP/1.1\r\nhost: restate.test\r\n\r\n",
		`{"method":"POST","target":"*","body":""}`:            "POST * HTTP/1.1\r\nhost: restate.test\r\ncontent-length: 0\r\n\r\n",
		`{"method":"POST","target":"/","headers":["x y: 1","X-Y:{repeat:ab:3}"],"body":"{repeat: :2}é"}`: "POST / HTTP/1.1\r\nhost: restate.test\r\n" +
			"x y: 1\r\nX-Y:ababab\r\ncontent-length: 4\r\n\r\n  é",
		`{"method":"POST","target":"/","headers":["Content-Length: x"],"body":"{n}"}`: "",
		`{"method":"POST","target":"/","headers":["Content-Length: 9"],"body":"{ n }"}`: "POST / HTTP/1.1\r\nhost: restate.test\r\n" +
			"Content-Length: 9\r\n\r\n{ n }",
		`{"method":"POST","target":"/","headers":["Transfer-Encoding: chunked"],"body":"0\r\n\r\n"}`: "POST / HTTP/1.1\r\nhost: restate.test\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		sent := make(chan string, 1)
		dial := func(context.Context) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				buffer := make([]byte, 1024)
				n, _ := server.Read(buffer)
				sent <- string(buffer[:n])
				_, _ = io.WriteString(server, accepted)
			}()
			return client, nil
		}
		suite, err := loadCases(`{"cases":[{"name":"c","profile":"p","steps":[{"request":` + request + `,"answer":{"status":202,"json":{}}}]}]}`)
		if want == "" {
			require.EqualError(t, err, `case "c": step 1: placeholder {n}: unknown in a request`)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, suite.Cases[0].Try(t.Context(), conformance.Target{Dial: dial}))
		assert.Equal(t, want, <-sent)
	}
}
