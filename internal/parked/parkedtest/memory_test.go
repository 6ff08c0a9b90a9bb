package parkedtest_test

import (
	"testing"

	"github.com/redisevents/restatestart/internal/parked"
	"github.com/redisevents/restatestart/internal/parked/parkedtest"
	"github.com/redisevents/restatestart/internal/wire"
)

func TestMemoryConformsToTheSuite(t *testing.T) {
	t.Parallel()
	parkedtest.Run(t, func(*testing.T) parkedtest.Harness {
		type place struct {
			partition int
			id        wire.ID
		}
		streams := map[place][]parked.Field{}
		positions := map[int]wire.ID{}
		keys := wire.Keys{Topic: "claims"}
		store := parkedtest.NewMemory(keys,
			func(partition int) wire.ID { return positions[partition] },
			func(partition int, id wire.ID) []parked.Field { return streams[place{partition, id}] })
		return parkedtest.Harness{
			Store: store, Other: store, Key: keys.Stream,
			Add:  func(partition int, id wire.ID, fields []parked.Field) { streams[place{partition, id}] = fields },
			Trim: func(partition int, id wire.ID) { delete(streams, place{partition, id}) },
			Move: func(partition int, id wire.ID) { positions[partition] = id },
		}
	})
}
