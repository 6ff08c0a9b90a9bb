package restatetest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/restatetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// post sends a start of BonusPayout and returns the answer's status and body; the error is the client's.
func post(t *testing.T, server *restatetest.Server, key string) (status int, body string, err error) {
	t.Helper()
	return do(t, server.Client(), http.MethodPost, server.URL()+"/BonusPayout/"+key+"/run/send", `{"n":1}`)
}

func do(t *testing.T, client *http.Client, method, url, content string, header ...string) (status int, body string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(content))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}
