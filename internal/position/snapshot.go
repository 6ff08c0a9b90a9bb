package position

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

// Snapshot is what the server holds for one partition, read at one moment.
type Snapshot struct {
	Stored

	Writer    string    // who wrote the position, empty where unknown
	WrittenAt time.Time // zero where unknown

	Exists     bool    // the stream exists; otherwise its fields below are zero
	Length     int64   // entries in the stream
	First      wire.ID // lowest entry; meaningful when Length is above 0
	Last       wire.ID // greatest id that the stream ever generated
	Added      int64   // entries ever added, -1 where the server does not report it (before Redis 7)
	ServerTime time.Time
}

// luaStream describes a stream: its length, its last id, and how many entries were ever added. It runs in a script since
// XINFO STREAM would send the first and the last entry as well.
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

// snapshotScript reads a Snapshot. KEYS: see scriptKeys. ARGV: partition.
var snapshotScript = redis.NewScript(luaStream + `
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

// Snapshot reads a partition's position, its pending reset and the state of its stream in one step.
func (a *Admin) Snapshot(ctx context.Context, partition int) (Snapshot, error) {
	var snapshot Snapshot
	values, err := snapshotScript.Run(ctx, a.client, a.scriptKeys(partition), partition).Slice()
	if err == nil {
		snapshot, err = parseSnapshot(values)
	}
	if err != nil {
		return Snapshot{}, fmt.Errorf("inspect partition %d: %w", partition, err)
	}
	return snapshot, nil
}

var errReply = errors.New("unexpected reply of the server")

func parseSnapshot(values []any) (Snapshot, error) {
	if len(values) != 9 {
		return Snapshot{}, errReply
	}
	var texts [9]string
	for i, value := range values {
		texts[i], _ = value.(string)
	}
	var snapshot Snapshot
	if _, found := values[0].(string); found {
		id, err := wire.ParsePosition(texts[0])
		if err != nil {
			snapshot.Unreadable = texts[0]
		} else {
			snapshot.ID, snapshot.Found, snapshot.Writer = id, true, wire.ParseWriter(texts[0])
		}
		snapshot.WrittenAt = wire.ParseTime(texts[2])
	}
	snapshot.Reset = parseReset(texts[1])
	seconds, err := strconv.ParseInt(texts[7], 10, 64)
	micros, errMicros := strconv.ParseInt(texts[8], 10, 64)
	if err != nil || errMicros != nil {
		return Snapshot{}, errReply
	}
	snapshot.ServerTime = time.Unix(seconds, micros*int64(time.Microsecond))
	if texts[3] == "" {
		return snapshot, nil
	}
	snapshot.Exists = true
	var errs [4]error
	snapshot.Length, errs[0] = strconv.ParseInt(texts[3], 10, 64)
	snapshot.Last, errs[1] = wire.ParseID(texts[5])
	snapshot.Added, errs[2] = strconv.ParseInt(texts[6], 10, 64)
	if snapshot.Length > 0 {
		snapshot.First, errs[3] = wire.ParseID(texts[4])
	}
	return snapshot, errors.Join(errs[:]...)
}
