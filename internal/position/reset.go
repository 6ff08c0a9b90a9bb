package position

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

// BeyondError rejects a reset whose target is beyond every id that the stream ever held.
type BeyondError struct{ Target, Last wire.ID }

func (e *BeyondError) Error() string {
	return fmt.Sprintf("%s is beyond the stream's last id, %s", e.Target, e.Last)
}

// requestScript writes position and marker of a reset in one step, unless the target is beyond the stream. The position
// that it replaces is kept in the meta hash, for a cancellation: of several resets in a row, the one before the first.
//
// KEYS: see scriptKeys. ARGV: partition, target ms, target seq, writer, time. Returns the stream's last id when the
// target is beyond it, else an empty string.
var requestScript = redis.NewScript(wire.LuaIDs + luaStream + `
local partition, target = ARGV[1], ARGV[2] .. '-' .. ARGV[3]
local stream = describe(KEYS[3]) or {last = '0-0'}
if stream.err then return stream end
local ms, seq = parse(stream.last)
local before = redis.call('HGET', KEYS[1], partition) or ''
if before:match('^[^|]*') ~= target and ahead(ARGV[2], ARGV[3], ms, seq) then return stream.last end
local marker = redis.call('HGET', KEYS[1], '__reset:' .. partition)
if marker and before == marker:match('^[^|]*') .. '|' .. ARGV[4] then
  local origin = redis.call('HGET', KEYS[2], partition .. ':resetFrom') or ''
  if origin:sub(1, #marker + 1) == marker .. ' ' then before = origin:sub(#marker + 2) end
end
marker = target .. '|' .. ARGV[5]
redis.call('HSET', KEYS[1], partition, target .. '|' .. ARGV[4], '__reset:' .. partition, marker)
redis.call('HSET', KEYS[2], partition .. ':updatedUtc', ARGV[5], partition .. ':instanceId', ARGV[4],
  partition .. ':resetFrom', marker .. ' ' .. before)
return ''
`)

// RequestReset asks for a partition to resume after an id. The error is a *BeyondError when the target is beyond
// everything that the stream ever held.
func (a *Admin) RequestReset(ctx context.Context, partition int, target wire.ID) error {
	last, err := requestScript.Run(ctx, a.client, a.scriptKeys(partition),
		partition, target.Ms, target.Seq, wire.AdminWriter, wire.FormatTime(time.Now())).Text()
	if err != nil {
		return fmt.Errorf("write a reset to %s: %w", a.keys.Positions(a.consumer), err)
	}
	if last == "" {
		return nil
	}
	beyond := &BeyondError{Target: target}
	if beyond.Last, err = wire.ParseID(last); err != nil {
		return errReply
	}
	return beyond
}

// ErrForeign rejects the cancellation of a reset that something else requested: the position before it is unknown.
var ErrForeign = errors.New("the pending reset was not requested by this library, and the position before it is unknown")

// cancelScript removes a pending reset and restores the position before it, unless a consumer has written its own since.
// KEYS: positions, meta. ARGV: partition, writer.
var cancelScript = redis.NewScript(`
local partition = ARGV[1]
local marker = redis.call('HGET', KEYS[1], '__reset:' .. partition)
if not marker then return 'none' end
if redis.call('HGET', KEYS[1], partition) == marker:match('^[^|]*') .. '|' .. ARGV[2] then
  local origin = redis.call('HGET', KEYS[2], partition .. ':resetFrom') or ''
  if origin:sub(1, #marker + 1) ~= marker .. ' ' then return 'foreign' end
  local before = origin:sub(#marker + 2)
  if before == '' then
    redis.call('HDEL', KEYS[1], partition)
  else
    redis.call('HSET', KEYS[1], partition, before)
  end
  redis.call('HDEL', KEYS[2], partition .. ':updatedUtc', partition .. ':instanceId')
end
redis.call('HDEL', KEYS[1], '__reset:' .. partition)
redis.call('HDEL', KEYS[2], partition .. ':resetFrom')
return 'cancelled'
`)

// CancelReset removes a partition's pending reset. It reports false when none is pending.
func (a *Admin) CancelReset(ctx context.Context, partition int) (bool, error) {
	outcome, err := cancelScript.Run(ctx, a.client, a.scriptKeys(partition)[:2], partition, wire.AdminWriter).Text()
	switch {
	case err != nil:
		return false, fmt.Errorf("cancel a reset in %s: %w", a.keys.Positions(a.consumer), err)
	case outcome == "foreign":
		return false, ErrForeign
	default:
		return outcome == "cancelled", nil
	}
}
