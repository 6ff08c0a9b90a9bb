package servers

import (
	"context"
	"fmt"
	"strings"
)

// Query runs one SQL statement on the server's own tables and returns its rows; a column that is NULL is left out of
// its row, and numbers are float64. While the server starts the query is tried again for up to 15 s; a statement that
// the server refuses is an *AdminError.
//
// Rows of completed invocations vanish with their retention, a day after completion unless the service says otherwise.
func (r *Restate) Query(ctx context.Context, sql string) ([]map[string]any, error) {
	var answer struct {
		Rows []map[string]any `json:"rows"`
	}
	if err := r.callWhileStarting(ctx, r.admin+"/query", map[string]string{"query": sql}, &answer); err != nil {
		return nil, fmt.Errorf("query %q: %w", sql, err)
	}
	return answer.Rows, nil
}

// StartedKeys returns the key of every start of workflow that the server holds, whatever became of it, in byte order. It
// counts every handler of the workflow. A key that was removed after its retention or by a purge is not there, and one
// that ran again after that is there once: count executions in the workflow's service for that.
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
