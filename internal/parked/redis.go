package parked

import (
	"context"
	"fmt"
	"math"

	"github.com/redis/go-redis/v9"

	"github.com/redisevents/restatestart/internal/wire"
)

// Redis is a Store in a stream with the topic's hash tag.
type Redis struct {
	client    redis.UniversalClient
	keys      wire.Keys
	stream    string
	index     string
	removed   string
	positions string
	meta      string // of the positions
}

// NewRedis returns the store of a consumer. It reads that consumer's stored positions too.
func NewRedis(client redis.UniversalClient, keys wire.Keys, consumer string) *Redis {
	return &Redis{
		client: client, keys: keys, positions: keys.Positions(consumer), meta: keys.PositionsMeta(consumer),
		stream: keys.Parked(consumer), index: keys.ParkedIndex(consumer), removed: keys.ParkedGone(consumer),
	}
}

// maxParkings bounds how many entries one script call copies: the server does nothing else meanwhile.
const maxParkings = 100

// Park implements Store. The server copies the entries; only those that were trimmed are sent.
func (r *Redis) Park(ctx context.Context, partition int, parkings []Parking) ([]wire.ID, error) {
	ids := make([]wire.ID, len(parkings))
	for first := 0; first < len(parkings); first += maxParkings {
		chunk := parkings[first:min(first+maxParkings, len(parkings))]
		if err := r.park(ctx, partition, chunk, ids[first:]); err != nil {
			return nil, fmt.Errorf("park entries of %s in %s: %w", r.keys.Stream(partition), r.stream, err)
		}
	}
	return ids, nil
}

// park runs the script, and again with their fields for the entries that were trimmed.
func (r *Redis) park(ctx context.Context, partition int, parkings []Parking, ids []wire.ID) error {
	replies, err := r.runPark(ctx, partition, parkings, false)
	if err != nil {
		return err
	}
	var missing []Parking
	var places []int
	for i, reply := range replies {
		ids[i] = parseNewID(reply)
		if reply == replyMissing {
			missing, places = append(missing, parkings[i]), append(places, i)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if replies, err = r.runPark(ctx, partition, missing, true); err != nil {
		return err
	}
	for i, reply := range replies {
		ids[places[i]] = parseNewID(reply)
	}
	return nil
}

// replyMissing is the script's reply for an entry whose fields it needs.
const replyMissing = "missing"

// parseNewID returns the id that an entry got, zero for any other reply.
func parseNewID(reply string) wire.ID {
	id, _ := wire.ParseID(reply)
	return id
}

func (r *Redis) runPark(ctx context.Context, partition int, parkings []Parking, withFields bool) ([]string, error) {
	args := []any{partition, 2*len(metaNames) - 1}
	for _, parking := range parkings {
		var fields []Field
		if withFields {
			fields = parking.Fields()
		}
		args = append(args, parking.Entry.ID.String(), 2*len(fields))
		args = appendFields(args, fields)
		args = appendFields(args, parking.metadata(r.keys.Stream(partition), partition))
		args = append(args, metaComplete)
	}
	keys := []string{r.keys.Stream(partition), r.stream, r.index, r.removed, r.positions, r.meta}
	replies, err := redis.NewScript(parkScript).Run(ctx, r.client, keys, args...).StringSlice()
	if err == nil && len(replies) != len(parkings) {
		err = fmt.Errorf("%d replies to %d entries", len(replies), len(parkings))
	}
	return replies, err
}

func appendFields(args []any, fields []Field) []any {
	for _, field := range fields {
		args = append(args, field.Name, field.Value)
	}
	return args
}

// List implements Store.
func (r *Redis) List(ctx context.Context, after wire.ID, limit int) ([]Entry, error) {
	first, exists := next(after)
	if !exists {
		return nil, nil
	}
	return r.readRange(ctx, first.String(), "+", limit)
}

// next returns the least id above another, and false for the greatest.
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

// readRange sends XRANGE itself, since go-redis makes a map of each entry, which keeps neither order nor repeated names.
func (r *Redis) readRange(ctx context.Context, first, last string, limit int) ([]Entry, error) {
	reply, err := r.client.Do(ctx, "XRANGE", r.stream, first, last, "COUNT", limit).Slice()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r.stream, err)
	}
	entries := make([]Entry, 0, len(reply))
	for _, raw := range reply {
		entry, err := parseReply(raw)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", r.stream, err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func parseReply(raw any) (Entry, error) {
	pair, _ := raw.([]any)
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
	return parse(id, toFields(texts)), nil
}

func toFields(texts []string) []Field {
	fields := make([]Field, 0, len(texts)/2)
	for i := 0; i+1 < len(texts); i += 2 {
		fields = append(fields, Field{texts[i], texts[i+1]})
	}
	return fields
}

// Remove implements Store.
func (r *Redis) Remove(ctx context.Context, id wire.ID) (Entry, bool, error) {
	keys := []string{r.stream, r.index, r.removed, r.positions, r.meta}
	meta, err := redis.NewScript(removeScript).Run(ctx, r.client, keys, id.String(), 2*len(metaNames)).StringSlice()
	if err != nil {
		return Entry{}, false, fmt.Errorf("remove %s from %s: %w", id, r.stream, err)
	}
	if len(meta) == 0 {
		return Entry{}, false, nil
	}
	entry := parse(id, toFields(meta))
	entry.Fields = nil
	return entry, true, nil
}
