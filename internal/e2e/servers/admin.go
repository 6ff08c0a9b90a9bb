package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
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
// again returns the same id. It is retried for up to 15 s.
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
// An answer other than 2xx is an error.
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
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("%s: %s", response.Status, text)
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

// callWhileStarting repeats a POST until it succeeds: a starting server has no connections, or answers 5xx until its partition
// has a leader.
func (r *Restate) callWhileStarting(ctx context.Context, target string, body, answer any) error {
	return poll(ctx, adminPatience, func(ctx context.Context) (bool, error) {
		err := r.call(ctx, http.MethodPost, target, body, answer)
		return err == nil, err
	})
}

// Query runs one SQL statement on the server's own tables and returns its rows; a column that is NULL is left out of
// its row, and numbers are float64. The query is retried for up to 15 s.
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
