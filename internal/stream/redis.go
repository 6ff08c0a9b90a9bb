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
	types  map[string]bool // that are wanted; nil: all
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
func (r *Redis) Read(ctx context.Context, partition int, ask Ask) (Answer, error) {
	key := r.keys.Stream(partition)
	if ask.Block == 0 {
		return r.look(ctx, key, ask)
	}
	return r.plain(ctx, key, ask, ask.Block)
}

// look reads and describes the stream in one transaction: what is counted of it would otherwise not fit what was read.
// A server that refuses a transaction to this user, or a description, is read without, and the answer says why.
func (r *Redis) look(ctx context.Context, key string, ask Ask) (Answer, error) {
	raw := newRawReply()
	defer raw.release()
	var described *redis.Cmd
	read := redis.NewRawWriteToCmd(ctx, raw, "xread", "count", ask.Count, "streams", key, ask.After.String())
	read.SetFirstKeyPos(4)
	_, err := r.client.TxPipelined(ctx, func(transaction redis.Pipeliner) error {
		described = tailScript.Eval(ctx, transaction, []string{key})
		return transaction.Process(ctx, read)
	})
	if refusal := redis.Error(nil); errors.As(err, &refusal) && !errors.Is(err, redis.Nil) && read.Err() != nil {
		answer, readErr := r.plain(ctx, key, ask, -1)
		answer.Blind = fmt.Errorf("describe %s: %w", key, err)
		return answer, readErr
	}
	if read.Err() != nil {
		return Answer{}, fmt.Errorf("read %s: %w", key, read.Err())
	}
	answer := Answer{Bytes: len(raw.bytes)}
	answer.Pages, err = parsePages(raw.bytes, ask.Batch, r.types)
	if read.Val() != int64(len(raw.bytes)) {
		err = errReply // a hook of the client has made the call twice
	}
	if err != nil {
		return Answer{}, fmt.Errorf("read %s: %w", key, err)
	}
	tail, blind := parseTail(key, described)
	if answer.Blind = blind; blind == nil {
		answer.Tail = &tail
	}
	return answer, nil
}

// plain reads and nothing else. In go-redis a block below 0 is not to wait, and 0 would be for ever.
func (r *Redis) plain(ctx context.Context, key string, ask Ask, block time.Duration) (Answer, error) {
	streams, err := r.client.XRead(ctx, &redis.XReadArgs{
		Streams: []string{key}, ID: ask.After.String(), Count: int64(ask.Count), Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return Answer{}, nil // nothing came in time
	}
	if err != nil {
		return Answer{}, fmt.Errorf("read %s: %w", key, err)
	}
	var answer Answer
	for _, stream := range streams {
		for _, message := range stream.Messages {
			id, err := wire.ParseID(message.ID)
			if err != nil {
				return Answer{}, fmt.Errorf("read %s: %w", key, err)
			}
			kind, found := message.Values[wire.FieldType].(string)
			wanted := r.types == nil || found && r.types[kind]
			answer.Bytes += sizeOf(message)
			page := answer.page(wanted, ask.Batch)
			page.Read++
			page.Last = id
			if wanted {
				entry := wire.Decode(id, message.Values)
				entry.Name = message.ID
				page.Entries = append(page.Entries, entry)
			}
		}
	}
	return answer, nil
}

// sizeOf is how many bytes the texts of an entry have.
func sizeOf(message redis.XMessage) int {
	size := len(message.ID)
	for name, value := range message.Values {
		text, _ := value.(string)
		size += len(name) + len(text)
	}
	return size
}

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
