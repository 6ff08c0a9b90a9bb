package blocked_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/bench/blocked"
)

// A guard, with a number that does not depend on the machine: what is held while blocked is bounded by ReadAhead. The
// table holds it to the target itself; the race detector, and a few partitions only, leave no room for that here.
func TestC10WhatIsHeldWhileBlockedIsBounded(t *testing.T) { //nolint:paralleltest // it samples the heap of the process
	held, err := blocked.Measure(t, blocked.Setup{Partitions: 4, Waiting: 1_000_000, EntrySize: 1 << 10, Blocked: 5 * time.Minute})
	require.NoError(t, err)
	assert.Less(t, held.Most, held.Allowed*5/4)
	assert.Greater(t, held.Most, held.Allowed/4, "the half of it is what was read ahead, and has to be there")
	assert.Greater(t, held.Requests, 4*100)
	t.Logf("%d KiB held of %d KiB, %d samples, %d requests", held.Most>>10, held.Allowed>>10, held.Samples, held.Requests)
}
