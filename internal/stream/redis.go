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
	types  map[string]bool // nil: all
}

// NewRedis returns the source of a topic's streams. With types given, only entries of one of them are decoded
// and handed on; an entry without a type is of none.
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
func (r *Redis) Read(ctx context.Context, partition int, after wire.ID, count int, block time.Duration) (Page, error) {
	key := r.keys.Stream(partition)
	args := &redis.XReadArgs{Streams: []string{key}, ID: after.String(), Count: int64(count), Block: block}
	if block == 0 {
		args.Block = -1 // in go-redis, not to wait; 0 would be for ever
		return r.look(ctx, key, args)
	}
	return r.page(key, r.client.XRead(ctx, args))
}

// look reads and describes the stream in one transaction: what is counted of it would otherwise not fit what was read.
// A server that refuses a transaction to this user, or a description, is read without, and the page says why.
func (r *Redis) look(ctx context.Context, key string, args *redis.XReadArgs) (Page, error) {
	var described *redis.Cmd
	read := redis.NewRawCmd(ctx, "xread", "count", args.Count, "streams", key, args.ID)
	read.SetFirstKeyPos(4)
	_, err := r.client.TxPipelined(ctx, func(transaction redis.Pipeliner) error {
		described = tailScript.Eval(ctx, transaction, []string{key})
		return transaction.Process(ctx, read)
	})
	if refusal := redis.Error(nil); errors.As(err, &refusal) && !errors.Is(err, redis.Nil) && read.Err() != nil {
		page, readErr := r.page(key, r.client.XRead(ctx, args))
		page.Blind = fmt.Errorf("describe %s: %w", key, err)
		return page, readErr
	}
	if read.Err() != nil {
		return Page{}, fmt.Errorf("read %s: %w", key, read.Err())
	}
	page, err := parsePage(string(read.Val()), r.wants)
	if err != nil {
		return Page{}, fmt.Errorf("read %s: %w", key, err)
	}
	tail, blind := parseTail(key, described)
	if page.Blind = blind; blind == nil {
		page.Tail = &tail
	}
	return page, nil
}

// page makes a page of an answer.
func (r *Redis) page(key string, answer *redis.XStreamSliceCmd) (Page, error) {
	streams, err := answer.Result()
	if errors.Is(err, redis.Nil) {
		return Page{}, nil // nothing came in time
	}
	if err != nil {
		return Page{}, fmt.Errorf("read %s: %w", key, err)
	}
	var page Page
	for _, stream := range streams {
		page.Read += len(stream.Messages)
		page.Entries = make([]wire.Entry, 0, len(stream.Messages))
		for _, message := range stream.Messages {
			if page.Last, err = wire.ParseID(message.ID); err != nil {
				return Page{}, fmt.Errorf("read %s: %w", key, err)
			}
			if kind, found := message.Values[wire.FieldType].(string); r.wants(kind, found) {
				entry := wire.Decode(page.Last, message.Values)
				entry.Name = message.ID
				page.Entries = append(page.Entries, entry)
			}
		}
	}
	return page, nil
}

// wants tells whether entries of a type are wanted. One that has none is of no type.
func (r *Redis) wants(kind string, found bool) bool { return r.types == nil || found && r.types[kind] }

// tailFields is how many values tailScript returns of a stream that exists.
const tailFields = 5

// tailScript is XINFO STREAM without the first and the last entry, which it would send along whole.
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

func parseTail(key string, answer *redis.Cmd) (Tail, error) {
	values, err := answer.StringSlice()
	if err != nil {
		return Tail{}, fmt.Errorf("describe %s: %w", key, err)
	}
	switch len(values) {
	case 0:
		return Tail{}, nil
	case tailFields:
	default: // a server that is none
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
