package stream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

// Redis is a Source of partition streams. Each Read that waits holds a connection of the client's pool.
type Redis struct {
	client redis.UniversalClient
	keys   wire.Keys
	types  map[string]bool // wanted types; nil for all
}

// NewRedis returns the source of a topic's streams. If types are given, only entries of these are decoded and
// returned; an entry without a type is of none of them.
func NewRedis(client redis.UniversalClient, keys wire.Keys, types []string) *Redis {
	source := &Redis{client: client, keys: keys}
	for _, name := range types {
		if source.types == nil {
			source.types = make(map[string]bool, len(types))
		}
		source.types[name] = true
	}
	return source
}

// Read implements Source.
//
// Two decoders read replies: the one of this package, which allocates far less, where a reader is behind, and go-redis's
// where it waits. The raw command that the former needs has the client's ReadTimeout: go-redis adds the time that a
// command blocks only to commands that it makes itself, and a client's timeout may be shorter than Block.
func (r *Redis) Read(ctx context.Context, partition int, request ReadRequest) (ReadResult, error) {
	key := r.keys.Stream(partition)
	if request.Block == 0 {
		return r.readWithTail(ctx, key, request)
	}
	return r.readAlone(ctx, key, request, request.Block)
}

// readWithTail reads and describes the stream in one transaction, so that the two agree. If the server refuses this user
// the transaction or the description, it reads without, and the result says why.
func (r *Redis) readWithTail(ctx context.Context, key string, request ReadRequest) (ReadResult, error) {
	raw := newRawReply()
	defer raw.release()
	var described *redis.Cmd
	read := redis.NewRawWriteToCmd(ctx, raw, "xread", "count", request.Count, "streams", key, request.After.String())
	read.SetFirstKeyPos(4)
	_, err := r.client.TxPipelined(ctx, func(transaction redis.Pipeliner) error {
		described = tailScript.Eval(ctx, transaction, []string{key})
		return transaction.Process(ctx, read)
	})
	if refused := redis.Error(nil); errors.As(err, &refused) && !errors.Is(err, redis.Nil) && read.Err() != nil {
		result, readErr := r.readAlone(ctx, key, request, -1)
		result.TailErr = fmt.Errorf("describe %s: %w", key, err)
		return result, readErr
	}
	if read.Err() != nil {
		return ReadResult{}, fmt.Errorf("read %s: %w", key, read.Err())
	}
	result := ReadResult{Bytes: len(raw.bytes)}
	result.Pages, err = decodePages(raw.bytes, request.Batch, r.types)
	if read.Val() != int64(len(raw.bytes)) {
		err = errReply // a hook of the client made the call twice
	}
	if err != nil {
		return ReadResult{}, fmt.Errorf("read %s: %w", key, err)
	}
	tail, err := parseTail(key, described)
	if result.TailErr = err; err == nil {
		result.Tail = &tail
	}
	return result, nil
}

// readAlone reads without the tail. In go-redis, a negative block does not wait, and 0 waits forever.
func (r *Redis) readAlone(ctx context.Context, key string, request ReadRequest, block time.Duration) (ReadResult, error) {
	streams, err := r.client.XRead(ctx, &redis.XReadArgs{
		Streams: []string{key}, ID: request.After.String(), Count: int64(request.Count), Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return ReadResult{}, nil // nothing came in time
	}
	if err != nil {
		return ReadResult{}, fmt.Errorf("read %s: %w", key, err)
	}
	var result ReadResult
	for _, stream := range streams {
		for _, message := range stream.Messages {
			id, err := wire.ParseID(message.ID)
			if err != nil {
				return ReadResult{}, fmt.Errorf("read %s: %w", key, err)
			}
			name, found := message.Values[wire.FieldType].(string)
			wanted := r.types == nil || found && r.types[name]
			result.Bytes += sizeOf(message)
			page := result.page(wanted, request.Batch)
			page.Read++
			page.Last = id
			if wanted {
				entry := wire.Decode(id, message.Values)
				entry.Name = message.ID
				page.Entries = append(page.Entries, entry)
			}
		}
	}
	return result, nil
}

// sizeOf is the number of bytes in the texts of an entry.
func sizeOf(message redis.XMessage) int {
	size := len(message.ID)
	for name, value := range message.Values {
		text, _ := value.(string)
		size += len(name) + len(text)
	}
	return size
}

// tailFields is the number of values that tailScript returns for a stream that exists.
const tailFields = 5

// tailScript is XINFO STREAM with only the ids of the first and the last entry, not their fields.
var tailScript = redis.NewScript(`
local info = redis.pcall('XINFO', 'STREAM', KEYS[1])
if info.err then
  if info.err:find('no such key') then return {} end
  return info
end
local tail = {'', '', '', '', ''}
for i = 1, #info, 2 do
  local name, value = info[i], info[i + 1]
  if name == 'length' then tail[1] = tostring(value)
  elseif name == 'last-generated-id' then tail[2] = value
  elseif name == 'entries-added' then tail[3] = tostring(value)
  elseif name == 'first-entry' and value then tail[4] = value[1]
  elseif name == 'last-entry' and value then tail[5] = value[1] end
end
return tail
`)

// Tail implements Source.
func (r *Redis) Tail(ctx context.Context, partition int) (Tail, error) {
	key := r.keys.Stream(partition)
	return parseTail(key, tailScript.Run(ctx, r.client, []string{key}))
}

func parseTail(key string, described *redis.Cmd) (Tail, error) {
	values, err := described.StringSlice()
	if err != nil {
		return Tail{}, fmt.Errorf("describe %s: %w", key, err)
	}
	switch len(values) {
	case 0:
		return Tail{}, nil
	case tailFields:
	default: // not a Redis server
		return Tail{}, fmt.Errorf("describe %s: %d values, not %d", key, len(values), tailFields)
	}
	tail := Tail{Exists: true}
	if tail.Length, err = strconv.ParseInt(values[0], 10, 64); err != nil {
		return Tail{}, fmt.Errorf("describe %s: %w", key, err)
	}
	if tail.Added, err = strconv.ParseInt(values[2], 10, 64); err != nil {
		tail.Added = -1 // a server older than 7.0 does not count
	}
	if tail.Last, err = wire.ParseID(values[1]); err != nil {
		return Tail{}, fmt.Errorf("describe %s: %w", key, err)
	}
	if tail.Length > 0 {
		if tail.First, err = wire.ParseID(values[3]); err != nil {
			return Tail{}, fmt.Errorf("describe %s: %w", key, err)
		}
		if tail.End, err = wire.ParseID(values[4]); err != nil {
			return Tail{}, fmt.Errorf("describe %s: %w", key, err)
		}
	}
	return tail, nil
}
