package position

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

// Admin looks at a consumer's positions from outside, and moves them by the marker protocol of RedisEvents: the target
// becomes the stored position, and a marker beside it asks the consumer that runs to go there. It is safe for concurrent
// use.
type Admin struct {
	client   redis.UniversalClient
	keys     wire.Keys
	consumer string
}

// NewAdmin returns the Admin of one consumer on one topic.
func NewAdmin(client redis.UniversalClient, keys wire.Keys, consumer string) *Admin {
	return &Admin{client: client, keys: keys, consumer: consumer}
}

// View is what the server holds for one partition, at one moment.
type View struct {
	Stored

	Writer    string    // who wrote the position, empty where that is not said
	WrittenAt time.Time // zero where that is not said

	Exists     bool    // the stream; where it does not, what follows is zero
	Length     int64   // entries in it
	First      wire.ID // the lowest of them; meaningful when Length is above 0
	Last       wire.ID // greatest id the stream ever gave out
	Added      int64   // entries ever added, -1 where the server does not say (before Redis 7)
	ServerTime time.Time
}

// luaStream looks at a stream: it returns its length and last id, and how many entries were ever added. XINFO STREAM
// would send along the first and the last entry whole.
const luaStream = `
local function describe(key)
  local info = redis.pcall('XINFO', 'STREAM', key)
  if info.err then
    if info.err:find('no such key') then return nil end
    return info
  end
  local found = {length = '0', last = '0-0', added = '-1'}
  for i = 1, #info, 2 do
    local name, value = info[i], info[i + 1]
    if name == 'length' then found.length = tostring(value)
    elseif name == 'last-generated-id' then found.last = value
    elseif name == 'entries-added' then found.added = string.format('%.0f', value) end
  end
  return found
end
`

// viewScript reads all of a View. KEYS: positions, meta, stream. ARGV: partition.
var viewScript = redis.NewScript(luaStream + `
local stream = describe(KEYS[3])
if stream and stream.err then return stream end
local first = false
if stream and stream.length ~= '0' then first = redis.call('XRANGE', KEYS[3], '-', '+', 'COUNT', 1)[1][1] end
stream = stream or {}
local time = redis.call('TIME')
return {
  redis.call('HGET', KEYS[1], ARGV[1]), redis.call('HGET', KEYS[1], '__reset:' .. ARGV[1]),
  redis.call('HGET', KEYS[2], ARGV[1] .. ':updatedUtc'),
  stream.length or false, first, stream.last or false, stream.added or false, time[1], time[2],
}
`)

// View looks at a partition.
func (a *Admin) View(ctx context.Context, partition int) (View, error) {
	values, err := viewScript.Run(ctx, a.client, a.names(partition), partition).Slice()
	if err != nil {
		return View{}, fmt.Errorf("look at partition %d: %w", partition, err)
	}
	view, err := readView(values)
	if err != nil {
		return View{}, fmt.Errorf("look at partition %d: %w", partition, err)
	}
	return view, nil
}

var errAnswer = errors.New("an answer of the server that makes no sense")

func readView(values []any) (View, error) {
	if len(values) != 9 {
		return View{}, errAnswer
	}
	var texts [9]string
	for i, value := range values {
		texts[i], _ = value.(string)
	}
	var view View
	if _, found := values[0].(string); found {
		id, err := wire.ParsePosition(texts[0])
		if err != nil {
			view.Unreadable = texts[0]
		} else {
			view.ID, view.Found, view.Writer = id, true, wire.ParseWriter(texts[0])
		}
		view.WrittenAt = wire.ParseTime(texts[2])
	}
	view.Reset = parseReset(texts[1])
	seconds, err := strconv.ParseInt(texts[7], 10, 64)
	micros, errMicros := strconv.ParseInt(texts[8], 10, 64)
	if err != nil || errMicros != nil {
		return View{}, errAnswer
	}
	view.ServerTime = time.Unix(seconds, micros*int64(time.Microsecond))
	if texts[3] == "" {
		return view, nil
	}
	view.Exists = true
	var errs [4]error
	view.Length, errs[0] = strconv.ParseInt(texts[3], 10, 64)
	view.Last, errs[1] = wire.ParseID(texts[5])
	view.Added, errs[2] = strconv.ParseInt(texts[6], 10, 64)
	if view.Length > 0 {
		view.First, errs[3] = wire.ParseID(texts[4])
	}
	return view, errors.Join(errs[:]...)
}

// Partitions are those that the positions hash holds something about, in order.
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

// BeyondError says that a reset was refused: its target is beyond everything that the stream ever held.
type BeyondError struct{ Target, Last wire.ID }

