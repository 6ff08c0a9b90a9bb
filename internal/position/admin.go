package position

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

// Admin inspects and moves a consumer's positions from outside the consumer. Resets follow the marker protocol of
// RedisEvents: the target becomes the stored position, and a marker beside it asks the running consumer to move there.
// It is safe for concurrent use.
type Admin struct {
	client   redis.UniversalClient
	keys     wire.Keys
	consumer string
}

// NewAdmin returns the Admin of one consumer on one topic.
func NewAdmin(client redis.UniversalClient, keys wire.Keys, consumer string) *Admin {
	return &Admin{client: client, keys: keys, consumer: consumer}
}

// Partitions returns the partitions that have a field in the positions hash, in order.
func (a *Admin) Partitions(ctx context.Context) ([]int, error) {
	hash := a.keys.Positions(a.consumer)
	fields, err := a.client.HKeys(ctx, hash).Result()
	if err != nil {
		return nil, fmt.Errorf("read positions from %s: %w", hash, err)
	}
	var partitions []int
	for _, field := range fields {
		if partition, is := wire.FieldPartition(field); is {
			partitions = append(partitions, partition)
		}
	}
	slices.Sort(partitions)
	return slices.Compact(partitions), nil
}

// scriptKeys are the keys of a partition, in the order that the scripts expect: positions, their meta, stream.
func (a *Admin) scriptKeys(partition int) []string {
	return []string{a.keys.Positions(a.consumer), a.keys.PositionsMeta(a.consumer), a.keys.Stream(partition)}
}
