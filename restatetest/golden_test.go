package restatetest_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/restatetest"
)

// recorded is one exchange with restate-server 1.7.12.
type recorded struct {
	Name    string
	Limit   int64 // of the body, in bytes; zero is the default
	Request struct {
		Method, Path, Body string
		Headers            map[string][]string
	}
	Response struct {
		Status  int
		Headers map[string]string
		Body    string
	}
}

var (
	anyID         = regexp.MustCompile(`inv_1[0-9A-Za-z…]*`)
	idHead        = regexp.MustCompile(`inv_1[0-9A-Za-z]{11}`)
	executionTime = regexp.MustCompile(`"executionTime":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}000000)?Z"`)
)

// blanked blanks what differs between servers: the first part of an invocation id, which this package computes otherwise, and the time.
func blanked(text string) string {
	return executionTime.ReplaceAllString(idHead.ReplaceAllString(text, "inv_1…"), `"executionTime":"…"`)
}

func TestAnswersAreThoseOfTheRealServer(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/sends.json")
	require.NoError(t, err)
	var exchanges []recorded
	require.NoError(t, json.Unmarshal(golden, &exchanges))
	require.Greater(t, len(exchanges), 100)

	servers := map[int64]*restatetest.Server{}
	for _, limit := range []int64{0, 1024} {
		servers[limit] = restatetest.New(t,
			restatetest.WithBodyLimit(limit),
			restatetest.WithWorkflow("Wf", "Run"),
			restatetest.WithPrivate("WfPrivate", "Run"),
			restatetest.WithInput("WfVoid", "Run", restatetest.InputNone),
			restatetest.WithInput("WfBytes", "Run", restatetest.InputBytes))
	}
	// In order, not as subtests: a repeat needs the first.
	for _, exchange := range exchanges {
		status, header, body := send(t, servers[exchange.Limit], exchange)
		wanted := exchange.Response
		assert.Equal(t, wanted.Status, status, exchange.Name)
		assert.Equal(t, blanked(wanted.Body), blanked(body), exchange.Name)
		for name, value := range wanted.Headers {
			if name == "content-length" && executionTime.MatchString(body) {
				value = strconv.Itoa(len(body)) // a time of whole seconds is shorter
			}
			assert.Equal(t, blanked(value), blanked(header.Get(name)), "%s: %s", exchange.Name, name)
		}
		if wanted.Headers["x-restate-error-source"] == "" {
			assert.Empty(t, header.Get("X-Restate-Error-Source"), exchange.Name)
		}
	}
}

// These ids are random or private to a server. The test compares which of them are equal.
func TestAnswersOfServicesAndObjectsAreThoseOfTheRealServer(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/services.json")
	require.NoError(t, err)
	var exchanges []recorded
	require.NoError(t, json.Unmarshal(golden, &exchanges))
	require.Greater(t, len(exchanges), 10)

	server := restatetest.New(t,
		restatetest.WithService("Svc", "Do"), restatetest.WithObject("Obj", "Do", "Peek"),
		restatetest.WithWorkflow("Wf", "Run"), restatetest.WithShared("Wf", "Get"), restatetest.WithInput("Wf", "Get", restatetest.InputNone))
	theirs, ours := map[string]string{}, map[string]string{}
	for _, exchange := range exchanges {
		status, header, body := send(t, server, exchange)
		wanted := exchange.Response
		assert.Equal(t, wanted.Status, status, exchange.Name)
		assert.Equal(t, anyID.ReplaceAllString(blanked(wanted.Body), "inv_1…"), anyID.ReplaceAllString(blanked(body), "inv_1…"), exchange.Name)
		assert.Equal(t, wanted.Headers["x-restate-error-source"], header.Get("X-Restate-Error-Source"), exchange.Name)

		id, theirID := header.Get("X-Restate-Id"), wanted.Headers["x-restate-id"]
		if known, found := theirs[theirID]; found {
			assert.Equal(t, known, id, exchange.Name)
		}
		if known, found := ours[id]; found {
			assert.Equal(t, known, theirID, exchange.Name)
		}
		theirs[theirID], ours[id] = id, theirID
	}
}

// send writes the request byte for byte as it was recorded, which net/http's client would not.
func send(t *testing.T, server *restatetest.Server, exchange recorded) (status int, header http.Header, body string) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: restate.test\r\n", exchange.Request.Method, exchange.Request.Path)
	framed := false
	for name, values := range exchange.Request.Headers {
		framed = framed || name == "transfer-encoding"
		for _, value := range values {
			fmt.Fprintf(&text, "%s: %s\r\n", name, value)
		}
	}
	if !framed && exchange.Request.Body != "" {
		fmt.Fprintf(&text, "Content-Length: %d\r\n", len(exchange.Request.Body))
	}
	text.WriteString("\r\n" + exchange.Request.Body)
	return raw(t, server, exchange.Request.Method, text.String())
}

func raw(t *testing.T, server *restatetest.Server, method, text string) (status int, header http.Header, body string) {
	t.Helper()
	conn, err := server.Dial(t.Context(), "tcp", "restate.test:80")
	require.NoError(t, err)
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(conn, text) // fails when the answer comes before the end of the request
	}()
	response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	require.NoError(t, err)
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	<-written
	return response.StatusCode, response.Header, string(content)
}
