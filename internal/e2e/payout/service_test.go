package payout_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redisevents/restatestart/internal/e2e/payout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNamesMustBeGivenOnce(t *testing.T) {
	t.Parallel()
	_, err := payout.NewService("A", "B", "A")
	require.EqualError(t, err, `serve workflows ["A" "B" "A"]: A is there twice`)
	_, err = payout.NewService("")
	require.EqualError(t, err, `serve workflows [""]: a name is empty`)
}

func TestAServiceClosesTwice(t *testing.T) {
	t.Parallel()
	service, err := payout.NewService()
	require.NoError(t, err)
	assert.Same(t, service.Record, service.Of(payout.Workflow))
	require.NoError(t, service.Close())
	require.NoError(t, service.Close())
	assert.Empty(t, service.Executions())
}
