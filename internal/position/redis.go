package position

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

// Redis is a Store in the positions hash of RedisEvents.
type Redis struct {
	client redis.UniversalClient
	hash   string
	meta   string // hash of the positions' metadata
	writer wire.InstanceID
	// process differs between processes that share a writer id: another one may have applied a reset.
	process string
}

// NewRedis returns the store of a consumer. Each position that it writes carries the writer's id.
func NewRedis(client redis.UniversalClient, keys wire.Keys, consumer string, writer wire.InstanceID) *Redis {
	return &Redis{client: client, hash: keys.Positions(consumer), meta: keys.PositionsMeta(consumer), writer: writer, process: wire.RandomInstanceID().String()}
}

// Load implements Store.
func (r *Redis) Load(ctx context.Context, partitions []int) ([]Stored, error) {
	if len(partitions) == 0 {
		return nil, nil
	}
	fields := make([]string, 0, 2*len(partitions))
	metadataFields := make([]string, 0, len(partitions))
	for _, partition := range partitions {
		fields = append(fields, wire.PositionField(partition), wire.ResetField(partition))
		metadataFields = append(metadataFields, wire.MetadataField(partition))
	}
	// Metadata names its position, so that a write between the two reads does no harm.
	values, err := r.client.HMGet(ctx, r.hash, fields...).Result()
	if err != nil {
		return nil, fmt.Errorf("read positions from %s: %w", r.hash, err)
	}
	metadata, err := r.client.HMGet(ctx, r.meta, metadataFields...).Result()
	if err != nil {
		return nil, fmt.Errorf("read positions from %s: %w", r.meta, err)
	}
	stored := make([]Stored, len(partitions))
	for i := range stored {
		if value, ok := values[2*i].(string); ok {
			id, err := wire.ParsePosition(value)
			if err != nil {
				stored[i].Unreadable = value
			} else {
				stored[i].ID, stored[i].Found = id, true
			}
		}
		if value, ok := values[2*i+1].(string); ok {
			stored[i].Reset = parseReset(value)
		}
		if value, ok := metadata[i].(string); ok && stored[i].Unreadable == "" {
			if at, text, err := wire.ParseMetadata(value); err == nil && at == stored[i].ID {
				stored[i].Metadata = text
			}
		}
	}
	return stored, nil
}

// saveScript writes each position that is ahead of the stored one, unless a reset is pending. Metadata is written when the
// position is, or is stored already, so that the two cannot disagree.
//
// KEYS: positions, meta. ARGV: writer, time, process, then for each write: partition, ms, seq, metadata, rewrite (ms
// empty: nothing to write; 0-0: only the metadata; rewrite not empty: see Write). Returns for each the pending reset, or
// an empty string.
const saveScript = wire.LuaIDs + `
local resets = {}
for i = 4, #ARGV, 5 do
  local partition, ms, seq, metadata, rewrite = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], ARGV[i + 4]
  local reset = redis.call('HGET', KEYS[1], '__reset:' .. partition)
  if parse(reset) then
    resets[#resets + 1] = reset
  else
    resets[#resets + 1] = ''
    local stored = redis.call('HGET', KEYS[1], partition)
    if ms ~= '' and (rewrite == '' or not stored or (stored:sub(-#ARGV[1] - 1) == '|' .. ARGV[1] and redis.call('HGET', KEYS[2], partition .. ':process') == ARGV[3])) then
      local oldMs, oldSeq = parse(stored)
      local zero = ms == '0' and seq == '0'
      local moves = not zero and (not oldMs or ahead(ms, seq, oldMs, oldSeq))
      if moves then
        redis.call('HSET', KEYS[1], partition, ms .. '-' .. seq .. '|' .. ARGV[1])
        redis.call('HSET', KEYS[2], partition .. ':updatedUtc', ARGV[2], partition .. ':instanceId', ARGV[1], partition .. ':process', ARGV[3])
      end
      if metadata ~= '' and (moves or (zero and not oldMs) or (oldMs == ms and oldSeq == seq)) then
        local text = ms .. '-' .. seq .. '|' .. metadata
        if redis.call('HGET', KEYS[2], partition .. ':read') ~= text
          or rewrite == '' and redis.call('HGET', KEYS[2], partition .. ':process') ~= ARGV[3] then
          redis.call('HSET', KEYS[2], partition .. ':read', text, partition .. ':process', ARGV[3])
        end
      end
    end
  end
end
return resets
`

// Save implements Store.
func (r *Redis) Save(ctx context.Context, writes []Write) ([]*Reset, error) {
	if len(writes) == 0 {
		return nil, nil
	}
	args := make([]any, 0, 3+5*len(writes))
	args = append(args, r.writer.String(), wire.FormatTime(time.Now()), r.process)
	for _, write := range writes {
		rewrite := ""
		if write.Rewrite {
			rewrite = "rewrite"
		}
		if write.ID.IsZero() && write.Metadata == "" {
			args = append(args, write.Partition, "", "", "", "")
		} else {
			args = append(args, write.Partition, write.ID.Ms, write.ID.Seq, write.Metadata, rewrite)
		}
	}
	values, err := redis.NewScript(saveScript).Run(ctx, r.client, []string{r.hash, r.meta}, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("write positions to %s: %w", r.hash, err)
	}
	if len(values) != len(writes) {
		return nil, fmt.Errorf("write positions to %s: %d replies to %d writes", r.hash, len(values), len(writes))
	}
	resets := make([]*Reset, len(writes))
	for i, value := range values {
		if value != "" {
			resets[i] = parseReset(value)
		}
	}
	return resets, nil
}

// resetScript moves a position to the target of its pending reset and removes the reset and the metadata, unless another
// reset is pending. KEYS: positions, meta. ARGV: writer, time, partition, reset, target.
const resetScript = `
if redis.call('HGET', KEYS[1], '__reset:' .. ARGV[3]) ~= ARGV[4] then return 0 end
redis.call('HSET', KEYS[1], ARGV[3], ARGV[5] .. '|' .. ARGV[1])
redis.call('HSET', KEYS[2], ARGV[3] .. ':updatedUtc', ARGV[2], ARGV[3] .. ':instanceId', ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[3] .. ':read', ARGV[3] .. ':process')
redis.call('HSET', KEYS[2], ARGV[3] .. ':resets', (tonumber(redis.call('HGET', KEYS[2], ARGV[3] .. ':resets')) or 0) + 1)
redis.call('HDEL', KEYS[1], '__reset:' .. ARGV[3])
return 1
`

// ApplyReset implements Store.
func (r *Redis) ApplyReset(ctx context.Context, partition int, reset Reset) (bool, error) {
	applied, err := redis.NewScript(resetScript).Run(ctx, r.client, []string{r.hash, r.meta},
		r.writer.String(), wire.FormatTime(time.Now()), partition, reset.Value, reset.Target.String()).Int()
	if err != nil {
		return false, fmt.Errorf("apply reset %s of partition %d in %s: %w", reset.Value, partition, r.hash, err)
	}
	return applied == 1, nil
}
