package position

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

const (
	// countStep bounds how many entries one call counts: the server does nothing else meanwhile.
	countStep = 2_500
	// countBytes ends a call early: the server copies the entries that it counts.
	countBytes = 1 << 20
)

// countScript counts entries without sending them. KEYS: stream. ARGV: id to start after, last id, countStep, countBytes.
// Returns how many it counted, and the id to continue after, empty when these were all.
var countScript = redis.NewScript(`
local after, limit, maxBytes = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local seen, bytes, count = 0, 0, 5
while seen < limit and bytes < maxBytes do
  count = math.min(2 * count, 100, limit - seen) -- few at first: they may be large
  local page = redis.call('XRANGE', KEYS[1], '(' .. after, ARGV[2], 'COUNT', count)
  seen = seen + #page
  if #page < count then return {seen, ''} end
  after = page[#page][1]
  for _, entry in ipairs(page) do
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
  end
end
return {seen, after}
`)

// Count counts the entries after one id up to and including another, in steps that are short for the server. At the limit
// it stops and reports that there may be more; 0 is no limit. Entries that are removed meanwhile may or may not be counted.
func (a *Admin) Count(ctx context.Context, partition int, after, last wire.ID, limit int64) (counted int64, more bool, err error) {
	key := a.keys.Stream(partition)
	from := after.String()
	for after.Compare(last) < 0 && from != "" {
		if limit > 0 && counted >= limit {
			return counted, true, nil
		}
		if err := ctx.Err(); err != nil {
			return counted, true, fmt.Errorf("count entries of %s: %w", key, err)
		}
		values, err := countScript.Run(ctx, a.client, []string{key}, from, last.String(), countStep, countBytes).Slice()
		if err != nil {
			return counted, true, fmt.Errorf("count entries of %s: %w", key, err)
		}
		if len(values) != 2 {
			return counted, true, fmt.Errorf("count entries of %s: %w", key, errReply)
		}
		step, _ := values[0].(int64)
		from, _ = values[1].(string)
		counted += step
	}
	return counted, false, nil
}
