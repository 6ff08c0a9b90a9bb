package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

const (
	// adminTimeout bounds one request to the admin API.
	adminTimeout = 10 * time.Second
	// adminPatience is how long a request is repeated while the server starts.
	adminPatience = 15 * time.Second
)

// Register registers the services served at serviceURL and returns the id of their deployment. Registering the same URL
// again returns the same id. It is retried for up to 15 s while the server starts; a refusal is an *AdminError.
func (r *Restate) Register(ctx context.Context, serviceURL string) (string, error) {
	var deployment struct {
		ID string `json:"id"`
	}
	err := r.callWhileStarting(ctx, r.admin+"/deployments", map[string]string{"uri": serviceURL}, &deployment)
	if err != nil {
		return "", fmt.Errorf("register %s: %w", serviceURL, err)
	}
	return deployment.ID, nil
}

// Unregister removes a deployment by force, even while invocations run on it. Starts of its workflows are then answered
// with 404; keys that were started before are known again once it is registered again.
func (r *Restate) Unregister(ctx context.Context, deployment string) error {
	target := r.admin + "/deployments/" + url.PathEscape(deployment) + "?force=true"
	if err := r.call(ctx, http.MethodDelete, target, nil, nil); err != nil {
		return fmt.Errorf("unregister %s: %w", deployment, err)
	}
	return nil
}

// call makes one request, with body as JSON unless it is nil, and decodes the answer into answer unless that is nil.
// An answer other than 2xx is an *AdminError.
func (r *Restate) call(ctx context.Context, method, target string, body, answer any) error {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, target, reader)
	if err != nil {
		return fmt.Errorf("build the request: %w", err)
	}
	// Without Accept a query is answered with an Arrow stream.
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		return readRefusal(response)
	}
	if answer == nil {
		// Read to its end, so that the connection is used again.
		_, err = io.Copy(io.Discard, response.Body)
	} else {
		err = json.NewDecoder(response.Body).Decode(answer)
	}
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	return nil
}

// callWhileStarting repeats a POST as long as its outcome is one that a starting server gives: no connection, or a 5xx
// because the partition has no leader yet.
func (r *Restate) callWhileStarting(ctx context.Context, target string, body, answer any) error {
	return poll(ctx, adminPatience, func(ctx context.Context) (bool, error) {
		err := r.call(ctx, http.MethodPost, target, body, answer)
		var refusal *AdminError
		var decoding *json.SyntaxError
		switch {
		case err == nil:
			return true, nil
		case errors.As(err, &refusal):
			return refusal.final(), err
		case errors.As(err, &decoding):
			return true, err
		default:
			return false, err
		}
	})
}

// Query runs one SQL statement on the server's own tables and returns its rows; a column that is NULL is left out of
// its row, and numbers are float64. The query is retried for up to 15 s while the server starts; a statement that the
// server refuses is an *AdminError.
func (r *Restate) Query(ctx context.Context, sql string) ([]map[string]any, error) {
	var answer struct {
		Rows []map[string]any `json:"rows"`
	}
	if err := r.callWhileStarting(ctx, r.admin+"/query", map[string]string{"query": sql}, &answer); err != nil {
		return nil, fmt.Errorf("query %q: %w", sql, err)
	}
	return answer.Rows, nil
}

// StartedKeys returns the key of every start of workflow that the server holds, in any status, in byte order. A key that
// ran again after its retention or a purge is there once: the workflow's service counts such runs.
func (r *Restate) StartedKeys(ctx context.Context, workflow string) ([]string, error) {
	rows, err := r.Query(ctx, "SELECT target_service_key AS key FROM sys_invocation_status"+
		" WHERE target_service_name = "+quote(workflow)+" ORDER BY target_service_key")
	if err != nil {
		return nil, err
	}
	keys := make([]string, 0, len(rows))
	for _, row := range rows {
		key, ok := row["key"].(string)
		if !ok {
			return nil, fmt.Errorf("an invocation of %s has no key: %v", workflow, row)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// CountByStatus returns how many starts of workflow the server holds in each status: pending, scheduled, ready,
// running, backing-off, suspended, paused or completed. A status without any is left out.
func (r *Restate) CountByStatus(ctx context.Context, workflow string) (map[string]int, error) {
	rows, err := r.Query(ctx, "SELECT status, count(*) AS n FROM sys_invocation"+
		" WHERE target_service_name = "+quote(workflow)+" GROUP BY status")
	if err != nil {
		return nil, err
	}
	counts := make(map[string]int, len(rows))
	for _, row := range rows {
		status, _ := row["status"].(string)
		n, ok := row["n"].(float64)
		if status == "" || !ok {
			return nil, fmt.Errorf("count the starts of %s: unexpected row %v", workflow, row)
		}
		counts[status] = int(n)
	}
	return counts, nil
}

// quote makes text a SQL string.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

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
	var answer struct {
		Message string `json:"message"`
		Code    string `json:"restate_code"`
	}
	if json.Unmarshal(text, &answer) == nil {
		refusal.Code, refusal.Text = answer.Code, answer.Message
	}
	refusal.Text = refusal.Text[:min(len(refusal.Text), refusalLimit)]
	return refusal
}

// wrongStatement matches the refusals of statements that will never work. The server answers most of them with the same
// 500 as a query that came before the partition had a leader ("node lookup for partition 0 failed"): only the text differs.
// An unknown text counts as a starting server.
var wrongStatement = regexp.MustCompile(`SQL error|Schema error|Error during planning|non valid invocation id`)

// final reports whether a server that had time to start would refuse the same request again.
func (e *AdminError) final() bool {
	return e.Status < http.StatusInternalServerError || e.Code != "" || wrongStatement.MatchString(e.Text)
}
