package parkedtest

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/wire"
)

// OnRedis returns the harness of a store on a Redis server or a double of one.
func OnRedis(t *testing.T, client redis.UniversalClient, keys wire.Keys, consumer string, store parked.Store) Harness {
	t.Helper()
	return Harness{
		Store: store, Other: parked.NewRedis(client, keys, consumer), Key: keys.Stream,
		Add: func(partition int, id wire.ID, fields []parked.Field) {
			values := make([]string, 0, 2*len(fields))
			for _, field := range fields {
				values = append(values, field.Name, field.Value)
			}
			assert.NoError(t, client.XAdd(t.Context(), &redis.XAddArgs{Stream: keys.Stream(partition), ID: id.String(), Values: values}).Err())
		},
		Trim: func(partition int, id wire.ID) {
			// Without the empty stream, an id can be added a second time.
			require.NoError(t, client.XDel(t.Context(), keys.Stream(partition), id.String()).Err())
			if client.XLen(t.Context(), keys.Stream(partition)).Val() == 0 {
				assert.NoError(t, client.Del(t.Context(), keys.Stream(partition)).Err())
			}
		},
		Move: func(partition int, id wire.ID) {
			assert.NoError(t, client.HSet(t.Context(), keys.Positions(consumer), wire.PositionField(partition), id.String()+"|writer").Err())
		},
	}
}
