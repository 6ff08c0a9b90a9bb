package position

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

const (
	// countStep is how many entries one call counts at most. The server does nothing else meanwhile.
	countStep = 2_500
	// countBytes ends a call earlier: the server copies the entries that it counts.
	countBytes = 1 << 20
)

// countScript counts entries and sends none. KEYS: stream. ARGV: id to begin behind, last id, countStep, countBytes.
// Returns how many there are, and the id to go on behind, empty when these were all.
var countScript = redis.NewScript(`
local after, limit, most = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local seen, bytes, count = 0, 0, 5
while seen < limit and bytes < most do
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

// Count counts the entries that stand behind an id, up to and with another one, in steps that are short for the server.
// Beyond the limit it stops and says that there are more; a limit of 0 is none. Entries that are removed
// meanwhile may or may not be counted.
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
			return counted, true, fmt.Errorf("count entries of %s: %w", key, errAnswer)
		}
		step, _ := values[0].(int64)
		from, _ = values[1].(string)
		counted += step
	}
	return counted, false, nil
}
