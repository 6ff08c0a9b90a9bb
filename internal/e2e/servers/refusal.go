package servers

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
)

// refusalLimit is how many bytes of a refusal are kept.
const refusalLimit = 1 << 10

// AdminError is an answer of the admin API that is not a success.
type AdminError struct {
	Status int
	Code   string // Restate's own error code, such as META0003, or ""
	Text   string // what the server said, at most 1 KiB of it
}

func (e *AdminError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Status, http.StatusText(e.Status), e.Text)
}

func readRefusal(response *http.Response) *AdminError {
	text, err := io.ReadAll(response.Body)
	if err != nil {
		text = fmt.Appendf(text, " (read the answer: %v)", err)
	}
	refusal := &AdminError{Status: response.StatusCode, Text: strings.TrimSpace(string(text))}
	var told struct {
		Message string `json:"message"`
		Code    string `json:"restate_code"`
	}
	if json.Unmarshal(text, &told) == nil {
		refusal.Code, refusal.Text = told.Code, told.Message
	}
	refusal.Text = refusal.Text[:min(len(refusal.Text), refusalLimit)]
	return refusal
}

// wrongStatement matches what the server says about a statement that no waiting can help. It answers most of them with
// the same 500 as a query that came before the partition had a leader ("node lookup for partition 0 failed"), so that
// only the text tells them apart. An unknown text is taken for a server that starts.
var wrongStatement = regexp.MustCompile(`SQL error|Schema error|Error during planning|non valid invocation id`)

// final tells whether the same request would be refused again by a server that had time to start.
func (e *AdminError) final() bool {
	return e.Status < http.StatusInternalServerError || e.Code != "" || wrongStatement.MatchString(e.Text)
}
