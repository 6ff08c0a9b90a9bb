package parked

import (
	"context"
	"fmt"
	"math"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

// Redis is a Store in a stream beside the topic's, under the same hash tag.
type Redis struct {
	client    redis.UniversalClient
	keys      wire.Keys
	stream    string
	index     string
	gone      string
	positions string
	meta      string // of the positions
}

// NewRedis returns the store of a consumer, whose stored positions it reads.
func NewRedis(client redis.UniversalClient, keys wire.Keys, consumer string) *Redis {
	return &Redis{
		client: client, keys: keys, positions: keys.Positions(consumer), meta: keys.PositionsMeta(consumer),
		stream: keys.Parked(consumer), index: keys.ParkedIndex(consumer), gone: keys.ParkedGone(consumer),
	}
}

// maxParkings bounds how many entries one script copies: the server does nothing else meanwhile.
const maxParkings = 100

// Park implements Store. Bodies stay on the server, but for those of entries that are not in their stream any more.
func (r *Redis) Park(ctx context.Context, partition int, parkings []Parking) ([]wire.ID, error) {
	ids := make([]wire.ID, len(parkings))
	for first := 0; first < len(parkings); first += maxParkings {
		some := parkings[first:min(first+maxParkings, len(parkings))]
		if err := r.park(ctx, partition, some, ids[first:]); err != nil {
			return nil, fmt.Errorf("park entries of %s in %s: %w", r.keys.Stream(partition), r.stream, err)
		}
	}
	return ids, nil
}

// park runs the script, and once more for what is not in its stream any more.
func (r *Redis) park(ctx context.Context, partition int, parkings []Parking, ids []wire.ID) error {
	answers, err := r.runPark(ctx, partition, parkings, false)
	if err != nil {
		return err
	}
	var missing []Parking
	var places []int
	for i, answer := range answers {
		ids[i] = newID(answer)
		if answer == answerMissing {
			missing, places = append(missing, parkings[i]), append(places, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if answers, err = r.runPark(ctx, partition, missing, true); err != nil {
		return err
	}
	for i, answer := range answers {
		ids[places[i]] = newID(answer)
	}
	return nil
}

// answerMissing is what the script answers of an entry that needs its fields sent along.
const answerMissing = "missing"

// newID is the id that an entry has got, zero where the answer is another.
func newID(answer string) wire.ID {
	id, _ := wire.ParseID(answer)
	return id
}

func (r *Redis) runPark(ctx context.Context, partition int, parkings []Parking, withFields bool) ([]string, error) {
	args := []any{partition, 2*len(metaNames) - 1}
	for _, parking := range parkings {
		var fields []Field
		if withFields {
			fields = known(parking.Entry)
		}
		args = append(args, parking.Entry.ID.String(), 2*len(fields))
		args = appendFields(args, fields)
		args = appendFields(args, parking.Failure.meta(r.keys.Stream(partition), partition, parking.Entry.ID))
		args = append(args, metaWhole)
	}
	keys := []string{r.keys.Stream(partition), r.stream, r.index, r.gone, r.positions, r.meta}
	answers, err := redis.NewScript(parkScript).Run(ctx, r.client, keys, args...).StringSlice()
	if err == nil && len(answers) != len(parkings) {
		err = fmt.Errorf("%d answers to %d entries", len(answers), len(parkings))
	}
	return answers, err
}

func appendFields(args []any, fields []Field) []any {
	for _, field := range fields {
		args = append(args, field.Name, field.Value)
	}
	return args
}

// List implements Store.
func (r *Redis) List(ctx context.Context, after wire.ID, limit int) ([]Entry, error) {
	first, some := next(after)
	if !some {
		return nil, nil
	}
	return r.readRange(ctx, first.String(), "+", limit)
}

// next is the least id above another. There is none above the greatest.
func next(id wire.ID) (wire.ID, bool) {
	switch {
	case id.Seq < math.MaxUint64:
		return wire.ID{Ms: id.Ms, Seq: id.Seq + 1}, true
	case id.Ms < math.MaxUint64:
		return wire.ID{Ms: id.Ms + 1}, true
	default:
		return id, false
	}
}

// Find implements Store.
func (r *Redis) Find(ctx context.Context, id wire.ID) (Entry, bool, error) {
	entries, err := r.readRange(ctx, id.String(), id.String(), 1)
	if err != nil || len(entries) == 0 {
		return Entry{}, false, err
	}
	return entries[0], true, nil
}

// readRange is XRANGE as Redis answers it: go-redis would make a map of each entry, in which a field that stands twice is
// there once, and none has a place.
func (r *Redis) readRange(ctx context.Context, first, last string, limit int) ([]Entry, error) {
	answer, err := r.client.Do(ctx, "XRANGE", r.stream, first, last, "COUNT", limit).Slice()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.stream, err)
	}
	entries := make([]Entry, 0, len(answer))
	for _, one := range answer {
		entry, err := parseAnswer(one)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", r.stream, err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func parseAnswer(one any) (Entry, error) {
	pair, _ := one.([]any)
	if len(pair) != 2 {
		return Entry{}, fmt.Errorf("an entry of %d parts", len(pair))
	}
	text, _ := pair[0].(string)
	id, err := wire.ParseID(text)
	if err != nil {
		return Entry{}, err
	}
	values, _ := pair[1].([]any)
	texts := make([]string, len(values))
	for i := range values {
		texts[i], _ = values[i].(string)
	}
	return parse(id, pairs(texts)), nil
}

func pairs(texts []string) []Field {
	fields := make([]Field, 0, len(texts)/2)
	for i := 0; i+1 < len(texts); i += 2 {
		fields = append(fields, Field{texts[i], texts[i+1]})
	}
	return fields
}

// Remove implements Store.
func (r *Redis) Remove(ctx context.Context, id wire.ID) (Entry, bool, error) {
	keys := []string{r.stream, r.index, r.gone, r.positions, r.meta}
	meta, err := redis.NewScript(removeScript).Run(ctx, r.client, keys, id.String(), 2*len(metaNames)).StringSlice()
	if err != nil {
		return Entry{}, false, fmt.Errorf("remove %s from %s: %w", id, r.stream, err)
	}
	if len(meta) == 0 {
		return Entry{}, false, nil
	}
	entry := parse(id, pairs(meta))
	entry.Fields = nil
	return entry, true, nil
}
