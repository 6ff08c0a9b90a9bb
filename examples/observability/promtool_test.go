package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// promtool runs the tool of that name, which is part of Prometheus. The test fails if it is not installed.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	binary, err := exec.LookPath("promtool")
	require.NoError(t, err, "run `make tools`")
	output, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
	require.NoError(t, err, "promtool %s\n%s", strings.Join(args, " "), output)
}

type alertRule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	text, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []alertRule `yaml:"rules"`
		} `yaml:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

func TestTheAlertsFireOnlyWhenTheyShould(t *testing.T) {
	t.Parallel()
	promtool(t, "check", "rules", "--lint-fatal", "alerts.yml")
	promtool(t, "test", "rules", "alerts_test.yml")
}

func TestEveryAlertDescribesWhatToDoAndIsTested(t *testing.T) {
	t.Parallel()
	tests, err := os.ReadFile("alerts_test.yml")
	require.NoError(t, err)
	for _, rule := range alertRules(t) {
		assert.Contains(t, string(tests), `alertname="`+rule.Alert+`", alertstate="firing", severity="`+rule.Labels["severity"]+`"`)
		assert.Contains(t, []string{"critical", "warning"}, rule.Labels["severity"], rule.Alert)
		assert.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		assert.Regexp(t, "First check", rule.Annotations["description"], rule.Alert)
		assert.Equal(t, "https://github.com/redisevents/restatestart/blob/main/docs/operations.md#alerts", rule.Annotations["runbook_url"], rule.Alert)
	}
}

func writeTemporary(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}
