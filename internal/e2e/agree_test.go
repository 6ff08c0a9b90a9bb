package e2e_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/e2e/payout"
	"github.com/redisevents/restatestart/internal/e2e/servers"
)

// agree waits until everything is done and asserts that all the records tell the same: the stored positions are the
// ends of the streams, Restate holds one start of the workflow for each key, and its service ran each of them once.
func agree(t *testing.T, p *topic, restate *servers.Restate, workflow string, record *payout.Record, keys []string) {
	t.Helper()
	const limit = time.Minute
	deadline := time.Now().Add(limit)
	for {
		behind, err := p.behind(t.Context())
		if err == nil && len(behind) == 0 {
			break
		}
		require.NoError(t, t.Context().Err())
		require.True(t, time.Now().Before(deadline), "positions behind after %s: %v (last error: %v)", limit, behind, err)
		rest(t.Context(), interval)
	}
	require.Eventually(t, func() bool { return len(record.Executions()) >= len(keys) }, limit, interval, "%d runs", len(keys))
	awaitCompleted(t, restate, workflow, len(keys))

	want := slices.Sorted(slices.Values(keys))
	started, err := restate.StartedKeys(t.Context(), workflow)
	require.NoError(t, err)
	assert.Equal(t, want, started)
	once := make(map[string]int, len(keys))
	for _, key := range keys {
		once[key] = 1
	}
	assert.Equal(t, once, record.Executions())
}

// storedPosition is `<ms>-<seq>|<guid of the writer>`.
var storedPosition = regexp.MustCompile(`^(\d+-\d+)\|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// position returns the id stored for a partition, "" when there is none.
func (p *topic) position(ctx context.Context, partition int) (string, error) {
	value, err := p.client.HGet(ctx, p.Positions(consumerName), fmt.Sprint(partition)).Result()
	if err == redis.Nil { //nolint:errorlint // go-redis returns it as it is
		return "", nil
	}
	if err != nil {
		return "", err
	}
	parts := storedPosition.FindStringSubmatch(value)
	if parts == nil {
		return "", fmt.Errorf("position of partition %d is %q", partition, value)
	}
	return parts[1], nil
}

// last returns the id of the last entry of a partition, "" when it is empty.
func (p *topic) last(ctx context.Context, partition int) (string, error) {
	entries, err := p.client.XRevRangeN(ctx, p.Stream(partition), "+", "-", 1).Result()
	if err != nil || len(entries) == 0 {
		return "", err
	}
	return entries[0].ID, nil
}

// behind lists the partitions whose stored position is not the end of their stream.
func (p *topic) behind(ctx context.Context) ([]string, error) {
	var behind []string
	for partition := range p.partitions {
		stored, err := p.position(ctx, partition)
		if err != nil {
			return nil, err
		}
		last, err := p.last(ctx, partition)
		if err != nil {
			return nil, err
		}
		if stored != last {
			behind = append(behind, fmt.Sprintf("%d: %q of %q", partition, stored, last))
		}
	}
	return behind, nil
}

// bodiesUpToPositions returns the bodies of all partitions' entries up to the stored positions.
func (p *topic) bodiesUpToPositions(t *testing.T) []string {
	t.Helper()
	var bodies []string
	for partition := range p.partitions {
		stored, err := p.position(t.Context(), partition)
		require.NoError(t, err)
		if stored == "" {
			continue
		}
		bodies = append(bodies, p.bodies(t, partition, stored)...)
	}
	return bodies
}

// bodies returns the bodies of a partition's entries up to an id.
func (p *topic) bodies(t *testing.T, partition int, end string) []string {
	t.Helper()
	entries, err := p.client.XRange(t.Context(), p.Stream(partition), "-", end).Result()
	require.NoError(t, err)
	bodies := make([]string, len(entries))
	for i, entry := range entries {
		bodies[i], _ = entry.Values["b"].(string)
	}
	return bodies
}

// countClaims counts the bodies that carry a claim.
func countClaims(bodies []string) int {
	n := 0
	for _, body := range bodies {
		if strings.Contains(body, `"claimId"`) {
			n++
		}
	}
	return n
}
