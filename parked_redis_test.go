package restatestart_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart"
)

// B18, B46: an entry is parked with everything its producer wrote, whatever that is.
func TestC5AParkedEntryKeepsEveryFieldInItsOrder(t *testing.T) {
	t.Parallel()
	server, client := redisWorld(t, &redis.Options{})
	fields := []string{"x", "unknown", "b", "{}", "parked:reason", "a producer's own", "b", "{bad", "", "no name", "t", "A"}
	_, err := server.XAdd("dev:re:s:{claims}:0", "17-3", fields)
	require.NoError(t, err)
	consumer, err := restatestart.NewConsumer(client, "claims", restatestart.JSON[claim],
		restatestart.HandlerFunc[claim](func(context.Context, []restatestart.Message[claim]) error { return nil }),
		restatestart.ConsumerOptions{
			Consumer: "payout", KeyPrefix: "dev:re:", Block: 10 * time.Millisecond, OnMalformed: restatestart.MalformedPark,
		})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- consumer.Run(ctx) }()
	require.Eventually(t, func() bool {
		partitions := consumer.Status().Partitions
		return len(partitions) == 1 && partitions[0].Position == "17-3"
	}, 20*time.Second, time.Millisecond)
	cancel()
	require.NoError(t, <-result)

	entries, err := consumer.Parked(t.Context(), restatestart.ParkedPage{})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	var kept []string
	for _, field := range entries[0].Fields {
		kept = append(kept, field.Name, field.Value)
	}
	assert.Equal(t, fields, kept)
	assert.Equal(t, "dev:re:s:{claims}:0", entries[0].Stream)
	assert.Equal(t, "17-3", entries[0].EntryID)
	assert.Equal(t, restatestart.ReasonMalformed, entries[0].Reason)
	assert.False(t, entries[0].Trimmed)
	assert.WithinDuration(t, time.Now(), entries[0].ParkedAt, time.Minute)
	assert.ElementsMatch(t, []string{
		"dev:re:s:{claims}:0", "dev:re:p:{claims}:payout", "dev:re:p:{claims}:payout:meta", "dev:re:parked:{claims}:payout",
		"dev:re:parked-index:{claims}:payout",
	}, server.Keys())

	id, err := server.XAdd("dev:re:parked:{claims}:payout", "*", []string{"b", "{}"})
	require.NoError(t, err)
	entries, err = consumer.Parked(t.Context(), restatestart.ParkedPage{After: entries[0].ID})
	require.NoError(t, err)
	assert.Equal(t, []restatestart.ParkedEntry{{ID: id, Foreign: true, Fields: []restatestart.EntryField{{Name: "b", Value: "{}"}}}}, entries)
	require.ErrorIs(t, consumer.Replay(t.Context(), id), restatestart.ErrForeign)
	require.NoError(t, consumer.Discard(t.Context(), id))
}