func (e *BeyondError) Error() string {
	return fmt.Sprintf("%s is beyond the stream's last id, %s", e.Target, e.Last)
}

// requestScript asks for a reset: position and marker, in one step, unless the target is beyond the stream. What was
// stored before is noted beside, for one who withdraws the reset; of several that replace each other, what was stored
// before the first.
//
// KEYS: positions, meta, stream. ARGV: partition, target ms, target seq, writer, time. Returns the stream's last id
// when the target is beyond it, else an empty string.
var requestScript = redis.NewScript(wire.LuaIDs + luaStream + `
local partition, target = ARGV[1], ARGV[2] .. '-' .. ARGV[3]
local stream = describe(KEYS[3]) or {last = '0-0'}
if stream.err then return stream end
local ms, seq = parse(stream.last)
local before = redis.call('HGET', KEYS[1], partition) or ''
if before:match('^[^|]*') ~= target and ahead(ARGV[2], ARGV[3], ms, seq) then return stream.last end
local marker = redis.call('HGET', KEYS[1], '__reset:' .. partition)
if marker and before == marker:match('^[^|]*') .. '|' .. ARGV[4] then
  local noted = redis.call('HGET', KEYS[2], partition .. ':resetFrom') or ''
  if noted:sub(1, #marker + 1) == marker .. ' ' then before = noted:sub(#marker + 2) end
end
marker = target .. '|' .. ARGV[5]
redis.call('HSET', KEYS[1], partition, target .. '|' .. ARGV[4], '__reset:' .. partition, marker)
redis.call('HSET', KEYS[2], partition .. ':updatedUtc', ARGV[5], partition .. ':instanceId', ARGV[4],
  partition .. ':resetFrom', marker .. ' ' .. before)
return ''
`)

// Request asks for a partition to go on behind an id. The error is a *BeyondError when the stream never held so much.
func (a *Admin) Request(ctx context.Context, partition int, target wire.ID) error {
	last, err := requestScript.Run(ctx, a.client, a.names(partition),
		partition, target.Ms, target.Seq, wire.AdminWriter, wire.FormatTime(time.Now())).Text()
	if err != nil {
		return fmt.Errorf("write a reset to %s: %w", a.keys.Positions(a.consumer), err)
	}
	if last == "" {
		return nil
	}
	beyond := &BeyondError{Target: target}
	if beyond.Last, err = wire.ParseID(last); err != nil {
		return errAnswer
	}
	return beyond
}

// ErrForeign says that a reset cannot be withdrawn: somebody else asked for it, and where the position stood before is
// not known.
var ErrForeign = errors.New("the pending reset was not asked for by this package, and where the position stood before it is not known")

// withdrawScript takes a pending reset back, and puts the position back that stood before it, unless a consumer has
// written its own since. KEYS: positions, meta. ARGV: partition, writer.
var withdrawScript = redis.NewScript(`
local partition = ARGV[1]
local marker = redis.call('HGET', KEYS[1], '__reset:' .. partition)
if not marker then return 'none' end
if redis.call('HGET', KEYS[1], partition) == marker:match('^[^|]*') .. '|' .. ARGV[2] then
  local noted = redis.call('HGET', KEYS[2], partition .. ':resetFrom') or ''
  if noted:sub(1, #marker + 1) ~= marker .. ' ' then return 'foreign' end
  local before = noted:sub(#marker + 2)
  if before == '' then
    redis.call('HDEL', KEYS[1], partition)
  else
    redis.call('HSET', KEYS[1], partition, before)
  end
  redis.call('HDEL', KEYS[2], partition .. ':updatedUtc', partition .. ':instanceId')
end
redis.call('HDEL', KEYS[1], '__reset:' .. partition)
redis.call('HDEL', KEYS[2], partition .. ':resetFrom')
return 'withdrawn'
`)

// Withdraw takes a partition's pending reset back. It reports false when there is none, or none any more.
func (a *Admin) Withdraw(ctx context.Context, partition int) (bool, error) {
	outcome, err := withdrawScript.Run(ctx, a.client, a.names(partition)[:2], partition, wire.AdminWriter).Text()
	switch {
	case err != nil:
		return false, fmt.Errorf("withdraw a reset from %s: %w", a.keys.Positions(a.consumer), err)
	case outcome == "foreign":
		return false, ErrForeign
	default:
		return outcome == "withdrawn", nil
	}
}

// names are the keys of a partition, in the scripts' order.
func (a *Admin) names(partition int) []string {
	return []string{a.keys.Positions(a.consumer), a.keys.PositionsMeta(a.consumer), a.keys.Stream(partition)}
}
